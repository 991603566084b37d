"""The width in force, and the pool's bound."""

import pytest

from widelane.lanes.width import PoolBound, WidthControl


def test_an_overload_halves_what_was_in_flight():
    width = WidthControl(16)
    assert width.shed(sent=10, last_sent=16, in_flight=12)
    assert width.current == 6


def test_one_overload_that_hits_many_calls_cuts_once():
    width = WidthControl(16)
    assert width.shed(sent=1, last_sent=16, in_flight=16)
    for sent in range(2, 17):
        assert not width.shed(sent=sent, last_sent=16, in_flight=16 - sent + 1)
    assert width.current == 8
    # A call sent after the cut speaks of the width after it.
    assert width.shed(sent=17, last_sent=17, in_flight=8)
    assert width.current == 4


def test_a_round_of_successes_wins_one_call_back_up_to_the_ceiling():
    width = WidthControl(4)
    width.shed(sent=1, last_sent=4, in_flight=4)
    assert width.current == 2
    for _ in range(3):  # 2 + 1/2 + 1/2.5 + 1/2.9 = 3.24
        width.succeeded()
    assert width.current == 3
    for _ in range(100):
        width.succeeded()
    assert width.current == 4


def test_the_width_never_falls_below_one():
    width = WidthControl(1)
    assert width.shed(sent=1, last_sent=1, in_flight=1)
    assert width.current == 1


def test_a_measuring_run_keeps_its_width():
    width = WidthControl(16, adaptive=False)
    assert not width.shed(sent=1, last_sent=1, in_flight=16)
    assert width.current == 16


def test_a_changed_ceiling_moves_an_uncut_width_and_leaves_a_cut_one_cut():
    width = WidthControl(4)
    width.ceiling = 32
    assert width.current == 32
    width.shed(sent=1, last_sent=1, in_flight=32)
    width.ceiling = 64
    assert (width.current, width.ceiling) == (16, 64)
    width.ceiling = 8
    assert width.current == 8


def test_a_width_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        WidthControl(0)
    width = WidthControl(1)
    with pytest.raises(ValueError, match="at least 1"):
        width.ceiling = 0


def test_an_overflow_lowers_the_pool_bound_once_for_all_calls_it_failed():
    pool = PoolBound(10_000)
    assert pool.overflowed(sent=3, last_sent=8, tokens_in_flight=9_000)
    assert pool.tokens == 7_200
    assert not pool.overflowed(sent=8, last_sent=9, tokens_in_flight=1_000)
    assert pool.overflowed(sent=10, last_sent=10, tokens_in_flight=7_000)
    assert pool.tokens == 5_600


def test_an_unbounded_pool_learns_its_bound_from_an_overflow():
    pool = PoolBound(None)
    assert pool.overflowed(sent=1, last_sent=4, tokens_in_flight=4_000)
    assert pool.tokens == 3_200
