"""What the server itself says while a level runs."""

import asyncio
from collections.abc import Iterator

import pytest

from widelane.engines.engine import Gauges
from widelane.errors import CallError, FirstTokenTimeout
from widelane.measure.gauge_watch import SETTLE_S, GaugeWatch, Told, settle
from widelane.testing.fake_engine import FakeEngine
from widelane.testing.virtual_time import run_virtual


class Scripted(FakeEngine):
    """An engine whose gauges are a script; an error in it is raised."""

    def __init__(self, *answers: Gauges | CallError) -> None:
        self.asked = 0
        self._answers: Iterator[Gauges | CallError] = iter(answers)

    async def gauges(self) -> Gauges:
        self.asked += 1
        answer = next(self._answers)
        if isinstance(answer, CallError):
            raise answer
        return answer


async def test_preemptions_are_differences_and_the_pools_use_is_its_highest() -> None:
    watch = GaugeWatch(
        Scripted(
            Gauges(preemptions_total=5, kv_usage=0.99),
            Gauges(preemptions_total=6, kv_usage=0.7),
            Gauges(preemptions_total=8, kv_usage=0.4),
            Gauges(preemptions_total=8, kv_usage=0.1),
        )
    )
    await watch.begin()
    await watch.poll()
    assert await watch.take() == Told(3, 0.7)
    assert await watch.take() == Told(0, 0.1)


async def test_a_server_that_tells_nothing_is_asked_once() -> None:
    engine = Scripted(Gauges(running=3))
    watch = GaugeWatch(engine)
    await watch.begin()
    await watch.poll()
    assert await watch.take() == Told(None, None)
    assert engine.asked == 1


async def test_a_reading_that_fails_is_no_reading() -> None:
    watch = GaugeWatch(
        Scripted(Gauges(preemptions_total=1), FirstTokenTimeout("busy"), Gauges(preemptions_total=2, kv_usage=0.5))
    )
    await watch.begin()
    await watch.poll()
    assert await watch.take() == Told(1, 0.5)


@pytest.mark.parametrize(
    ("answers", "waited_s"),
    [
        ([Gauges(running=2, waiting=5), Gauges(running=1), Gauges(running=0, waiting=0)], 0.2),
        ([Gauges(reason="tells nothing")], 0.0),
        ([FirstTokenTimeout("gone")], 0.0),
        ([Gauges(running=1)] * 99, SETTLE_S),
    ],
)
def test_the_next_level_waits_for_the_last_ones_calls_a_little(
    answers: list[Gauges | CallError], waited_s: float
) -> None:
    async def main() -> float:
        await settle(Scripted(*answers))
        return asyncio.get_running_loop().time()

    assert run_virtual(main) == pytest.approx(waited_s)
