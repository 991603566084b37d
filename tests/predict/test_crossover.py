"""The length from which splitting pays, against closed forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widelane.predict.crossover import find_crossover


def gain(plan: float, count: int, cost: float, item_tokens: float):
    """A plan of `plan` tokens, then `count` items at once in steps of `cost` times one alone; against one at a time."""

    def at(factor: float) -> float:
        item = factor * item_tokens
        return count * item / (plan + cost * item)

    return at


def test_by_hand():
    """800 tokens of plan, 24 items, steps of 1.5: (24 - 1.5) m = 800, m = 35.6."""
    found = find_crossover(gain(800, 24, 1.5, 900), 900)
    assert found.tokens == pytest.approx(36, abs=1)


@given(st.floats(1, 5000), st.integers(2, 60), st.floats(1, 1.9), st.integers(1, 5000))
def test_the_same_wherever_the_search_begins(plan, count, cost, item_tokens):
    exact = plan / (count - cost)
    found = find_crossover(gain(plan, count, cost, item_tokens), item_tokens)
    if exact > 16_000:
        return
    assert found.tokens == pytest.approx(exact, rel=0.03, abs=1.51), "to one token, rounded to a whole one"


def test_any_length_pays():
    assert find_crossover(lambda factor: 2.0, 900).tokens == 1


def test_no_length_pays():
    found = find_crossover(lambda factor: 0.9, 900)
    assert found.tokens is None
    assert "900" in found.reason


def test_a_gain_that_levels_off_below_one():
    """Items twice as long are no better off: two halves cost as much as the whole."""
    found = find_crossover(lambda factor: 0.9 * factor / (factor + 0.1), 500)
    assert found.tokens is None


def test_what_the_server_cannot_hold_is_no_crossover():
    found = find_crossover(lambda factor: 0.5 if factor <= 4 else None, 100)
    assert found.tokens is None
