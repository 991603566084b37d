"""Independent amounts under one limit: by hand, by dice, and against plain enumeration."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widelane.plan.sums import most_within, times_within

COIN = {1.0: 0.5, 3.0: 0.5}


def test_two_coins_of_one_and_three_exceed_five_with_a_quarter():
    assert most_within(COIN, 5, risk=0.26, most=10) == (2, 0.25)
    assert most_within(COIN, 5, risk=0.25, most=10) == (1, 0.0)  # below the risk, not at it


def test_three_dice_exceed_seventeen_once_in_216():
    dice = dict.fromkeys(map(float, range(1, 7)), 1 / 6)
    number, chance = most_within(dice, 17, risk=0.01, most=10)
    assert number == 3
    assert chance == pytest.approx(1 / 216, abs=1e-9)


def test_one_and_the_same_amount_goes_in_as_often_as_it_divides():
    assert most_within({10_000.0: 1.0}, 100_000, risk=0.01, most=50) == (10, 0.0)
    assert most_within({10_000.5: 1.0}, 100_000, risk=0.01, most=50) == (9, 0.0)
    assert times_within(100, 0.0, 7) == 7


def test_nothing_fits_where_one_amount_alone_exceeds_the_limit_too_often():
    assert most_within({1.0: 0.9, 100.0: 0.1}, 50, risk=0.01, most=10) == (0, 0.0)
    assert most_within(COIN, 0, risk=0.01, most=10) == (0, 0.0)


def test_the_bound_holds():
    assert most_within(COIN, 1000, risk=0.01, most=5) == (5, 0.0)


def test_amounts_with_a_common_divisor_are_exact_whatever_their_size():
    blocks = {256.0 * amount: share for amount, share in COIN.items()}
    assert most_within(blocks, 256 * 5 + 255, risk=0.26, most=10) == (2, 0.25)


def test_many_summands_agree_with_the_central_limit():
    # mean 2, variance 1: the sum of n exceeds 1000 with 1 % where 2 n + 2.326 sqrt(n) = 1000.5, at n = 474.5
    number, chance = most_within(COIN, 1000, risk=0.01, most=4096)
    assert number in (474, 475)
    assert 0.007 < chance < 0.01


def test_amounts_off_the_grid_come_out_as_on_a_grid_that_fits():
    fine = {amount * 1000.1: share for amount, share in COIN.items()}
    number, _ = most_within(fine, 1000 * 1000.1, risk=0.01, most=4096)
    assert number == pytest.approx(475, abs=3)


amounts = st.dictionaries(st.integers(0, 12), st.integers(1, 9), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(amounts, st.integers(1, 30), st.floats(0.005, 0.5))
def test_the_answer_is_that_of_trying_every_combination(weights, limit, risk):
    whole = sum(weights.values())
    shares = {float(amount): weight / whole for amount, weight in weights.items()}

    def exceeds(number):
        return math.fsum(
            math.prod(shares[amount] for amount in chosen)
            for chosen in itertools.product(shares, repeat=number)
            if sum(chosen) > limit
        )

    found = most_within(shares, limit, risk=risk, most=4)
    fits = [number for number in range(1, 5) if exceeds(number) < risk - 1e-9]
    assert found.number == max(fits, default=0) or abs(exceeds(found.number + 1) - risk) < 1e-8
    if found.number:
        assert found.chance == pytest.approx(exceeds(found.number), abs=1e-8)
