"""What befalls a session from outside: faults of the server, its death, calls cancelled, another width, a stop."""

from __future__ import annotations

import asyncio
import random

from tests.chaos.plan import Plan
from tests.chaos.watch import WatchedBackend, Witness
from widelane.errors import CallError
from widelane.lanes.lanes import Lanes
from widelane.records import ChatRequest
from widelane.sim.server import SimServer

MEAN_PAUSE_S = 3.0
LONGEST_SESSION_S = 2_000.0
DEATHS = ("connection_refused_restart", "engine_dead_500")
"""Nobody listens for 20 s, after a last word or without one."""


class Faults:
    """Which request gets which fault.

    Attributes:
        current: the fault of the request that arrived last; its answer is written before the next one arrives.
        quiet: no further faults.
    """

    def __init__(
        self, plan: Plan, rng: random.Random, witness: Witness, *, featured: tuple[int, str] | None, quiet: bool
    ) -> None:
        self.current: str | None = None
        self.quiet = quiet
        self._plan = plan
        self._rng = rng
        self._witness = witness
        self._featured = featured
        self._next: str | None = None

    def __call__(self, number: int) -> str | None:
        fault, self._next = self._next, None
        if self._featured is not None and number == self._featured[0]:
            fault = self._featured[1]
        elif fault is None and not self.quiet and self._rng.random() < self._plan.fault_share:
            fault = self._rng.choice(self._plan.faults)
        self.current = fault
        self._witness.note("fault", number, fault)
        return fault

    def next_is(self, fault: str) -> None:
        """The next request gets this one."""
        self._next = fault


class Mishaps:
    """Does random things to a session, now and then, until it is cancelled.

    Attributes:
        calls: calls under way by key, for the job to keep.
    """

    def __init__(self, plan: Plan, rng: random.Random, faults: Faults, server: SimServer, witness: Witness) -> None:
        self.calls: dict[str, asyncio.Task[object]] = {}
        self._plan = plan
        self._rng = rng
        self._faults = faults
        self._server = server
        self._witness = witness

    async def run(self, lanes: Lanes, backend: WatchedBackend) -> None:
        """As many as the plan wants."""
        for _ in range(self._plan.mishaps):
            await asyncio.sleep(self._rng.expovariate(1 / MEAN_PAUSE_S))
            kind = self._rng.choice(["cancel", "cancel", "width", "width", "kill"])
            if kind == "cancel":
                self._cancel_some()
            elif kind == "width":
                self._change_width(lanes, backend)
            else:
                await self._kill_server()

    def answered(self) -> None:
        """A request was answered: its lane is about to be free, and whoever gets it may be cancelled with that."""
        if not self._faults.quiet and self._rng.random() < self._plan.fickle_share:
            asyncio.get_running_loop().call_soon(self._cancel_one)

    def _cancel_one(self) -> None:
        if self.calls:
            self._cancel(self._rng.choice(sorted(self.calls)))

    def _cancel(self, key: str) -> None:
        self._witness.note("cancel", key)
        self.calls[key].cancel()

    def _cancel_some(self) -> None:
        """One call, or all of them in one instant."""
        if self._rng.random() >= 0.2:
            self._cancel_one()
            return
        for key in sorted(self.calls):
            self._cancel(key)

    def _change_width(self, lanes: Lanes, backend: WatchedBackend) -> None:
        width = self._rng.randint(1, 2 * self._plan.width)
        self._witness.note("width", width)
        backend.widened()
        lanes.width = width

    async def _kill_server(self) -> None:
        """A stranger's request that kills it."""
        self._faults.next_is(self._rng.choice(DEATHS))
        try:
            await self._server.complete(ChatRequest(prompt="[stranger] ", max_tokens=1))
        except CallError as error:
            self._witness.note("killed", error.code)
