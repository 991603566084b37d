"""Which widths are tried, and which is worth using."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widelane.predict.widths import lanes_worth_using, widths_to_try


@pytest.mark.parametrize("most", [1, 2, 6, 16])
def test_every_width_of_a_small_job(most):
    assert widths_to_try(most) == list(range(1, most + 1))


def test_the_smallest_width_of_each_number_of_rounds():
    """24 items: one round on 24 lanes, two on 12, three on 8; 16 takes two as 12 does, and is a power of two."""
    assert widths_to_try(24) == [1, 2, 4, 8, 12, 16, 24]


def test_the_server_s_slots_are_a_width_of_their_own():
    assert 20 in widths_to_try(48, 20)
    assert 96 not in widths_to_try(48, 96)


@given(st.integers(1, 3000))
def test_from_one_to_all_and_not_too_many(most):
    widths = widths_to_try(most)
    assert (widths[0], widths[-1]) == (1, most)
    assert widths == sorted(set(widths))
    assert len(widths) <= 26


def test_the_fewest_that_are_nearly_as_fast():
    assert lanes_worth_using({1: 100.0, 4: 30.0, 8: 20.9, 16: 20.0}) == 8
    assert lanes_worth_using({1: 100.0, 4: 100.0, 8: 101.0}) == 1
