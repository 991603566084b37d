"""The model server's own arithmetic, by hand: what the sweep's tests rest on."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from widelane.clock import LoopClock
from widelane.errors import PoolOverflow, ServerOverloaded
from widelane.records import ChatRequest, Delta, Reply, UsageOrigin
from widelane.testing.fake_engine import FakeEngine, FakeServer
from widelane.testing.virtual_time import run_virtual


def request(tokens: int, words: int = 10, **extra: object) -> ChatRequest:
    return ChatRequest(prompt=" ".join(["word"] * words), max_tokens=tokens, extra=extra)


def run(make: Callable[[], FakeServer], *requests: ChatRequest) -> list[Reply | BaseException]:
    async def main() -> list[Reply | BaseException]:
        server = make()
        return await asyncio.gather(*(server.complete(each) for each in requests), return_exceptions=True)

    return run_virtual(main)


def seconds(reply: Reply | BaseException) -> tuple[float, float]:
    """First token and end, in virtual seconds."""
    assert isinstance(reply, Reply)
    assert reply.timing.first_token_ns is not None
    return reply.timing.first_token_ns / 1e9, reply.timing.ended_ns / 1e9


def test_a_call_alone_takes_its_prompt_and_its_steps() -> None:
    (reply,) = run(lambda: FakeServer(LoopClock(), slots=4, step_s=lambda _: 0.1, prefill_s_per_token=0.02), request(5))
    assert seconds(reply) == pytest.approx((0.2, 0.6), abs=1e-6)


def test_calls_in_slots_share_the_steps_and_the_others_wait() -> None:
    replies = run(lambda: FakeServer(LoopClock(), slots=2, step_s=lambda batch: 0.1 * batch), *[request(3)] * 3)
    # First tokens at 0 (no prefill cost), two steps of 0.2 s; the third call then has the server for itself.
    assert [seconds(reply) for reply in replies] == [
        pytest.approx((0.0, 0.4), abs=1e-4),
        pytest.approx((0.0, 0.4), abs=1e-4),
        pytest.approx((0.4, 0.6), abs=1e-4),
    ]


def test_speculation_gives_several_tokens_a_chunk() -> None:
    (reply,) = run(lambda: FakeServer(LoopClock(), slots=1, step_s=lambda _: 0.1, tokens_per_step=3), request(7))
    assert isinstance(reply, Reply)
    assert len(reply.timing.chunk_ns) == 3
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 7


def test_a_full_shared_pool_fails_every_running_call() -> None:
    replies = run(lambda: FakeServer(LoopClock(), slots=4, step_s=lambda _: 0.1, pool_tokens=50), *[request(50)] * 2)
    assert all(isinstance(reply, PoolOverflow) for reply in replies)


def test_a_preempting_server_finishes_all_the_same() -> None:
    servers = []

    def make() -> FakeServer:
        servers.append(FakeServer(LoopClock(), slots=4, step_s=lambda _: 0.1, pool_tokens=50, preempts=True))
        return servers[0]

    replies = run(make, *[request(30)] * 2)
    assert [isinstance(reply, Reply) for reply in replies] == [True, True]
    assert servers[0].preemptions >= 1


def test_a_model_stops_by_itself_unless_it_must_not() -> None:
    def make() -> FakeServer:
        return FakeServer(LoopClock(), slots=4, step_s=lambda _: 0.1, natural_length=3)

    free, forced = run(make, request(9), request(9, ignore_eos=True))
    assert isinstance(free, Reply)
    assert isinstance(forced, Reply)
    assert (len(free.timing.chunk_ns), len(forced.timing.chunk_ns)) == (3, 9)


def test_a_buffered_stream_comes_at_its_end() -> None:
    (reply,) = run(lambda: FakeServer(LoopClock(), slots=1, step_s=lambda _: 0.1, buffers=True), request(5))
    assert isinstance(reply, Reply)
    assert len(set(reply.timing.chunk_ns)) == 1


def test_without_usage_chunks_are_counted() -> None:
    (reply,) = run(
        lambda: FakeServer(LoopClock(), slots=1, step_s=lambda _: 0.1, tokens_per_step=2, counts_tokens=False),
        request(5),
    )
    assert isinstance(reply, Reply)
    assert reply.usage is not None
    assert (reply.usage.origin, reply.usage.completion_tokens) == (UsageOrigin.COUNTED, 3)


def test_a_scripted_failure_is_raised() -> None:
    def make() -> FakeServer:
        return FakeServer(
            LoopClock(), slots=1, step_s=lambda _: 0.1, fails=lambda n: ServerOverloaded("busy") if n == 1 else None
        )

    replies = run(make, request(2), request(2))
    assert isinstance(replies[1], ServerOverloaded)


def virtually(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return run_virtual(main)


def test_cancelling_frees_the_slot_and_chunks_come_as_they_are_made() -> None:
    async def main() -> tuple[list[float], float, float]:
        server = FakeServer(LoopClock(), slots=1, step_s=lambda _: 0.1)
        seen: list[float] = []

        def observe(delta: Delta) -> None:
            seen.append(round(delta.t_ns / 1e9, 3))

        long = asyncio.create_task(server.complete(request(1000), observe))
        await asyncio.sleep(0.25)
        running = server.gauges().running
        long.cancel()
        reply = await server.complete(request(2))
        return seen, float(running or 0), reply.timing.ended_ns / 1e9

    seen, running, ended = virtually(main)
    assert seen == [0.0, 0.1, 0.2]
    assert running == 1
    assert ended < 0.6


def test_the_adapter_tells_as_much_as_it_is_told_to() -> None:
    async def main() -> tuple[object, object, object]:
        server = FakeServer(LoopClock(), slots=1, step_s=lambda _: 0.1)
        silent = FakeEngine(server, tells=False, forces=False)
        return (await silent.gauges()).running, silent.fixed_length(9), (await FakeEngine(server).gauges()).running

    assert virtually(main) == (None, {}, 0)
