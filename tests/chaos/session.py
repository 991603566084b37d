"""One session of a run: server, store, lanes and job, and what befalls them, from opening to whatever ends it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.crash import Crash
from tests.chaos.endings import Ending, ending_of, leaves
from tests.chaos.items import Item, answer, key_of
from tests.chaos.job import Job
from tests.chaos.mishaps import LONGEST_SESSION_S, Faults, Mishaps
from tests.chaos.plan import Plan
from tests.chaos.server import chaos_server
from tests.chaos.watch import WatchedBackend, WatchedStore, Witness, now_s
from widelane.clock import LoopClock
from widelane.lanes.lanes import Lanes
from widelane.lanes.retry import RetryPolicy
from widelane.lanes.store import RunStore
from widelane.records import ChatRequest, Span
from widelane.sim.answers.answer import Answer
from widelane.sim.events import Gauges
from widelane.sim.server import SimServer
from widelane.virtual_time import run_virtual

BETWEEN_SESSIONS_S = 3_600.0
LOOP_TURNS_S = 0.001
"""Enough for what was closed to be seen on the other side, and too short for a step of the engine."""
LONGEST_OUTAGE_S = 25.0
"""A server that comes back at all is back after this."""
DRAINED_S = 2_000.0
"""The longest that a server goes on with what nobody reads any more: a full context or two."""
LINGERING = frozenset(
    {
        "cut_inside_event",
        "cut_mid_stream_fin",
        "cut_mid_stream_rst",
        "error_event_in_stream",
        "stale_keepalive_socket",
    }
)
"""Faults after which the server has hung up and still writes to the end what it had begun."""


@dataclass(slots=True, kw_only=True)
class Cut:
    """When this session is to be killed.

    Attributes:
        at_event: after so many entries of the trace: between two of them nothing happens. (A timer of its own would
            change the order in which the loop serves others of one instant.) None: at a write.
        at_write, left: see `Crash`.
    """

    at_event: int | None = None
    at_write: int | None = None
    left: float = 1.0


@dataclass(slots=True, kw_only=True)
class Session:
    """What came of one.

    Attributes:
        folder: where the run lies now: a copy when the process was killed.
        events, writes: entries of the trace, and writes, up to the end of its job.
        spans: the lanes' own account, None when the process was killed.
    """

    number: int
    calm: bool
    ending: Ending
    folder: Path
    witness: Witness
    events: int
    writes: int
    spans: list[Span] | None
    calls: int
    gauges: Gauges | None = None
    leaks: list[str] = field(default_factory=list)


def play(plan: Plan, number: int, folder: Path, *, cut: Cut | None, calm: bool) -> Session:
    """One session in virtual time.

    Args:
        number: from 1.
        calm: nothing befalls it, and it has no limits: the last word of every run.
    """
    return run_virtual(lambda: _Play(plan, number, folder, cut, calm=calm).run(), longest_s=1e6)


class _Play:
    """The parts of a session while it runs."""

    def __init__(self, plan: Plan, number: int, folder: Path, cut: Cut | None, *, calm: bool) -> None:
        self._plan = plan
        self._number = number
        self._folder = folder
        self._cut = cut or Cut()
        self._calm = calm
        self._witness = Witness()
        self._rng = random.Random(f"chaos/{plan.seed}/{number}")
        self._clock = LoopClock(number * BETWEEN_SESSIONS_S)
        self._faults = Faults(
            plan, self._rng, self._witness, featured=plan.featured if number == 1 else None, quiet=calm
        )
        full = None if calm or self._rng.random() >= plan.full_share else self._rng.randint(1, 3 * len(plan.items))
        self._crash = Crash(
            folder, folder.with_name(f"{folder.name}-after-{number}"), self._dies, at_write=self._cut.at_write,
            left=self._cut.left, full_at_write=full,
        )  # fmt: skip
        self._budget = None if calm else plan.budget
        self._noted_before: set[str] = set()
        self._witness.then = self._kill_in_time

    async def run(self) -> Session:
        async with self._server() as server:
            with self._store() as store:
                session = await self._over(server, store)
            if session.ending is not Ending.KILLED:
                await self._look_for_leaks(server, session)
            return session

    async def _over(self, server: SimServer, store: RunStore) -> Session:
        watched = WatchedStore(store, self._witness, self._crash)
        backend = WatchedBackend(server, self._witness, set(store.items("finished")))
        lanes = Lanes(
            backend, width=self._plan.width, clock=self._clock, rng=self._rng, store=watched, budget=self._budget,
            retry=RetryPolicy() if self._calm else self._plan.retry, pool_tokens=self._plan.pool_tokens,
        )  # fmt: skip
        backend.lanes = lanes
        mishaps = Mishaps(self._plan, self._rng, self._faults, server, self._witness)
        backend.answered = mishaps.answered
        job = Job(self._plan.items, lanes, watched, mishaps, self._witness)
        async with lanes:
            if self._budget is not None and self._budget.seconds is not None:
                backend.deadline_s = now_s() + self._budget.seconds
            ending = await self._until_it_ends(job, mishaps, lanes, backend)
            events, writes = len(self._witness.trace), self._crash.writes
            if ending is Ending.COMPLETE:
                await store.mark_complete()
            called = 0
            if ending in (Ending.COMPLETE, Ending.UNFINISHED, Ending.BUDGET_USED):
                self._all_idle(lanes)
                called = await self._roll_call(lanes, server)
        self._witness.note("ended", ending)
        dead = ending is Ending.KILLED
        return Session(
            number=self._number, calm=self._calm, ending=ending, witness=self._witness, events=events, writes=writes,
            folder=self._folder.with_name(f"{self._folder.name}-after-{self._number}") if dead else self._folder,
            spans=None if dead else lanes.spans, calls=job.offered + called,
        )  # fmt: skip

    async def _until_it_ends(self, job: Job, mishaps: Mishaps, lanes: Lanes, backend: WatchedBackend) -> Ending:
        working = asyncio.create_task(job.run(), name="job")
        befalling = asyncio.create_task(self._befall(mishaps, lanes, backend), name="mishaps")
        ends = {
            working: None,
            asyncio.create_task(self._killed(), name="kill"): Ending.KILLED,
            asyncio.create_task(self._stopped(), name="stop"): Ending.STOPPED,
        }
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.exception() if task is working else task.result()
            early = next((ends[task] for task in ends if task in done and task is not working), None)
            if self._crash.dead.is_set():
                return Ending.KILLED
            return early or self._of_job(job, working)
        finally:
            tasks = [*ends, befalling]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _of_job(self, job: Job, working: asyncio.Task[None]) -> Ending:
        problem = working.exception()
        if problem is None:
            noted = self._noted_before | {key for kind, key, _ in self._witness.acknowledged if kind == "note"}
            if noted >= {item.key for item in self._plan.items}:
                return Ending.COMPLETE
            return Ending.BUDGET_USED if job.budget_used else Ending.UNFINISHED
        endings = {ending_of(error) for error in leaves(problem)}
        return min(endings, key=list(Ending).index)

    # --- what befalls it

    async def _befall(self, mishaps: Mishaps, lanes: Lanes, backend: WatchedBackend) -> None:
        if not self._calm:
            await mishaps.run(lanes, backend)

    async def _killed(self) -> None:
        await self._crash.dead.wait()

    def _kill_in_time(self) -> None:
        if len(self._witness.trace) == self._cut.at_event:
            self._crash.kill()

    def _dies(self) -> None:
        self._witness.over = True

    async def _stopped(self) -> None:
        """Somebody presses Ctrl-C."""
        if self._calm or self._rng.random() >= self._plan.stop_share:
            await asyncio.sleep(LONGEST_SESSION_S if not self._calm else 1e9)
        else:
            await asyncio.sleep(self._rng.uniform(0.0, 40.0))

    # --- nothing leaks

    def _all_idle(self, lanes: Lanes) -> None:
        if lanes.in_flight or lanes.waiting:
            self._witness.blame(
                f"after the last call {lanes.in_flight} lanes are in use and {lanes.waiting} calls wait"
            )
        if lanes._ledger.reserved or lanes._queue.admission.tokens_in_flight:
            self._witness.blame(f"after the last call {lanes._ledger.reserved} tokens are reserved")

    async def _roll_call(self, lanes: Lanes, server: SimServer) -> int:
        """One call for every lane, all at once: each must find a lane free. Their number."""
        if self._budget is not None or lanes.pool_tokens is not None:
            return 0
        self._faults.quiet = True
        self._crash.no_more()
        await asyncio.sleep(LONGEST_OUTAGE_S)
        if not server.app.listening:
            return 0
        width, self._witness.most_active = lanes.current_width, 0
        calls = [
            lanes.call(Item(
                key=f"roll-{self._number}-{place}", after=None, priority=0, chat=False, tool=False, stream=True,
                choices=1, padding_words=0,
            ).request(), key=f"roll-{self._number}-{place}")
            for place in range(width)
        ]  # fmt: skip
        await asyncio.gather(*calls, return_exceptions=True)
        if self._witness.most_active != width:
            self._witness.blame(f"of {width} lanes only {self._witness.most_active} could be used at the end")
        return width

    async def _look_for_leaks(self, server: SimServer, session: Session) -> None:
        await asyncio.sleep(LOOP_TURNS_S)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            session.leaks.append(f"tasks are left: {sorted(task.get_name() for task in others)}")
        if not self._frees_at_once():
            await asyncio.sleep(DRAINED_S)
        held = server.gauges()
        session.gauges = held
        if held.running or held.waiting or held.used_units:
            session.leaks.append(
                f"the server has {held.running} running, {held.waiting} waiting, {held.used_units} units"
            )
        if held.submitted != held.finished + held.failed + held.cancelled:
            session.leaks.append(f"the server lost calls: {held}")

    def _frees_at_once(self) -> bool:
        """Whether a slot is free as soon as its caller is gone."""
        return self._plan.habits.frees_on_cancel and not LINGERING.intersection(
            (*self._plan.faults, *(self._plan.featured or ()))
        )

    # --- the parts

    def _server(self) -> SimServer:
        faults = None if self._calm and self._plan.seed % 2 else self._faults  # without any, calls go the short way
        return chaos_server(self._plan, self._number, answerer=self._answer, faults=faults, clock=self._clock)

    def _answer(self, request: ChatRequest, rng: random.Random) -> Answer:
        self._witness.faults[key_of(request)] = self._faults.current
        return answer(request, rng)

    @contextmanager
    def _store(self) -> Iterator[RunStore]:
        open_ = RunStore.open if self._folder.exists() else RunStore.create
        config = {"seed": self._plan.seed}
        with open_(
            self._folder, config=config, clock=self._clock, in_thread=self._plan.writes_in_thread,
            connect=self._crash.connect,
        ) as store:  # fmt: skip
            self._noted_before = set(store.items("note"))
            yield store
