"""How many tokens of context one call takes up: of past calls, or as a mean and a spread.

A footprint is prompt and output together, at the call's end. Nothing is reserved for what a call might still write:
`max_tokens` is a fuse, not a reservation.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from widelane.errors import UsageError

ASSUMED_SPREAD: Final = 0.2
"""Standard deviation over mean where only one number is stated: that of reasoning chains of 12,000 to 18,000 tokens.
Mixed chat varies more (state a range, or give a file of past runs)."""
MOST_TOKENS: Final = 100_000_000
"""No context is longer; a larger number is a mistake."""

_NUMBER: Final = r"(\d[\d,_]*(?:\.\d+)?)\s*([km]?)"
_RANGE: Final = re.compile(rf"{_NUMBER}\s*(?:-|–|—|\.\.|to)\s*{_NUMBER}", re.IGNORECASE)
_SPREAD: Final = re.compile(rf"{_NUMBER}\s*(?:±|\+-|\+/-)\s*{_NUMBER}", re.IGNORECASE)
_SINGLE: Final = re.compile(_NUMBER, re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1000, "m": 1_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """One call that was made.

    Attributes:
        prompt_tokens: None when only the total is known.
        total_tokens: prompt and output, at its end; at least 1.
    """

    prompt_tokens: int | None
    total_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What calls typically take up, as two numbers; lengths are taken to be log-normal (positive, longer to the right).

    Attributes:
        mean_tokens: prompt and output at a call's end, on average.
        spread_tokens: standard deviation of that.
        prompt_tokens: of which the prompt, 0 when it is short or not known.
        assumed: True when the spread was not stated.
    """

    mean_tokens: float
    spread_tokens: float
    prompt_tokens: float = 0.0
    assumed: bool = False


def parse_footprint(text: str) -> Footprint:
    """What a person means by `15000`, `12000-18000`, `12k-18k` or `15000±3000`.

    A range is where about two thirds of the calls end: its middle is the mean, half its width the standard deviation.
    A single number gets a spread of a fifth, marked as assumed.

    Raises:
        UsageError: it is none of these, or no call can be like that.
    """
    stated = text.strip()
    if match := _RANGE.fullmatch(stated):
        low, high = _tokens(match[1], match[2] or match[4]), _tokens(match[3], match[4])
        if low > high:
            raise UsageError(f"The footprint {text!r} is a range that ends before it begins.")
        footprint = Footprint(mean_tokens=(low + high) / 2, spread_tokens=(high - low) / 2)
    elif match := _SPREAD.fullmatch(stated):
        footprint = Footprint(
            mean_tokens=_tokens(match[1], match[2] or match[4]), spread_tokens=_tokens(match[3], match[4])
        )
    elif match := _SINGLE.fullmatch(stated):
        mean = _tokens(match[1], match[2])
        footprint = Footprint(mean_tokens=mean, spread_tokens=ASSUMED_SPREAD * mean, assumed=True)
    else:
        raise UsageError(
            f"The footprint {text[:80]!r} is not understood; give tokens a call: 15000, 12k-18k or 15k±3k."
        )
    if not 1 <= footprint.mean_tokens <= MOST_TOKENS or footprint.spread_tokens > MOST_TOKENS:
        raise UsageError(f"The footprint {text[:80]!r} is not that of a call; give 1 to {MOST_TOKENS:,} tokens.")
    return footprint


def footprint_of(calls: Sequence[PastCall]) -> Footprint:
    """Past calls as a mean and a spread; the prompt is the mean of those that tell it.

    Raises:
        UsageError: there are no calls.
    """
    if not calls:
        raise UsageError("No past calls to take a typical footprint from; state one instead, such as 12k-18k.")
    totals = [call.total_tokens for call in calls]
    prompts = [call.prompt_tokens for call in calls if call.prompt_tokens is not None]
    return Footprint(
        mean_tokens=statistics.fmean(totals),
        spread_tokens=statistics.pstdev(totals),
        prompt_tokens=statistics.fmean(prompts) if prompts else 0.0,
    )


def _tokens(number: str, unit: str) -> float:
    """`12` and `k` as 12000. In `12-18k` the unit stands for both numbers."""
    try:
        return float(number.replace(",", "").replace("_", "")) * _UNITS[unit.lower()]
    except (OverflowError, ValueError):
        raise UsageError(f"{number[:80]!r} is no number of tokens.") from None
