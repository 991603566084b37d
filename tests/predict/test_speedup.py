"""How sure a speed-up is, and what follows."""

from __future__ import annotations

import pytest

from widelane.predict.report import Verdict
from widelane.predict.speedup import CostError, Sample, speedup

EXACT = CostError(low=1.0, high=1.0, words="")
WIDE = CostError(low=0.8, high=1.3, words="")


def test_work_that_runs_alone_in_both_cancels():
    """100 s against 50 s, none of it shared: however wrong the server's cost, it is so in both."""
    gain = speedup([Sample(100.0, 50.0, 0.0)], WIDE)
    assert (gain.low, gain.value, gain.high) == pytest.approx((2.0, 2.0, 2.0))


def test_the_error_lies_on_the_shared_time():
    """50 s of which 40 shared: 10 + 52 = 62 s at worst, 10 + 32 = 42 s at best."""
    gain = speedup([Sample(100.0, 50.0, 40.0)], WIDE)
    assert (gain.low, gain.high) == pytest.approx((100 / 62, 100 / 42))


@pytest.mark.parametrize(
    ("wall_s", "verdict"),
    [(50.0, Verdict.PARALLELISE), (98.0, Verdict.TOO_CLOSE), (105.0, Verdict.TOO_CLOSE), (200.0, Verdict.DO_NOT)],
)
def test_the_verdict_is_that_of_the_whole_interval(wall_s, verdict):
    assert speedup([Sample(100.0, wall_s, 0.5 * wall_s)], WIDE).verdict is verdict


def test_few_runs_of_a_chancy_job_leave_it_open():
    """Mean 2.0 against 1.9 with a spread as large as the means: nothing can be said."""
    samples = [Sample(1.0, 3.0, 0.0), Sample(3.0, 1.0, 0.0), Sample(2.0, 1.7, 0.0)]
    assert speedup(samples, EXACT).verdict is Verdict.TOO_CLOSE


def test_the_gain_is_that_of_the_means():
    """One run in two takes ten times as long instead: 11 s against 2 s on average, not the mean of 1 and 10."""
    assert speedup([Sample(1.0, 1.0, 0.0), Sample(10.0, 1.0, 0.0)], EXACT).value == pytest.approx(5.5)
    assert speedup([Sample(1.0, 1.0, 0.0), Sample(10.0, 10.0, 0.0)], EXACT).value == pytest.approx(1.0)
