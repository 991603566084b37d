"""How many tokens an answer has: always the same, spread about a mean, or as past runs had them.

One draw takes one number from the generator, and a larger number gives a longer answer: two servers that differ in
their distribution alone draw comparable answers.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from widelane.errors import UsageError
from widelane.plan.footprint import MOST_TOKENS, Footprint, parse_footprint
from widelane.plan.footprints import PastCalls

_LEAST_SHARE: Final = 2.0**-53
"""The inverse of a distribution is not defined at 0; `random()` gives multiples of this."""


class Lengths(Protocol):
    """A distribution of token counts."""

    @property
    def mean_tokens(self) -> float:
        """The mean of what is drawn."""
        ...

    def draw(self, rng: random.Random) -> int:
        """Tokens of one answer, at least 1."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Every answer has this many tokens."""

    tokens: int

    def __post_init__(self) -> None:
        _check("A fixed length", self.tokens)

    @property
    def mean_tokens(self) -> float:
        return float(self.tokens)

    def draw(self, rng: random.Random) -> int:
        rng.random()  # as every distribution does
        return self.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormal:
    """Positive, longer to the right: ln(tokens) is normal.

    Attributes:
        mean_tokens: the mean of the tokens themselves, not of their logarithm.
        spread_tokens: their standard deviation.
        most_tokens: what no answer exceeds; longer draws are cut there, which lowers the mean a little.
    """

    mean_tokens: float
    spread_tokens: float
    most_tokens: int = MOST_TOKENS

    def __post_init__(self) -> None:
        _check("The mean of a length", self.mean_tokens)
        if not self.spread_tokens >= 0 or math.isinf(self.spread_tokens):
            raise UsageError(f"The spread of a length is 0 or more tokens, not {self.spread_tokens}.")
        _check("The largest length", self.most_tokens)

    def draw(self, rng: random.Random) -> int:
        share = max(rng.random(), _LEAST_SHARE)
        # Moments of the log-normal: sigma^2 = ln(1 + (s/m)^2), mu = ln m - sigma^2 / 2.
        variance = math.log1p((self.spread_tokens / self.mean_tokens) ** 2)
        if variance == 0:
            return min(self.most_tokens, round(self.mean_tokens))
        normal = statistics.NormalDist(math.log(self.mean_tokens) - variance / 2, math.sqrt(variance))
        drawn = round(math.exp(min(normal.inv_cdf(share), 20.0)))  # e^20 is past any length that is allowed
        return min(self.most_tokens, max(1, drawn))


@dataclass(frozen=True, slots=True)
class Observed:
    """One of the lengths that were seen, each as likely as it was frequent."""

    tokens: Sequence[int]
    _sorted: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.tokens:
            raise UsageError("No past lengths to draw from; state a length instead, such as 900 or 600-1500.")
        for count in self.tokens:
            _check("A past length", count)
        object.__setattr__(self, "_sorted", tuple(sorted(self.tokens)))

    @property
    def mean_tokens(self) -> float:
        return statistics.fmean(self._sorted)

    def draw(self, rng: random.Random) -> int:
        return self._sorted[int(rng.random() * len(self._sorted))]


def parse_lengths(text: str) -> Lengths:
    """What a person means by `900` (always), `600-1500` or `900±300` (log-normal about it).

    A range is where about two thirds of the answers end: its middle is the mean, half its width the standard deviation.

    Raises:
        UsageError: it is none of these, or no answer can be like that.
    """
    try:
        stated = parse_footprint(text)
    except UsageError as error:
        raise UsageError(
            f"The output length {text[:80]!r} is not understood; give tokens: 900, 600-1500 or 900±300."
        ) from error
    return lengths_of(stated)


def lengths_of(stated: Footprint) -> Lengths:
    """A mean and a spread as a distribution; fixed where no spread was stated."""
    if stated.assumed or stated.spread_tokens == 0:
        return Fixed(round(stated.mean_tokens))
    return LogNormal(mean_tokens=stated.mean_tokens, spread_tokens=stated.spread_tokens)


def output_lengths(past: PastCalls) -> Observed:
    """The output lengths of past calls: total less prompt.

    Raises:
        UsageError: none of them tells its prompt and its output apart.
    """
    outputs = [
        call.total_tokens - call.prompt_tokens
        for call in past.calls
        if call.prompt_tokens is not None and call.total_tokens > call.prompt_tokens
    ]
    if not outputs:
        skipped = f" Passed over: {past.skipped_words()}." if past.skipped else ""
        raise UsageError(
            f"None of the {len(past.calls)} past calls has an output length: records need prompt and output tokens "
            f"(`usage`).{skipped}"
        )
    return Observed(outputs)


def _check(what: str, tokens: float) -> None:
    if not 1 <= tokens <= MOST_TOKENS:
        raise UsageError(f"{what} is 1 to {MOST_TOKENS:,} tokens, not {tokens}.")
