"""The scripted server does what its operations say, byte for byte and on time."""

import asyncio

import pytest

from widelane.errors import UsageError
from widelane.testing.scripted_server import ScriptedServer
from widelane.testing.virtual_time import run_virtual

JSON = {"content-type": "application/json"}
STREAM = {"content-type": "text/event-stream"}


async def connect(server):
    return await asyncio.open_connection("127.0.0.1", server.port)


def send(writer, method="POST", path="/v1/chat/completions", body=b'{"a": 1}'):
    writer.write(f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)


async def ask(server, **request):
    """Everything one connection gives until it closes or 100 s pass, and what ended it."""
    reader, writer = await connect(server)
    send(writer, **request)
    data, end = b"", "open"
    try:
        async with asyncio.timeout(100.0):
            while part := await reader.read(65536):
                data += part
            end = "fin"
    except TimeoutError:
        pass
    except ConnectionResetError:
        end = "rst"
    writer.close()
    return data, end


def served(turns, calls=1, **options):
    """What each of some calls, one after the other, was given; and the server."""

    async def main():
        async with ScriptedServer(turns, **options) as server:
            return [await ask(server) for _ in range(calls)], server

    return run_virtual(main)


def test_a_json_answer_has_its_length_and_keeps_the_connection():
    [(data, end)], server = served([
        [{"op": "status", "code": 503, "headers": JSON}, {"op": "send", "text": "bu"}, {"op": "send", "text": "sy"},
         {"op": "end"}]
    ])  # fmt: skip
    assert (
        data == b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\nbusy"
    )
    assert end == "open"
    assert server.requests[0].body == {"a": 1}
    assert (server.requests[0].path, server.requests[0].turn) == ("/v1/chat/completions", 0)


def test_a_stream_is_chunked_one_chunk_a_write_and_ended():
    [(data, _)], server = served([
        [{"op": "status", "code": 200, "headers": STREAM}, {"op": "send", "text": "data: 1\n\ndata: 2\n\n"},
         {"op": "send_hex", "hex": "c3a9"}, {"op": "send_bytewise", "text": "ab"}, {"op": "end"}]
    ])  # fmt: skip
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    assert body == b"12\r\ndata: 1\n\ndata: 2\n\n\r\n2\r\n\xc3\xa9\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
    assert server.requests[0].events_sent == 2


def test_every_request_takes_the_next_turn_and_the_last_repeats():
    turns = [[{"op": "send", "text": word}, {"op": "fin"}] for word in ("one", "two")]
    results, server = served(turns, calls=3)
    assert results == [(b"one", "fin"), (b"two", "fin"), (b"two", "fin")]
    assert [request.turn for request in server.requests] == [0, 1, 1]


@pytest.mark.parametrize(("last", "end"), [("fin", "fin"), ("rst", "rst"), ("hang", "open")])
def test_a_connection_can_be_closed_reset_or_left_hanging(last, end):
    [(data, ended)], _ = served([
        [{"op": "status", "code": 200, "headers": STREAM}, {"op": "send", "text": "x"}, {"op": last}]
    ])  # fmt: skip
    assert data.endswith(b"\r\n\r\n1\r\nx\r\n")  # and no closing chunk: it is cut
    assert ended == end


def test_waits_and_repeats_are_on_the_loops_time():
    async def main():
        turn = [{"op": "wait", "s": 5}, {"op": "repeat", "times": 3, "every_s": 2, "text": "."}, {"op": "fin"}]
        async with ScriptedServer([turn]) as server:
            reader, writer = await connect(server)
            send(writer)
            times = []
            while await reader.read(1):
                times.append(asyncio.get_running_loop().time())
            writer.close()
            return times

    assert run_virtual(main) == [7.0, 9.0, 11.0]


