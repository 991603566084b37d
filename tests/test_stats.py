"""Intervals by the textbook."""

import math

import pytest

from widelane.stats import Interval, mean_interval, t_975


@pytest.mark.parametrize(
    # NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2, column 0.975.
    ("degrees", "quantile"),
    [(1, 12.706), (2, 4.303), (10, 2.228), (30, 2.042), (40, 2.021), (60, 2.000), (100, 1.984)],
)
def test_t_quantiles_are_those_of_the_table(degrees, quantile):
    assert t_975(degrees) == pytest.approx(quantile, abs=2e-3)


def test_the_interval_of_five_readings_worked_by_hand():
    # 9, 10, 10, 10, 11: mean 10, s = sqrt(2/4) = 0.7071, half = 2.776 * 0.7071 / sqrt(5) = 0.8779.
    interval = mean_interval([9, 10, 10, 10, 11])
    assert interval is not None
    assert interval.value == 10
    assert interval.high - 10 == pytest.approx(0.8779, abs=1e-3)
    assert interval.low + interval.high == pytest.approx(20)
    assert interval.relative_half_width == pytest.approx(0.08779, abs=1e-4)


def test_one_reading_has_no_interval():
    assert mean_interval([10.0]) is None
    with pytest.raises(ValueError, match="at least two"):
        t_975(0)


def test_an_interval_round_zero_is_infinitely_wide():
    assert Interval(0.0, -1.0, 1.0).relative_half_width == math.inf
