"""The HTTP backend against a real loopback server that does what real servers do. Waiting is virtual."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.wire.raw_server import answering
from tests.wire.streams import ASK, DONE, event, raw_event, says
from widelane.clock import LoopClock
from widelane.errors import (
    CallError,
    ConnectionLost,
    ConnectionRefused,
    EmptyAnswer,
    FirstTokenTimeout,
    IdleTimeout,
    MalformedReply,
    ModelNotFound,
    NotAModelServer,
    ServerOverloaded,
    StaleConnection,
    TruncatedStream,
    UnsupportedParameter,
)
from widelane.records import ChatRequest, Delta, UsageOrigin
from widelane.testing.scripted_server import ScriptedServer
from widelane.testing.virtual_time import run_virtual
from widelane.wire.client import HttpBackend
from widelane.wire.limits import Limits

Turn = list[dict[str, Any]]
HEADERS: dict[str, Any] = {"op": "status", "code": 200, "headers": {"content-type": "text/event-stream"}}
END = {"op": "end"}
Use = Callable[[HttpBackend, ScriptedServer], Awaitable[None]]


def send(data: bytes | str) -> dict[str, Any]:
    return {"op": "send", "text": data.decode() if isinstance(data, bytes) else data}


def stream(*parts: bytes | dict[str, Any]) -> Turn:
    """A turn that streams; parts that are operations are done in between."""
    return [HEADERS, *(part if isinstance(part, dict) else send(part) for part in parts)]


def plain(code: int, body: str, **headers: str) -> Turn:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return [{"op": "status", "code": code, "headers": named}, send(body), END]


GOOD = stream(says("Hello", " world"), END)


def against(turns: list[Turn], use: Use, *, limits: Limits | None = None, model: str | None = "m") -> None:
    """Runs `use` with a backend and a server that plays `turns`, in virtual time."""

    async def main() -> None:
        async with (
            ScriptedServer(turns) as server,
            HttpBackend(server.url, model=model, clock=LoopClock(), limits=limits) as backend,
        ):
            await use(backend, server)

    run_virtual(main)


def failure(turn: Turn, kind: type[CallError], request: ChatRequest = ASK, limits: Limits | None = None) -> CallError:
    """The error that one call to this turn raises, and the loop time at which it does in `error.at_s`."""
    seen: list[CallError] = []

    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        with pytest.raises(kind) as failed:
            await backend.complete(request)
        failed.value.at_s = asyncio.get_running_loop().time()  # type: ignore[attr-defined]
        seen.append(failed.value)

    against([turn], use, limits=limits)
    return seen[0]


# --- a good call


def test_a_call_gives_its_text_and_when_everything_came() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        seen: list[Delta] = []
        reply = await backend.complete(ASK, seen.append)
        assert (reply.text, reply.finish) == ("Hello world", "stop")
        timing = reply.timing
        assert timing.headers_ns is not None
        assert timing.first_token_ns is not None
        marks = [timing.sent_ns, timing.headers_ns, timing.first_token_ns, *timing.chunk_ns, timing.ended_ns]
        assert marks == sorted(marks)
        assert timing.chunk_ns[1] - timing.chunk_ns[0] == pytest.approx(5e9, rel=1e-6)
        assert [delta.text for delta in seen] == ["Hello", " world"]
        (request,) = server.requests
        assert request.path == "/v1/chat/completions"
        assert request.headers["accept-encoding"] == "identity"
        assert request.body["stream_options"] == {"include_usage": True}

    wait = {"op": "wait", "s": 5}
    against(
        [stream(event({"content": "Hello"}), wait, event({"content": " world"}), event(finish="stop"), DONE, END)], use
    )


def test_every_byte_alone_gives_the_same_reply() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        assert (await backend.complete(ASK)).text == "Hello world"

    against([[HEADERS, {"op": "send_bytewise", "text": says("Hello", " world").decode()}, END]], use)


def test_a_prompt_goes_to_completions() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        assert (await backend.complete(ChatRequest(prompt="Once"))).text == " upon"
        assert server.requests[0].path == "/v1/completions"

    against([stream(raw_event({"choices": [{"text": " upon", "finish_reason": "stop"}]}), DONE, END)], use)


def test_a_connection_is_used_again_and_dropped_before_the_server_drops_it() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        for idle_s in (0, 3, 3.9, 6):
            await asyncio.sleep(idle_s)
            await backend.complete(ASK)
        assert [request.connection for request in server.requests] == [0, 0, 0, 1]

    against([GOOD], use)


def test_512_calls_run_at_once_each_on_its_own_connection() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        replies = await asyncio.gather(*(backend.complete(ASK) for _ in range(512)))
        assert {reply.text for reply in replies} == {"Hello world"}
        assert server.peak_running == 512
        assert backend.in_flight == 0

    against([stream({"op": "wait", "s": 1}, says("Hello", " world"), END)], use)


def test_the_model_is_the_first_of_the_list_when_none_is_named_and_asked_for_once() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        await asyncio.gather(*(backend.complete(ASK) for _ in range(4)))
        assert {request.body["model"] for request in server.requests} == {"m"}

    against([GOOD], use, model=None)


# --- ends of all kinds


@pytest.mark.parametrize("cut", ["fin", "rst"])
def test_a_connection_lost_in_the_middle_is_an_error_and_what_came_is_kept_apart(cut: str) -> None:
    error = failure(stream(event({"content": "Hello"}), {"op": cut}), ConnectionLost)
    assert error.partial is not None
    assert error.partial.text == "Hello"


@pytest.mark.parametrize("cut", ["fin", "rst", "end"])
def test_after_the_finish_reason_any_end_is_an_end(cut: str) -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        assert (await backend.complete(ASK)).text == "Hello"

    against([stream(event({"content": "Hello"}), event(finish="stop"), {"op": cut})], use)


def test_a_clean_end_without_finish_is_a_truncation() -> None:
    assert isinstance(failure(stream(event({"content": "a"}), END), TruncatedStream), TruncatedStream)


def test_a_new_connection_closed_before_any_byte_is_lost_and_a_reused_one_stale() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        with pytest.raises(ConnectionLost):
            await backend.complete(ASK)
        await backend.complete(ASK)
        with pytest.raises(StaleConnection):
            await backend.complete(ASK)
        assert (await backend.complete(ASK)).text == "Hello world"

    against([[{"op": "fin"}], GOOD, [{"op": "fin"}], GOOD], use)


def test_silence_after_the_finish_reason_is_waited_out_briefly() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        assert (await backend.complete(ASK)).text == "Hello"
        assert 1 < asyncio.get_running_loop().time() < 3
        await asyncio.sleep(0.01)
        assert server.requests[0].closed_by_client

    against([stream(event({"content": "Hello"}), event(finish="stop"), {"op": "hang"})], use)


def test_text_after_a_finish_reason_shows_that_it_was_none() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        assert (await backend.complete(ASK)).text == "abc"

    early: list[bytes | dict[str, Any]] = [
        event({"content": "a"}, "stop"),
        {"op": "wait", "s": 1},
        event({"content": "b"}),
        {"op": "wait", "s": 1},
    ]
    against([stream(*early, event({"content": "c"}, "stop"), {"op": "wait", "s": 1}, DONE, END)], use)


def test_a_body_that_ends_with_the_connection_is_whole_when_it_says_done() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        assert (await backend.complete(ASK)).text == "Hello"

    against([stream(says("Hello"), {"op": "hang"})], use)


# --- limits of time


def test_nothing_at_all_is_a_timeout_that_grows_with_the_prompt() -> None:
    short = failure([{"op": "hang"}], FirstTokenTimeout)
    assert short.at_s == pytest.approx(300, abs=1)  # type: ignore[attr-defined]
    long = failure([{"op": "hang"}], FirstTokenTimeout, replace(ASK, prompt_tokens_estimate=30_000))
    assert long.at_s == pytest.approx(900, abs=1)  # type: ignore[attr-defined]


def test_comments_are_no_progress_but_a_slow_first_token_is_no_fault() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        assert (await backend.complete(ASK)).text == "Hello"

    ping = {"op": "repeat", "times": 240, "every_s": 1, "text": ":\n\n"}
    against([stream(ping, says("Hello"), END)], use)
    endless = {"op": "repeat", "times": 100_000, "every_s": 1, "text": ":\n\n"}
    assert failure(stream(endless), FirstTokenTimeout, limits=Limits(first_token_s=20)).at_s < 21  # type: ignore[attr-defined]


def test_a_stream_that_stops_is_idle_even_while_comments_come() -> None:
    pings = {"op": "repeat", "times": 100_000, "every_s": 1, "text": ": ping\n\n"}
    rests: list[dict[str, Any]] = [{"op": "hang"}, pings]
    for rest in rests:
        error = failure(
            stream(event({"content": "a"}), {"op": "wait", "s": 100}, event({"content": "b"}), rest), IdleTimeout
        )
        assert error.at_s == pytest.approx(220, abs=1)  # type: ignore[attr-defined]


def test_there_is_no_limit_for_the_whole_call() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        words = (await backend.complete(ASK)).text.split()
        assert len(words) == 100
        assert asyncio.get_running_loop().time() > 9000

    slow: list[bytes | dict[str, Any]] = [
        part for i in range(100) for part in (event({"content": f"word{i} "}), {"op": "wait", "s": 100})
    ]
    against([stream(*slow, event(finish="stop"), DONE, END)], use)


def test_an_error_status_whose_body_never_comes_is_told_by_its_status() -> None:
    turn: Turn = [{"op": "status", "code": 503, "headers": {}}, {"op": "hang"}]
    assert failure(turn, ServerOverloaded).at_s < 20  # type: ignore[attr-defined]


# --- limits of the client's own


def test_the_fuse_closes_the_stream_soon_after_max_tokens() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        reply = await backend.complete(replace(ASK, max_tokens=16))
        assert (reply.finish, reply.warnings) == ("length", ("max_tokens_ignored",))
        await asyncio.sleep(1)
        assert server.requests[0].events_sent < 64
        assert server.requests[0].closed_by_client

    flood = {"op": "repeat", "times": 2000, "every_s": 0.01, "text": event({"content": "x "}).decode()}
    against([stream(flood, event(finish="stop"), DONE, END)], use)


def test_cancelling_closes_the_connection_at_once() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        first = asyncio.Event()
        call = asyncio.create_task(backend.complete(ASK, lambda delta: first.set()))
        await first.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.sleep(0.01)
        assert server.requests[0].closed_by_client
        assert backend.in_flight == 0

    against([stream(event({"content": "a"}), {"op": "hang"})], use)


def test_an_observer_that_raises_fails_its_own_call_only() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        def broken(delta: Delta) -> None:
            raise ZeroDivisionError

        results = await asyncio.gather(
            backend.complete(ASK, broken), backend.complete(ASK), backend.complete(ASK), return_exceptions=True
        )
        assert isinstance(results[0], ZeroDivisionError)
        assert [getattr(result, "text", None) for result in results[1:]] == ["Hello world"] * 2

    against([GOOD], use)


# --- what else answers


def test_refused_connections_and_unknown_hosts_are_nobody_answering() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        with pytest.raises(ConnectionRefused, match="Nobody answers"):
            await backend.complete(ASK)

    against([[{"op": "refuse", "s": 1000}]], use)


@pytest.mark.parametrize(
    "turn",
    [
        plain(200, "<html><body>It works!</body></html>", content_type="text/html"),
        plain(200, '{"status": "ok"}', content_type="application/json"),
        plain(200, "OK", content_type="text/plain"),
    ],
)
def test_an_answer_that_is_no_completion_is_no_model_server(turn: Turn) -> None:
    failure(turn, NotAModelServer)


def test_empty_and_cut_bodies_under_200_are_worth_another_try() -> None:
    failure(plain(200, "", content_type="application/json"), MalformedReply)
    failure(plain(200, '{"choices": [{"index": 0, "mess', content_type="application/json"), MalformedReply)
    failure(plain(200, "", content_type="text/event-stream"), TruncatedStream)
    failure(plain(200, ": ping\n\n", content_type="text/event-stream"), TruncatedStream)


def test_what_is_not_http_is_no_model_server() -> None:
    async def main() -> None:
        async with answering(b"SSH-2.0-OpenSSH_9.2\r\n") as place, HttpBackend(place, model="m") as backend:
            with pytest.raises(NotAModelServer, match=r"SSH-2\.0"):
                await backend.complete(ASK)

    run_virtual(main)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/plain", None])
def test_a_json_body_is_accepted_whatever_its_content_type(kind: str | None) -> None:
    body = '{"choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]}'

    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        reply = await backend.complete(ASK)
        assert (reply.text, reply.timing.streamed, reply.warnings) == ("Hello", False, ("not_streamed",))

    against([plain(200, body, **({"content_type": kind} if kind else {}))], use)


@pytest.mark.parametrize("kind", ["text/plain", "application/json"])
def test_a_stream_is_read_whatever_its_content_type(kind: str) -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        reply = await backend.complete(ASK)
        assert (reply.text, reply.timing.streamed) == ("Hello", True)

    head = {"op": "status", "code": 200, "headers": {"content-type": kind}}
    against([[head, send(b": hi\n\n" + says("Hello")), END]], use)


def test_an_empty_answer_is_none_unless_raw_was_asked_for() -> None:
    turn = stream(says(), END)
    failure(turn, EmptyAnswer)

    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        assert (await backend.complete(replace(ASK, raw=True))).text == ""

    against([turn], use)


def test_a_missing_model_is_told_with_what_the_server_has() -> None:
    body = '{"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404}'
    error = failure(plain(404, body), ModelNotFound)
    assert "The server has: m." in str(error)
    assert error.status == 404


def test_a_server_that_does_not_know_stream_options_is_asked_without_them() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        reply = await backend.complete(ASK)
        assert reply.usage is not None
        assert reply.usage.origin is UsageOrigin.COUNTED
        await backend.complete(ASK)
        assert ["stream_options" in request.body for request in server.requests] == [True, False, False]

    refusal = '{"error": {"message": "Unrecognized request argument supplied: stream_options"}}'
    against([plain(400, refusal), GOOD], use)


def test_another_refused_parameter_is_not_guessed_away() -> None:
    failure(plain(400, '{"error": {"message": "Unrecognized request argument supplied: min_p"}}'), UnsupportedParameter)


def test_a_retry_after_date_is_read_by_the_servers_own_clock() -> None:
    ahead = {"date": "Tue, 01 Jan 2030 01:00:00 GMT", "retry_after": "Tue, 01 Jan 2030 01:00:03 GMT"}
    assert failure(plain(429, "{}", **ahead), ServerOverloaded).retry_after_s == 3


def test_a_broken_chunked_body_is_malformed() -> None:
    async def main() -> None:
        broken = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\noops\r\n"
        async with answering(broken) as place, HttpBackend(place, model="m") as backend:
            with pytest.raises(MalformedReply):
                await backend.complete(ASK)

    run_virtual(main)


def test_informational_replies_come_before_the_real_one() -> None:
    async def main() -> None:
        body = says("Hello")
        early = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
        reply = early + b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        async with answering(reply) as place, HttpBackend(place, model="m") as backend:
            for _ in range(2):
                assert (await backend.complete(ASK)).text == "Hello"

    run_virtual(main)


def test_a_gzipped_stream_is_read_although_none_was_asked_for() -> None:
    async def main() -> None:
        body = gzip.compress(says("Hello"))
        reply = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        async with answering(reply) as place, HttpBackend(place, model="m") as backend:
            assert (await backend.complete(ASK)).text == "Hello"

    run_virtual(main)


def test_a_request_larger_than_the_sockets_buffer_is_sent_whole() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        text = "word " * 2_000_000
        reply = await backend.complete(replace(ASK, messages=[{"role": "user", "content": text}], raw=True))
        assert reply.text == "Hello world"
        assert server.requests[0].body["messages"][0]["content"] == text

    against([GOOD], use)


# --- plain requests


def test_fetch_gives_whatever_the_server_answers() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        health = await backend.fetch("GET", "/health")
        assert (health.status, health.json(), health.url) == (200, {"status": "ok"}, f"{server.url}/health")
        missing = await backend.fetch("GET", "/nope")
        assert (missing.status, missing.headers["content-type"]) == (404, "application/json")
        posted = await backend.fetch("POST", "/tokenize", {"content": "Hi"})
        assert posted.body == b"[1]"
        assert server.requests[0].body == {"content": "Hi"}

    against([plain(200, "[1]")], use)


def test_fetch_has_its_own_limit_and_says_what_did_not_come() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        with pytest.raises(FirstTokenTimeout, match=r"POST .*/slow within 2 s"):
            await backend.fetch("POST", "/slow", {}, timeout_s=2.0)
        assert asyncio.get_running_loop().time() < 3

    against([[{"op": "hang"}]], use)


def test_fetch_sends_again_when_a_warm_connection_was_closed() -> None:
    async def use(backend: HttpBackend, server: ScriptedServer) -> None:
        await backend.complete(ASK)
        assert (await backend.fetch("POST", "/tokenize", {})).body == b"[1]"

    against([GOOD, [{"op": "fin"}], plain(200, "[1]")], use)