def test_refused_for_a_while_then_back_on_the_same_port():
    async def main():
        turns = [[{"op": "refuse", "s": 20}], [{"op": "send", "text": "back"}, {"op": "fin"}]]
        async with ScriptedServer(turns) as server:
            with pytest.raises(ConnectionRefusedError):
                await connect(server)
            await asyncio.sleep(19.9)
            with pytest.raises(ConnectionRefusedError):
                await connect(server)
            await asyncio.sleep(0.2)
            return await ask(server)

    assert run_virtual(main) == (b"back", "fin")


def test_a_server_that_dies_takes_its_connections_along():
    async def main():
        turns = [
            [{"op": "status", "code": 500, "headers": JSON}, {"op": "send", "text": "x"}, {"op": "end"}],
            [{"op": "refuse", "s": 30}],
            [{"op": "send", "text": "back"}, {"op": "fin"}],
        ]
        async with ScriptedServer(turns) as server:
            data, end = await ask(server)  # the idle connection is closed when the server goes
            assert data.endswith(b"\r\n\r\nx")
            assert end == "fin"
            with pytest.raises(ConnectionRefusedError):
                await connect(server)
            await asyncio.sleep(31.0)
            return await ask(server)

    assert run_virtual(main) == (b"back", "fin")


def test_slots_serve_some_together_and_let_the_others_wait():
    async def main():
        turn = [{"op": "slots", "n": 2, "service_s": 3}, {"op": "send", "text": "x"}, {"op": "fin"}]
        async with ScriptedServer([turn]) as server:

            async def timed():
                await ask(server)
                return asyncio.get_running_loop().time()

            times = await asyncio.gather(*(timed() for _ in range(5)))
            return sorted(times), server.peak_running

    assert run_virtual(main) == ([3.0, 3.0, 6.0, 6.0, 9.0], 5)


def test_a_slot_whose_client_has_gone_may_stay_busy():
    async def main():
        turn = [{"op": "status", "code": 200, "headers": STREAM}, {"op": "client_closes_then_busy", "s": 30}]
        async with ScriptedServer([turn]) as server:
            _, writer = await connect(server)
            send(writer)
            await asyncio.sleep(1.0)
            assert server.running == 1
            writer.close()
            await asyncio.sleep(1.0)
            assert server.requests[0].closed_by_client
            metrics, _ = await ask(server, method="GET", path="/metrics", body=b"")
            assert metrics.endswith(b"llamacpp:requests_processing 1\n")
            await asyncio.sleep(30.0)
            return server.running

    assert run_virtual(main) == 0


def test_health_and_models_answer_and_take_no_turn():
    async def main():
        async with ScriptedServer([[{"op": "hang"}]], models=("a", "b")) as server:
            health, _ = await ask(server, method="GET", path="/health", body=b"")
            models, _ = await ask(server, method="GET", path="/v1/models", body=b"")
            unknown, _ = await ask(server, method="GET", path="/nonsense", body=b"")
            return health, models, unknown, server.requests

    health, models, unknown, requests = run_virtual(main)
    assert health.startswith(b"HTTP/1.1 200 ")
    assert b'"id":"a"' in models
    assert b'"id":"b"' in models
    assert unknown.startswith(b"HTTP/1.1 404 ")
    assert requests == []


def test_a_script_that_cannot_be_played_is_refused_before_it_starts():
    with pytest.raises(UsageError, match="turn 0: unknown operation 'sing'"):
        ScriptedServer([[{"op": "sing"}]])
    with pytest.raises(UsageError, match="'wait' needs s"):
        ScriptedServer([[{"op": "wait"}]])
    with pytest.raises(UsageError, match="at least one turn"):
        ScriptedServer([])


def test_leaving_the_block_leaves_no_task_and_no_socket():
    async def main():
        async with ScriptedServer([[{"op": "hang"}]]) as server:
            _, writer = await connect(server)
            send(writer)
            await asyncio.sleep(0.1)
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await connect(server)
        return asyncio.all_tasks() == {asyncio.current_task()}

    assert run_virtual(main)
