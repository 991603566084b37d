"""A number shown to a person, and a finding: what every `--json` output is made of.

A `Figure` carries its unit and where it comes from; an unknown one is None with a reason, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Origin(StrEnum):
    """Where a figure comes from."""

    MEASURED = "measured"
    READ = "read"
    """The server or its launch line says so."""
    INFERRED = "inferred"
    """Concluded from behaviour (a probe), not said by the server."""
    PREDICTED = "predicted"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Figure:
    """One value with unit and origin.

    Attributes:
        value: the value; None when unknown, and then `reason` says why.
        unit: e.g. `tok/s`, `s`, `tokens`, `bytes`, `slots`; empty for words and yes/no.
        low, high: bounds of the interval, where there is one (95 % unless `reason` says otherwise).
        reason: why the value is None, or how it was come by.
    """

    value: float | int | str | bool | None
    unit: str
    origin: Origin
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.value is None and not self.reason:
            raise ValueError("a figure without a value needs a reason")

    @property
    def number(self) -> float | None:
        """The value as a float, None when it is unknown or not a number."""
        return float(self.value) if isinstance(self.value, (int, float)) else None


def unknown(unit: str, reason: str, origin: Origin = Origin.READ) -> Figure:
    """A figure that could not be had, and why."""
    return Figure(None, unit, origin, reason=reason)


def plural(count: int, noun: str) -> str:
    """`1 request`, `32 requests`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class Severity(StrEnum):
    """How much a finding matters; `NOT_CHECKED` is never a pass."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    OK = "ok"
    NOT_CHECKED = "not-checked"


@dataclass(frozen=True, slots=True)
class Fix:
    """What to change.

    Attributes:
        flag: the flag or setting itself, e.g. `-np 16 -c 32768`.
        command: a whole line to paste, None when the launch line is not known.
        engine: engine the flag belongs to.
        checked_on: version on which the flag was checked.
        reason: why this helps, and what else it changes, in one or two sentences.
    """

    flag: str
    command: str | None = None
    engine: str | None = None
    checked_on: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found out about a server, good or bad.

    Attributes:
        code: kebab-case name of the check, e.g. `too-few-slots`; the same code reports health (`ok`).
        title: one plain sentence.
        evidence: what was seen, with figures.
        gain: expected gain of the fix, with its origin.
    """

    code: str
    severity: Severity
    title: str
    evidence: str
    fix: Fix | None = None
    gain: Figure | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """Name and version of a JSON document."""

    name: str
    version: int
