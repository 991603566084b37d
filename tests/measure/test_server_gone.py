"""A server that dies in the middle of a sweep: the report says so, is not complete, and names no width beyond."""

import random

from tests.measure.facts import facts
from widelane.clock import LoopClock
from widelane.engines.engine import Gauges
from widelane.errors import CallError, ConnectionRefused
from widelane.measure.options import SweepOptions
from widelane.measure.profile import SweepReport
from widelane.measure.sweep import sweep
from widelane.report.verdict import sweep_verdict
from widelane.testing.fake_engine import FakeEngine, FakeServer
from widelane.testing.virtual_time import run_virtual

LAST_CALL = 40


class MortalEngine(FakeEngine):
    """An engine whose counters are gone with its server."""

    def __init__(self, server: FakeServer) -> None:
        super().__init__(server)
        self._mortal = server

    async def gauges(self) -> Gauges:
        if self._mortal.requests > LAST_CALL:
            raise ConnectionRefused("Nobody answers.")
        return await super().gauges()


def refused_after_the_last(number: int) -> CallError | None:
    return ConnectionRefused("Nobody answers.") if number >= LAST_CALL else None


def swept() -> SweepReport:
    async def main() -> SweepReport:
        server = FakeServer(LoopClock(), slots=16, step_s=lambda _: 0.05, fails=refused_after_the_last)
        options = SweepOptions(levels=(1, 2, 4, 8, 16), output_tokens=16, seconds=300, seed=1)
        return await sweep(server, MortalEngine(server), facts(), options, clock=LoopClock(), rng=random.Random(1))

    return run_virtual(main)


def test_a_dead_server_is_no_plateau():
    report = swept()
    assert report.server_gone
    assert not report.complete
    assert "The server stopped answering while" in report.notes[0]
    assert max(level.concurrency for level in report.levels) < 16, "nothing is tried on a server that is gone"
    assert sweep_verdict(report).startswith("The server stopped answering.")
