"""The breaker of one server: while nobody listens, or the model loads, no call is sent and ONE probe asks.

    passing ──trip(DOWN)──▶ down ──probe: UP──▶ passing
       │                    │  ▲
       │          probe: LOADING │ probe: DOWN
       │                    ▼  │
       └──trip(LOADING)──▶ loading ──probe: UP──▶ passing
    down for down_limit_s, or loading for loading_limit_s ──▶ given up: every call fails with the stored error

The waits between probes grow, and go on growing over trips that follow each other without a call having succeeded: a
server that accepts connections and answers nothing useful is not hammered, and its down-time counts as one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Protocol, runtime_checkable

from widelane.errors import CallError, ServerDown, ServerLoading
from widelane.lanes.retry import RetryPolicy
from widelane.records import Backend, HttpReply

FIRST_PROBE_S = 0.5
LONGEST_PROBE_WAIT_S = 10.0
PROBE_TIMEOUT_S = 5.0


class Health(StrEnum):
    """What a probe found."""

    UP = "up"
    LOADING = "loading"
    DOWN = "down"


Probe = Callable[[], Awaitable[Health]]


@runtime_checkable
class CanFetch(Protocol):
    """A backend that is a real server over HTTP."""

    async def fetch(self, method: str, path: str, body: object = None, *, timeout_s: float = 10.0) -> HttpReply: ...


def probe_of(backend: Backend, is_up: Callable[[], Awaitable[bool]] | None) -> Probe:
    """The probe to use: the caller's, else `GET /health` of a backend that can fetch, else hope.

    `/health` answers 200 or is unknown (any other status) when the server serves, and 503 while the model loads
    (llama.cpp, vLLM); `/v1/models` answers 200 in both cases and tells nothing. A backend without HTTP is taken to be
    up: the next call then is the probe.
    """

    async def ask_caller() -> Health:
        assert is_up is not None
        return Health.UP if await is_up() else Health.DOWN

    async def ask_server() -> Health:
        assert isinstance(backend, CanFetch)
        try:
            reply = await backend.fetch("GET", "/health", timeout_s=PROBE_TIMEOUT_S)
        except CallError:
            return Health.DOWN
        if reply.status == 503:
            return Health.LOADING
        return Health.DOWN if reply.status in (502, 504) else Health.UP

    async def hope() -> Health:
        return Health.UP

    if is_up is not None:
        return ask_caller
    return ask_server if isinstance(backend, CanFetch) else hope


class Breaker:
    """Lets calls pass, or holds them while one probe waits for the server.

    Attributes:
        passing: whether calls may be sent.
        trips: how often it opened; a call that failed while this number changed was lost with the server.
    """

    def __init__(
        self, probe: Probe, policy: RetryPolicy, rng: random.Random, on_change: Callable[[], None], where: str = ""
    ) -> None:
        self.passing = True
        self.trips = 0
        self._probe = probe
        self._policy = policy
        self._rng = rng
        self._on_change = on_change
        self._where = f" at {where}" if where else ""
        self._task: asyncio.Task[None] | None = None
        self._waits = 0
        self._first_trip_s: float | None = None
        self._given_up: tuple[Health, float] | None = None

    def refusal(self) -> CallError | None:
        """A new error for a call that must not be sent any more, None while there is hope."""
        if self._given_up is None:
            return None
        health, after_s = self._given_up
        if health is Health.LOADING:
            return ServerLoading(
                f"the server{self._where} was still loading its model after {after_s:.0f} s",
                hint="Wait until it is ready, then start again: the run can be resumed, finished calls are kept.",
            )
        return ServerDown(
            f"the server{self._where} did not come back within {after_s:.0f} s: nobody listens",
            hint="Start the server again, then resume the run: finished calls are kept.",
        )

    def trip(self, health: Health) -> bool:
        """Hold all calls and start the probe. False when they are held already."""
        if not self.passing:
            return False
        self.passing = False
        self.trips += 1
        now_s = asyncio.get_running_loop().time()
        if self._first_trip_s is None:
            self._first_trip_s = now_s
        self._task = asyncio.create_task(self._wait_for_server(health), name="widelane probe")
        return True

    def succeeded(self) -> None:
        """A call ended well: the next trouble is a new one."""
        self._waits = 0
        self._first_trip_s = None

    async def close(self) -> None:
        """Stop the probe and wait for it."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _wait_for_server(self, health: Health) -> None:
        loop = asyncio.get_running_loop()
        assert self._first_trip_s is not None
        since_s = self._first_trip_s
        while True:
            limit_s = self._policy.loading_limit_s if health is Health.LOADING else self._policy.down_limit_s
            left_s = since_s + limit_s - loop.time()
            whole_s = self._first_trip_s + self._policy.loading_limit_s + self._policy.down_limit_s - loop.time()
            if min(left_s, whole_s) <= 0:
                self._given_up = (health, loop.time() - self._first_trip_s)
                self._on_change()
                return
            await asyncio.sleep(min(self._next_wait_s(), left_s, whole_s))
            found = await self._probe()
            if found is Health.UP:
                self.passing = True
                self._on_change()
                return
            if found is not health:
                health, since_s = found, loop.time()

    def _next_wait_s(self) -> float:
        bound_s = min(LONGEST_PROBE_WAIT_S, FIRST_PROBE_S * 2.0**self._waits)
        self._waits = min(self._waits + 1, 16)
        # Half fixed and half by chance: never a wait of zero, and several clients do not ask in step.
        return bound_s * self._rng.uniform(0.5, 1.0)
