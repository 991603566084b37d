"""Spans become bars, a strip and a critical path; all by hand-made examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report import samples
from widelane.records import Outcome, Span
from widelane.report.timeline import build, most_decoding, strip, summary

S = samples.S


def span(
    key: str, lane: int, queued: float, started: float | None, first: float | None, ended: float, **more: Any
) -> Span:
    def at(t_s: float | None) -> int | None:
        return None if t_s is None else round((t_s + 100) * S)  # a clock does not start at zero

    return Span(
        key=key, lane=lane, queued_ns=at(queued) or 0, started_ns=at(started), first_token_ns=at(first),
        ended_ns=at(ended) or 0, **more,
    )  # fmt: skip


def test_times_are_seconds_since_the_first_call_was_offered() -> None:
    drawn = build([span("b", 1, 0.5, 1, 2, 4), span("a", 0, 0, 0.25, 1, 3)])
    first, second = drawn.bars
    assert (first.key, first.queued_s, first.started_s, first.first_s, first.ended_s) == ("a", 0, 0.25, 1, 3)
    assert (second.key, second.queued_s, second.started_s, second.first_s, second.ended_s) == ("b", 0.5, 1, 2, 4)
    assert drawn.duration_s == 4


def test_only_lanes_that_held_a_call_get_a_row() -> None:
    """Rows keep the lanes' numbers, from 1."""
    drawn = build([span("a", 7, 0, 0, 1, 2), span("b", 2, 0, 0, 1, 2)])
    assert drawn.rows == ["3", "8"]
    assert {bar.key: bar.row for bar in drawn.bars} == {"a": 1, "b": 0}


def test_a_call_that_never_was_sent_or_never_answered_keeps_its_gaps() -> None:
    drawn = build([span("q", 0, 0, None, None, 1, outcome=Outcome.CANCELLED), span("f", 1, 0, 0, None, 2)])
    by_key = {bar.key: bar for bar in drawn.bars}
    assert by_key["q"].started_s is None
    assert by_key["q"].served_s is None
    assert by_key["f"].first_s is None


def test_nothing_to_draw() -> None:
    drawn = build([])
    assert (drawn.bars, drawn.duration_s, drawn.critical) == ([], 0.0, [])
    assert summary(drawn) == "No calls were recorded."


# --- the wait for a slot


def test_with_two_slots_the_third_call_is_served_when_the_first_leaves() -> None:
    spans = [span("a", 0, 0, 0, 1, 4), span("b", 1, 0, 0, 1, 6), span("c", 2, 0, 0, 5, 9), span("d", 3, 0, 0, 7, 9)]
    served = {bar.key: bar.served_s for bar in build(spans, slots=2).bars}
    assert served == {"a": 0, "b": 0, "c": 4, "d": 6}


def test_without_slots_nobody_is_said_to_have_waited() -> None:
    spans = [span("a", 0, 0, 0, 1, 4), span("b", 1, 0, 0, 5, 6)]
    assert [bar.served_s for bar in build(spans).bars] == [0, 0]


def test_a_wrong_number_of_slots_never_puts_service_after_the_first_token() -> None:
    spans = [span("a", 0, 0, 0, 1, 10), span("b", 1, 0, 0, 2, 10)]
    assert [bar.served_s for bar in build(spans, slots=1).bars] == [0, 2]


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 6),
)
def test_a_bar_always_runs_forward(steps: list[tuple[int, int, int, int]], slots: int) -> None:
    spans = [span(str(index), index, q, q + s, q + s + f, q + s + f + e) for index, (q, s, f, e) in enumerate(steps)]
    for bar in build(spans, slots=slots).bars:
        assert bar.started_s is not None and bar.served_s is not None and bar.first_s is not None
        assert bar.queued_s <= bar.started_s <= bar.served_s <= bar.first_s <= bar.ended_s


# --- the strip


