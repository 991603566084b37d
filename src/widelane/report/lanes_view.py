"""The timeline's part of a page: all drawings that it can show, and which one it shows first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from widelane.report import payload
from widelane.report.timeline import Timeline, summary


@dataclass(frozen=True, slots=True)
class Lanes:
    """What the timeline's part of the page needs: the drawings, which one is shown first, colours, words."""

    data: Markup
    runs: Sequence[str]
    labels: Sequence[Sequence[str]]
    first: tuple[int, int]
    height_px: int
    colours: dict[str, str]
    in_words: Sequence[tuple[str, str]]
    has_path: bool
    has_slots: bool
    has_ceiling: bool


def lanes_of(runs: Sequence[tuple[str, Sequence[Timeline]]], *, first: tuple[int, int]) -> Lanes:
    """What draws these runs.

    Args:
        runs: name and timelines of each; none is empty.
        first: run and timeline that are shown first.
    """
    every = [timeline for _, drawn in runs for timeline in drawn]
    colours = payload.role_colours(every)
    run, level = first
    data = {"colours": colours, "first": [run, level], "runs": [
        {"name": name, "levels": [payload.payload(timeline) for timeline in drawn]} for name, drawn in runs
    ]}  # fmt: skip
    return Lanes(
        data=payload.script_json(data),
        runs=[name for name, _ in runs],
        labels=[[timeline.label for timeline in drawn] for _, drawn in runs],
        first=first,
        height_px=payload.height_px(runs[run][1][level]),
        colours=colours,
        in_words=[(f"{name} {timeline.label}", summary(timeline)) for name, drawn in runs for timeline in drawn],
        has_path=any(timeline.critical for timeline in every),
        has_slots=any(timeline.slots is not None for timeline in every),
        has_ceiling=any(timeline.ceiling_tok_s is not None for timeline in every),
    )
