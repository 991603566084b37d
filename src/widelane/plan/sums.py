"""The chance that several independent amounts together exceed a limit, and how many may be added before it does.

Exact convolution on a grid: an amount's distribution is a polynomial whose coefficients are probabilities, and adding
amounts multiplies polynomials. Each polynomial is packed into one big integer (Kronecker substitution), because Python
multiplies those in C. Whatever lies above the limit is dropped, and its probability is what is missing from 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

MOST_CELLS: Final = 1024
"""Cells of the grid between 0 and the limit. Amounts that share a large enough divisor (blocks, padded tokens) are
exact on it; others are split between two neighbours so that their mean stays."""

_BITS: Final = 46
_ONE: Final = 1 << _BITS
"""A probability of 1. Rounding loses at most MOST_CELLS / 2^46 = 1.5e-11 a multiplication, always to the safe side."""
_BYTES: Final = 12
_WIDTH: Final = 8 * _BYTES
"""Room of one coefficient: products of two distributions stay below 2^93."""


class Most(NamedTuple):
    """How many amounts may be added.

    Attributes:
        number: 0 when not even one stays within the limit surely enough.
        chance: that `number` of them exceed the limit together; 0.0 for none.
    """

    number: int
    chance: float


def most_within(amounts: Mapping[float, float], limit: float, *, risk: float, most: int) -> Most:
    """The most independent amounts whose sum exceeds `limit` with a chance below `risk`.

    Args:
        amounts: probability of each amount; the probabilities add up to 1, the amounts are not negative.
        most: bound of the answer.
    """
    if most < 1 or limit <= 0:
        return Most(0, 0.0)
    amounts = {amount: share for amount, share in amounts.items() if share > 0.0}
    if most * max(amounts) <= limit:
        return Most(most, 0.0)
    if len(amounts) == 1:
        return Most(times_within(limit, next(iter(amounts)), most), 0.0)
    cells, one = _on_grid(amounts, limit)
    doublings = [one]
    while 2 ** len(doublings) <= most and _missing(doublings[-1]) < risk:
        doublings.append(_sum(doublings[-1], doublings[-1], cells))
    count, total = 0, _ONE
    for power in range(len(doublings) - 1, -1, -1):
        tried = _sum(total, doublings[power], cells)
        if count + 2**power <= most and _missing(tried) < risk:
            count, total = count + 2**power, tried
    return Most(count, _missing(total) if count else 0.0)


def times_within(limit: float, amount: float, most: int) -> int:
    """How often one and the same amount goes into the limit, at most `most` times."""
    return most if amount <= 0 else min(most, int(limit // amount))


def _on_grid(amounts: Mapping[float, float], limit: float) -> tuple[int, int]:
    """(number of cells, probabilities of one amount by cell, packed); what exceeds the limit is left out."""
    step, cells = _grid(amounts, limit)
    grid = [0.0] * (cells + 1)
    for amount, share in amounts.items():
        below = math.floor(amount / step)
        above_share = amount / step - below
        if below <= cells:
            grid[below] += share * (1.0 - above_share)
        if below + 1 <= cells:
            grid[below + 1] += share * above_share
    return cells + 1, int.from_bytes(b"".join(int(share * _ONE).to_bytes(_BYTES, "little") for share in grid), "little")


def _grid(amounts: Mapping[float, float], limit: float) -> tuple[float, int]:
    """Width and number of cells: the amounts' common divisor where the grid stays small enough with it."""
    if all(float(amount).is_integer() for amount in amounts):
        divisor = math.gcd(*(int(amount) for amount in amounts))
        if divisor > 0 and limit // divisor <= MOST_CELLS:
            return float(divisor), int(limit // divisor)
    return limit / MOST_CELLS, MOST_CELLS


def _sum(first: int, second: int, cells: int) -> int:
    """The distribution of the sum of two amounts, cut off at the limit; all packed."""
    return (first * second >> _BITS) & _kept(cells)


@cache
def _kept(cells: int) -> int:
    """Ones where a product's coefficients lie once they are shifted back: neither their neighbours nor what exceeds."""
    one = (1 << (_WIDTH - _BITS)) - 1
    return int.from_bytes(one.to_bytes(_BYTES, "little") * cells, "little")


def _missing(packed: int) -> float:
    """The chance of lying above the limit: what the coefficients lack, their sum being the remainder by 2^width - 1."""
    return max(0, _ONE - packed % ((1 << _WIDTH) - 1)) / _ONE
