"""The document of `widelane predict --json`: whether a job gains from width on a server, every number with its origin.

Plain dataclasses; the JSON schema is generated from here (docs/reference/schemas). `predict.make` fills it in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from widelane.figures import Figure, Schema
from widelane.records import Span

PREDICT_SCHEMA = Schema("widelane.predict", 1)


class Verdict(StrEnum):
    """What to do about the job."""

    PARALLELISE = "parallelise"
    """It is faster in parallel even if the server is as bad at it as it may be."""
    DO_NOT = "do-not"
    """It is no faster in parallel even if the server is as good at it as it may be."""
    TOO_CLOSE = "too-close"
    """The interval of the speed-up holds 1: measure before you build on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """The job as it was understood.

    Attributes:
        kind: `map-reduce`, `steps` or `best-of`.
        words: the job; `instead`: what it is held against.
        calls: calls at most. output_tokens: written by all of them, on average over the runs.
    """

    kind: str
    words: str
    instead: str
    calls: int
    output_tokens: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Calls of one role: how long at least one of them was in flight.

    Attributes:
        one_lane_s, lanes_s: on one lane, and on the lanes worth using.
        gain: the one over the other.
        share_one_lane, share: of the wall clock on one lane, and on the lanes worth using.
    """

    role: str
    one_lane_s: Figure
    lanes_s: Figure
    gain: Figure
    share_one_lane: Figure
    share: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthPoint:
    """The job on one number of lanes.

    Attributes:
        wall_s: from its start to its end. speedup: over what would be done instead.
        utilisation: share of the lanes' time in which they held a call.
        output_tok_s: tokens written in all over the wall clock.
        serial_tokens: written one after another on the way to the end, calls that others had to wait for included.
    """

    lanes: int
    wall_s: Figure
    speedup: Figure
    utilisation: Figure
    output_tok_s: Figure
    serial_tokens: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictReport:
    """The document.

    Attributes:
        server: the server in words.
        sentence: the verdict for a person; `why`: what it rests on, a sentence each.
        wall_s: on the lanes worth using. instead_s: what would be done instead, on one lane.
        one_lane_s: the same job on one lane.
        speedup: instead_s over wall_s; its interval decides the verdict.
        lanes: the fewest lanes that are nearly as fast as any number of them.
        serial_tokens: the longest chain of tokens that must be written one after another, with as many lanes as wanted.
        serial_share_one_lane, serial_share: time in which one call ran alone because nothing could run beside it, as a
            share of the wall clock on one lane and on the lanes worth using (Amdahl).
        most_speedup: over the same job on one lane, if further lanes cost nothing.
        crossover_tokens: how long an item must be for splitting to pay.
        solved: chance that some try passes.
        widths: by rising number of lanes.
        server_slots: sequences that the server decodes together.
        timeline: the calls of one run on one lane and on the lanes worth using; empty in `--json`.
        made: what replays the prediction.
    """

    schema: Schema = PREDICT_SCHEMA
    server: str
    job: JobSummary
    verdict: Verdict
    sentence: str
    why: Sequence[str]
    wall_s: Figure
    instead_s: Figure
    one_lane_s: Figure
    speedup: Figure
    lanes: Figure
    serial_tokens: Figure
    serial_share_one_lane: Figure
    serial_share: Figure
    most_speedup: Figure
    utilisation: Figure
    output_tok_s: Figure
    crossover_tokens: Figure
    solved: Figure
    phases: Sequence[Phase]
    widths: Sequence[WidthPoint]
    server_slots: Figure
    notes: Sequence[str] = ()
    made: Mapping[str, str] = field(default_factory=dict)
    timeline: Mapping[str, Sequence[Span]] = field(default_factory=dict)
