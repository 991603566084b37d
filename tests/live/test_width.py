"""Many calls at once to the real server: 64 in 64 slots, 16 queueing before 4, and the shared pool."""

import asyncio
import random
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.live.conftest import one_thread, running
from widelane.clock import SystemClock
from widelane.engines.detect import detect
from widelane.engines.embedded import EmbeddedServer
from widelane.errors import PoolOverflow
from widelane.lanes.lanes import Lanes
from widelane.records import ChatRequest, Outcome, Reply
from widelane.wire.client import HttpBackend

pytestmark = pytest.mark.live

POOL_TOKENS = 256
ANSWER_TOKENS = 72


def most_at_once(replies: list[Reply]) -> int:
    """How many replies were being written at the same instant, at most."""
    steps = [(reply.timing.first_token_ns, 1) for reply in replies]
    steps += [(reply.timing.ended_ns, -1) for reply in replies]
    running_now = most = 0
    for _, step in sorted(steps):
        running_now += step
        most = max(most, running_now)
    return most


async def test_64_calls_are_decoded_at_once_in_64_slots(tmp_path: Path, cache_dir: Path | None) -> None:
    async with (
        one_thread(tmp_path, cache_dir, slots=64, context=64 * 256) as server,
        HttpBackend(server.url) as backend,
        lanes(backend, width=64) as wide,
    ):
        engine = await detect(backend.fetch)
        requests = [
            ChatRequest(prompt=f"{number} and", max_tokens=12, extra=engine.fixed_length(12)) for number in range(64)
        ]
        replies = await asyncio.gather(*(wide.call(request) for request in requests))
        gauges = await engine.gauges()

    assert most_at_once(replies) == 64
    assert [reply.usage.completion_tokens for reply in replies if reply.usage] == [12] * 64
    assert gauges.busy_per_decode is not None
    assert gauges.busy_per_decode > 32


async def test_16_calls_queue_before_4_slots_and_the_server_still_tells_its_state(
    tmp_path: Path, cache_dir: Path | None
) -> None:
    """llama.cpp has 8 threads for HTTP by default and adds more, not always at once: at least 4 calls wait inside."""
    async with (
        one_thread(tmp_path, cache_dir) as server,
        HttpBackend(server.url) as backend,
        lanes(backend, width=16) as wide,
    ):
        engine = await detect(backend.fetch)
        calls = [
            asyncio.create_task(wide.call(ChatRequest(prompt=f"{n} and", max_tokens=12, extra=engine.fixed_length(12))))
            for n in range(16)
        ]
        waiting = busy = 0.0
        while not all(call.done() for call in calls):
            gauges = await engine.gauges()
            waiting, busy = max(waiting, gauges.waiting or 0), max(busy, gauges.running or 0)
            await asyncio.sleep(0.05)
        replies = [await call for call in calls]

    assert most_at_once(replies) == 4
    assert busy == 4
    assert 4 <= waiting <= 12


@pytest.fixture(scope="module")
def shared_pool(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path | None) -> Iterator[EmbeddedServer]:
    """Four slots on one small pool: each claims all of it, together they do not fit."""
    folder = tmp_path_factory.mktemp("logs")
    with running(folder, cache_dir, slots=4, context=POOL_TOKENS, unified=True) as started:
        yield started


def fitting_alone() -> list[ChatRequest]:
    """Four requests of fewer than 80 tokens each: three fit the pool of 256 at once, four do not."""
    return [
        ChatRequest(prompt=f"{number} once upon a time", max_tokens=ANSWER_TOKENS, extra={"ignore_eos": True})
        for number in range(4)
    ]


async def test_when_the_shared_pool_overflows_every_running_call_fails(shared_pool: EmbeddedServer) -> None:
    async with HttpBackend(shared_pool.url) as backend:
        results = await asyncio.gather(
            *(backend.complete(request) for request in fitting_alone()), return_exceptions=True
        )

    assert [type(result) for result in results] == [PoolOverflow] * 4


async def test_with_the_tokens_in_flight_bounded_none_fails(shared_pool: EmbeddedServer) -> None:
    async with HttpBackend(shared_pool.url) as backend, lanes(backend, width=4, pool_tokens=POOL_TOKENS) as bounded:
        replies = await asyncio.gather(*(bounded.call(request) for request in fitting_alone()))
        outcomes = [span.outcome for span in bounded.spans]
        incidents = list(bounded.incidents)

    assert [reply.usage.completion_tokens for reply in replies if reply.usage] == [ANSWER_TOKENS] * 4
    assert outcomes == [Outcome.OK] * 4
    assert incidents == [], "the pool never overflowed (a stale idle connection that is sent again is no incident)"
    assert 1 < most_at_once(replies) < 4


async def test_with_its_endpoints_off_the_server_tells_neither_slots_nor_metrics(
    tmp_path: Path, cache_dir: Path | None
) -> None:
    hidden = one_thread(tmp_path, cache_dir, slots=3, endpoint_slots=False, endpoint_metrics=False)
    async with hidden as server, HttpBackend(server.url) as backend:
        statuses = [(await backend.fetch("GET", path)).status for path in ("/slots", "/metrics")]

    assert statuses == [501, 501]
    assert "--no-slots" in server.launch_line
    assert "--metrics" not in server.launch_line


def test_the_port_is_free_again_when_the_server_is_gone(tmp_path: Path, cache_dir: Path | None) -> None:
    with running(tmp_path, cache_dir) as server:
        port = int(server.url.rsplit(":", 1)[1])

    with closing(socket.socket()) as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def lanes(backend: HttpBackend, *, width: int, pool_tokens: int | None = None) -> Lanes:
    return Lanes(backend, width=width, clock=SystemClock(), rng=random.Random(0), pool_tokens=pool_tokens)