def test_the_strip_counts_a_calls_tokens_evenly_from_first_token_to_end() -> None:
    """30 tokens over 1 … 4 s and 10 over 2 … 4 s: 10/s, then 15/s."""
    drawn = build([span("a", 0, 0, 0, 1, 4, output_tokens=30), span("b", 1, 0, 0, 2, 4, output_tokens=10)])
    assert list(zip(drawn.strip.time_s, drawn.strip.tokens, strict=True)) == [
        (0, 0), (1, 0), (2, pytest.approx(10)), (4, pytest.approx(40)),
    ]  # fmt: skip


def test_an_answer_in_one_piece_is_a_step() -> None:
    drawn = build([span("a", 0, 0, 0, 2, 2, output_tokens=5)])
    assert list(zip(drawn.strip.time_s, drawn.strip.tokens, strict=True)) == [(0, 0), (2, 0), (2, 5)]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 200)), max_size=25))
def test_no_token_is_lost_or_made_up_in_the_strip(calls: list[tuple[int, int, int]]) -> None:
    spans = [span(str(i), i, q, q, q, q + long, output_tokens=n) for i, (q, long, n) in enumerate(calls)]
    drawn = strip(build(spans).bars)
    assert drawn.tokens[-1] == pytest.approx(sum(n for _, _, n in calls))
    assert list(drawn.time_s) == sorted(drawn.time_s)
    assert list(drawn.tokens) == sorted(drawn.tokens)


# --- the critical path


def test_the_critical_path_is_the_chain_of_causes_of_the_call_that_ended_last() -> None:
    drawn = build(samples.job_spans())
    assert [drawn.bars[index].key for index in drawn.critical] == ["plan", "work-2", "verify-2", "integrate"]


def test_calls_without_a_cause_have_no_critical_path() -> None:
    assert build([span("a", 0, 0, 0, 1, 2), span("b", 1, 0, 0, 1, 3)]).critical == []


def test_a_parent_that_is_not_in_the_trace_or_a_circle_ends_the_path() -> None:
    assert build([span("a", 0, 0, 0, 1, 2, parent="gone")]).critical == []
    circle = [span("a", 0, 0, 0, 1, 2, parent="b"), span("b", 0, 2, 2, 3, 4, parent="a")]
    assert build(circle).critical == [0, 1]


# --- in words


def test_a_call_that_ends_as_another_begins_is_not_counted_with_it() -> None:
    assert most_decoding(build([span("a", 0, 0, 0, 1, 2), span("b", 0, 1, 1, 2, 3)]).bars) == 1


def test_the_summary_names_what_the_drawing_shows() -> None:
    spans = [
        span("a", 0, 0, 0, 1, 4),
        span("b", 1, 0, 0, 5, 6, outcome=Outcome.FAILED),
        span("c", 2, 0, 0, 1, 2, outcome=Outcome.CANCELLED),
    ]
    assert summary(build(spans, slots=2)) == (
        "3 calls on 3 lanes in 6.0 s, at most 2 decoding together, 1 waited for one of 2 slots, 1 failed, 1 cancelled."
    )


def test_recorded_bursts_show_no_more_decoding_together_than_the_server_has_places(data_dir: Path) -> None:
    """A recording's name says the number of places (`np4`, `max_num_seqs_64`); a burst wider than it must wait."""
    paths = sorted((data_dir / "fixtures" / "sweeps").glob("*.json"))
    if not paths:
        pytest.skip("no recorded sweeps")
    for path in paths:
        slots = int(path.stem.rpartition("_")[2].removeprefix("np"))
        for level in json.loads(path.read_bytes())["levels"]:
            drawn = build(samples.recorded_spans(level), slots=slots)
            assert len(drawn.bars) == len(level["requests"])
            assert most_decoding(drawn.bars) <= slots, (path.name, level["concurrency"])
            waited = sum((bar.served_s or 0) - (bar.started_s or 0) > 1e-3 for bar in drawn.bars)
            assert waited == max(0, level["concurrency"] - slots), (path.name, level["concurrency"])
