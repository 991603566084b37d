"""The simulated server behind a port: the same figures as in memory, to any client, and gone without a trace."""

import asyncio
import json
import random

import pytest

from tests.sim.small_server import small_server
from widelane.clock import LoopClock
from widelane.engines.detect import detect
from widelane.errors import ConnectionLost, ConnectionRefused, StaleConnection, UsageError
from widelane.measure.options import SweepOptions
from widelane.measure.profile import SweepReport
from widelane.measure.sweep import sweep
from widelane.records import ChatRequest
from widelane.sim.answers.answer import Answer
from widelane.sim.http_front import HttpFront
from widelane.sim.server import SimServer
from widelane.testing.virtual_time import run_virtual
from widelane.wire.client import HttpBackend

LEVELS = (1, 4, 8, 32)


async def swept(server: SimServer, *, over_http: bool) -> SweepReport:
    clock = LoopClock()
    options = SweepOptions(levels=LEVELS, seconds=300.0, output_tokens=32, seed=1)
    async with server, HttpFront(server.app) as front, HttpBackend(front.url, clock=clock) as http:
        backend = http if over_http else server
        engine = await detect(backend.fetch)
        facts = await engine.facts()
        return await sweep(backend, engine, facts, options, clock=clock, rng=random.Random(1))


@pytest.mark.parametrize("engine", ["vllm", "llama.cpp"])
def test_a_sweep_over_a_socket_agrees_with_one_in_memory(engine: str) -> None:
    """Within 3 %: throughput, TPOT and TTFT at each level, beyond the slots too."""
    reports = [run_virtual(lambda way=way: swept(small_server(engine, slots=8), over_http=way)) for way in (0, 1)]
    for memory, http in zip(reports[0].levels, reports[1].levels, strict=True):
        assert memory.output_tok_s.number is not None
        assert http.output_tok_s.number == pytest.approx(memory.output_tok_s.number, rel=0.03)
        assert http.tpot_s.p50.number == pytest.approx(memory.tpot_s.p50.number, rel=0.03)
        assert http.ttft_s.p50.number == pytest.approx(memory.ttft_s.p50.number, rel=0.03)
    assert reports[0].limit == reports[1].limit == "slots"


async def test_speed_is_that_of_the_loop_in_real_time() -> None:
    """5 tokens of 100 ms at speed 50: about 10 ms, and far from the half second they stand for."""
    async with small_server(speed=50.0) as server, HttpFront(server.app) as front, HttpBackend(front.url) as http:
        reply = await http.complete(ChatRequest(prompt="a", max_tokens=5, extra={"ignore_eos": True}))
    took_s = (reply.timing.ended_ns - reply.timing.sent_ns) / 1e9
    assert 0.008 < took_s < 0.3


async def test_at_full_speed_nothing_is_waited_for() -> None:
    async with small_server(speed=None) as server, HttpFront(server.app) as front, HttpBackend(front.url) as http:
        ask = ChatRequest(prompt="a", max_tokens=1000, extra={"ignore_eos": True})
        replies = await asyncio.gather(*(http.complete(ask) for _ in range(4)))
    assert [reply.usage.completion_tokens for reply in replies if reply.usage] == [1000] * 4


def test_a_client_that_hangs_up_frees_its_slot() -> None:
    async def hang_up() -> tuple[int, int]:
        async with (
            small_server(slots=2) as server,
            HttpFront(server.app) as front,
            HttpBackend(front.url, clock=LoopClock()) as http,
        ):
            long = ChatRequest(prompt="a", max_tokens=2000, extra={"ignore_eos": True})
            task = asyncio.create_task(http.complete(long))
            await asyncio.sleep(3.0)
            before = server.gauges().running
            task.cancel()
            await asyncio.wait([task])
            await asyncio.sleep(0.5)
            return before, server.gauges().running

    assert run_virtual(hang_up) == (1, 0)


def test_an_outage_closes_the_port_and_opens_it_again() -> None:
    async def outage() -> str:
        faults = {0: "connection_refused_restart"}
        async with (
            small_server(faults=faults.get) as server,
            HttpFront(server.app) as front,
            HttpBackend(front.url, clock=LoopClock()) as http,
        ):
            with pytest.raises((ConnectionLost, StaleConnection)):
                await http.complete(ChatRequest(prompt="a", max_tokens=1))
            await asyncio.sleep(1.0)
            with pytest.raises(ConnectionRefused):
                await http.complete(ChatRequest(prompt="a", max_tokens=1))
            await asyncio.sleep(25.0)
            return (await http.complete(ChatRequest(prompt="a", max_tokens=1, raw=True))).finish

    assert run_virtual(outage) == "length"


async def test_a_taken_port_is_an_error_that_says_so() -> None:
    async with small_server() as server, HttpFront(server.app) as front:
        with pytest.raises(UsageError, match="--port"):
            async with HttpFront(server.app, port=front.port):
                raise AssertionError("the port is taken")


async def test_what_is_not_http_is_refused() -> None:
    async with small_server() as server, HttpFront(server.app) as front:
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(b"\x16\x03\x01 hello\r\n\r\n")
        assert (await reader.read(12)).startswith(b"HTTP/1.1 400")
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stop", 5), ("stop", [None]), ("stop", {}), ("tools", 5), ("tools", "x"), ("tools", [5]), ("tools", [{}]),
        ("tools", [{"type": "function", "function": {"name": 5}}]), ("tool_choice", 5), ("response_format", "x"),
        ("model", []), ("n", 10**6),
    ],
)  # fmt: skip
async def test_a_field_of_the_wrong_type_is_refused_by_name(field: str, value: object) -> None:
    body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2, field: value}
    async with small_server(speed=None) as server, HttpFront(server.app) as front, HttpBackend(front.url) as http:
        reply = await http.fetch("POST", "/v1/chat/completions", body)
    assert reply.status == 400
    assert field in json.loads(reply.body)["error"]["message"]


async def test_a_request_that_breaks_the_server_gets_a_500_and_is_told() -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

    def broken(request: ChatRequest, rng: random.Random) -> Answer:
        raise RuntimeError("no words")

    async with (
        small_server(answerer=broken, speed=None) as server,
        HttpFront(server.app) as front,
        HttpBackend(front.url) as http,
    ):
        reply = await http.fetch("POST", "/v1/completions", {"prompt": "a"})
        assert (await http.fetch("GET", "/health")).status == 200
    assert reply.status == 500
    assert [str(error) for error in told] == ["no words"]
