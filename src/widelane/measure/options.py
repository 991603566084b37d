"""What a sweep is asked to do, validated once, here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from widelane.errors import UsageError

MAX_CONCURRENCY = 1024
"""Widest level that can be asked for: each call is a connection, and no server in the engine notes runs wider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """What to measure and for how long.

    Attributes:
        levels: exactly these levels; None lets the sweep choose (doubling, then in-between levels at the knee).
        max_level: widest level that an adaptive sweep goes to.
        prompt_tokens: about this many tokens a prompt, counted in words; the server's own count goes into the report.
        output_tokens: tokens a call is made to write.
        endpoint: `completions`, `chat`, or `auto` (completions where the server has it: no template, no system prompt).
        seconds: bound on the whole sweep.
        precision: half-width of the 95 % interval of throughput, relative, at which a level is done.
        min_repeats, max_repeats: steady windows a level.
        min_window_s: shortest steady window, so that fast servers are not judged on milliseconds.
        bandwidth_bytes_s: nominal memory bandwidth of the server's machine, None when not known; only for checking.
        model: model name to send, None for the server's own.
        seed: prompts are made from it; None takes one from the run's random generator.
    """

    levels: tuple[int, ...] | None = None
    max_level: int = 128
    prompt_tokens: int = 16
    output_tokens: int = 64
    endpoint: str = "auto"
    seconds: float = 120.0
    precision: float = 0.05
    min_repeats: int = 3
    max_repeats: int = 12
    min_window_s: float = 0.5
    bandwidth_bytes_s: float | None = None
    model: str | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.levels is not None:
            check_levels(self.levels)
        if not 1 <= self.max_level <= MAX_CONCURRENCY:
            raise UsageError(f"The widest level must be between 1 and {MAX_CONCURRENCY}, not {self.max_level}.")
        if self.output_tokens < 4:
            raise UsageError(
                f"Calls of {self.output_tokens} output tokens cannot show a decoding speed: ask for at least 4."
            )
        if self.prompt_tokens < 1:
            raise UsageError(f"A prompt has at least one token, not {self.prompt_tokens}.")
        if not 0 < self.seconds < math.inf:
            raise UsageError(f"A sweep needs time, and an end: {self.seconds:g} seconds are neither.")
        if not 0 < self.precision < 1:
            raise UsageError(f"The precision is a share between 0 and 1 (0.05 is ±5 %), not {self.precision:g}.")
        if self.endpoint not in {"auto", "chat", "completions"}:
            raise UsageError(f"The endpoint is `auto`, `chat` or `completions`, not {self.endpoint!r}.")
        if not 1 <= self.min_repeats <= self.max_repeats:
            raise UsageError(f"{self.min_repeats} to {self.max_repeats} repeats a level make no range.")

    def as_config(self) -> Mapping[str, object]:
        """All options as plain JSON values: what a run directory keeps, and what a resumed run must match."""
        config = asdict(self)
        config["levels"] = list(self.levels) if self.levels is not None else None
        return config


def quick_options(
    *, levels: tuple[int, ...] = (1, 2, 4, 8, 16), seconds: float = 24.0, seed: int | None = None
) -> SweepOptions:
    """A sweep for a first look: short outputs, fewer windows, the same code path."""
    return SweepOptions(
        levels=levels, output_tokens=24, prompt_tokens=8, seconds=seconds, precision=0.1, min_repeats=2, max_repeats=4,
        seed=seed,
    )  # fmt: skip


def parse_levels(text: str) -> tuple[int, ...]:
    """The levels in `1,2,4`, by rising width.

    Raises:
        UsageError: something is not a whole number from 1 to 1024, or comes twice.
    """
    levels: list[int] = []
    for part in text.split(","):
        word = part.strip()
        if not (word.isascii() and word.isdigit()):
            raise UsageError(
                f"Level {word!r} in {text!r} is not a whole number from 1 to {MAX_CONCURRENCY}. "
                "Write levels with commas, e.g. 1,2,4,8."
            )
        levels.append(int(word))
    check_levels(levels)
    return tuple(sorted(levels))


def check_levels(levels: tuple[int, ...] | list[int]) -> None:
    """Nothing, when the levels can be run.

    Raises:
        UsageError: none given, out of range, or one twice.
    """
    if not levels:
        raise UsageError("No level to measure: write levels with commas, e.g. 1,2,4,8.")
    for level in levels:
        if not 1 <= level <= MAX_CONCURRENCY:
            raise UsageError(f"Level {level} is out of range: a level is a whole number from 1 to {MAX_CONCURRENCY}.")
    twice = sorted({level for level in levels if levels.count(level) > 1})
    if twice:
        raise UsageError(f"Level {twice[0]} is asked for twice: each level is measured once, with repeats of its own.")
