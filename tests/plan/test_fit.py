"""Fitting the two numbers of a machine: exact on exact rows, calm with few, and not led astray by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widelane.plan.fit import MachineFit, Observation, Prior, fit_machine, median_error

TRUE = MachineFit(efficiency=0.7, overhead_scale=1.5)


def measured(moved_ms, *, overhead_ms=3.0, fixed_ms=0.0, off=1.0):
    """A step of a machine that reaches 70 % of its bandwidth at one and a half times the usual overhead."""
    step_ms = moved_ms / 0.7 + 1.5 * overhead_ms + fixed_ms
    return Observation(
        moved_s=moved_ms / 1e3,
        overhead_s=overhead_ms / 1e3,
        fixed_s=fixed_ms / 1e3,
        measured_s=off * step_ms / 1e3,
    )


def test_rows_without_noise_give_their_own_numbers_back():
    rows = [measured(moved, fixed_ms=moved / 10) for moved in (1, 3, 10, 30, 100)] * 8
    fit = fit_machine(rows)
    assert fit.efficiency == pytest.approx(0.7, rel=0.01)
    assert fit.overhead_scale == pytest.approx(1.5, rel=0.02)
    assert median_error(rows, fit) < 0.01


def test_one_row_that_is_three_times_too_long_moves_the_fit_by_little():
    rows = [measured(moved) for moved in (1, 3, 10, 30, 100)] * 4
    led_astray = fit_machine([*rows, measured(30, off=3.0)])
    assert led_astray.efficiency == pytest.approx(0.7, rel=0.04)


def test_a_short_step_counts_as_much_as_a_long_one():
    rows = [measured(moved) for moved in (0.5, 1, 2, 50, 100, 200)] * 6
    fit = fit_machine(rows)
    assert all(abs(row.error(fit)) < 0.03 for row in rows)


def test_without_rows_it_is_the_prior():
    assert fit_machine([]) == pytest.approx((0.78, 1.0))
    assert fit_machine([], prior=Prior(efficiency=0.5, overhead_scale=2.0)) == pytest.approx((0.5, 2.0))


def test_one_row_is_met_nearly_and_leaves_both_numbers_within_reason():
    row = measured(20)
    fit = fit_machine([row])
    assert abs(row.error(fit)) < 0.05
    assert 0.6 < fit.efficiency < 0.8
    assert 0.9 < fit.overhead_scale < 1.6


def test_no_machine_exceeds_its_nominal_bandwidth():
    impossible = [
        Observation(moved_s=moved, overhead_s=1e-3, fixed_s=0.0, measured_s=moved / 2) for moved in (0.1, 0.2)
    ]
    fit = fit_machine(impossible)
    assert fit.efficiency == 1.0
    assert fit.overhead_scale >= 0.0


def test_overhead_is_never_negative():
    # Steps that grow faster than their bytes would want a negative intercept.
    rows = [Observation(moved_s=x, overhead_s=5e-3, fixed_s=0.0, measured_s=1.6 * x - 2e-3) for x in (0.01, 0.02, 0.1)]
    assert fit_machine(rows).overhead_scale >= 0.0


def test_a_step_that_took_no_time_is_refused():
    with pytest.raises(ValueError, match="longer than 0 s"):
        Observation(moved_s=1.0, overhead_s=0.0, fixed_s=0.0, measured_s=0.0)


def test_the_error_of_no_observations_is_unknown():
    assert median_error([], TRUE) is None


@given(st.permutations(range(5)))
def test_the_order_of_the_rows_does_not_matter(order):
    rows = [measured(moved, off=off) for moved, off in ((1, 1.1), (3, 0.9), (10, 1.0), (30, 1.4), (100, 0.97))]
    shuffled = fit_machine([rows[index] for index in order])
    assert shuffled == pytest.approx(tuple(fit_machine(rows)))


@given(st.floats(1e-3, 1e3))
def test_the_unit_of_time_does_not_matter(factor):
    rows = [measured(moved, off=off) for moved, off in ((1, 1.1), (10, 0.9), (100, 1.0))]
    scaled = [
        Observation(
            moved_s=row.moved_s * factor,
            overhead_s=row.overhead_s * factor,
            fixed_s=row.fixed_s * factor,
            measured_s=row.measured_s * factor,
        )
        for row in rows
    ]
    assert fit_machine(scaled) == pytest.approx(tuple(fit_machine(rows)), rel=1e-6)
