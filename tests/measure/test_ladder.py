"""Which level comes next, and how long it may take."""

from collections.abc import Callable

import pytest

from tests.measure.levels import level
from tests.measure.synthetic import served, with_failures
from widelane.measure.ladder import level_seconds, next_level, planned
from widelane.measure.options import SweepOptions
from widelane.measure.profile import Level

ADAPTIVE = SweepOptions()


def climb(step_s: Callable[[int], float], slots: int | None = None, options: SweepOptions = ADAPTIVE) -> list[int]:
    """The levels that a sweep of this server takes, in order."""
    taken: list[int] = []
    rows: list[Level] = []
    while (width := next_level(rows, options)) is not None:
        assert width not in taken
        assert len(taken) < 20
        taken.append(width)
        rows = served(sorted(taken), step_s, slots=slots)
    return taken


def test_asked_levels_are_taken_exactly() -> None:
    assert climb(lambda _: 0.02, 4, SweepOptions(levels=(1, 3, 64))) == [1, 3, 64]


def test_four_slots_are_certain_at_eight() -> None:
    assert climb(lambda _: 0.02, 4) == [1, 2, 4, 8]


def test_slots_that_are_no_power_of_two_are_measured_themselves() -> None:
    assert climb(lambda _: 0.02, 6) == [1, 2, 4, 8, 16, 6]


def test_one_slot_needs_two_levels() -> None:
    assert climb(lambda _: 0.02, 1) == [1, 2]


def test_a_road_that_only_widens_is_followed_to_the_end() -> None:
    assert climb(lambda _: 0.02) == [1, 2, 4, 8, 16, 32, 64, 128]


def test_the_widest_level_asked_for_is_the_end() -> None:
    assert climb(lambda _: 0.02, None, SweepOptions(max_level=24)) == [1, 2, 4, 8, 16, 24]


def test_a_flat_road_is_left_early_and_the_knee_is_looked_at_closely() -> None:
    taken = climb(lambda batch: 0.005 + 0.010 * batch)
    assert 8 <= max(taken) < 128
    assert len([width for width in taken if width & (width - 1)]) <= 2


def test_a_flat_start_is_followed_to_eight() -> None:
    assert max(climb(lambda batch: 0.016 * batch)) == 8


def test_a_level_that_fails_ends_the_ladder() -> None:
    rows = served((1, 2), lambda _: 0.02) + [
        with_failures(row, pool_overflow=4) for row in served((4,), lambda _: 0.02)
    ]
    assert next_level(rows, ADAPTIVE) is None


def test_a_level_that_the_client_spoiled_ends_the_ladder() -> None:
    assert next_level([level(1, 20.0), level(2, None, spoiled=True)], ADAPTIVE) is None


def test_wide_levels_get_more_time_but_not_all() -> None:
    plan = planned([], 1, SweepOptions(levels=(1, 4, 16)))
    assert plan == [1, 4, 16]
    # Weights 1 + 1, 1 + 2, 1 + 4: 10 in all.
    assert level_seconds(100.0, 1, plan) == pytest.approx(20.0)
    assert level_seconds(80.0, 16, [16]) == pytest.approx(80.0)


def test_an_adaptive_sweep_keeps_time_back_while_throughput_rises() -> None:
    rising = served((1, 2), lambda _: 0.02)
    assert planned(rising, 4, ADAPTIVE) == [4, 8, 16]
    assert planned([], 1, ADAPTIVE) == [1, 2, 4, 8], "eight is always gone to"
    flat = served((1, 2, 4, 8), lambda batch: 0.005 + 0.010 * batch)
    assert planned(flat, 16, ADAPTIVE) == [16, 32]
