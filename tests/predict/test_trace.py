"""What spans tell, on calls drawn by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widelane.predict.trace import Busy, busy, critical_path, lane_path, output_tokens, phase_seconds
from widelane.records import Outcome, Span


def span(key: str, start_s: float, end_s: float, *, queued_s: float | None = None, **more) -> Span:
    return Span(
        key=key,
        queued_ns=int((start_s if queued_s is None else queued_s) * 1e9),
        started_ns=int(start_s * 1e9),
        first_token_ns=int(start_s * 1e9),
        ended_ns=int(end_s * 1e9),
        **{"output_tokens": 10, **more},
    )


PLAN = span("plan", 0, 2, role="plan", output_tokens=20)
MAPS = [span("a", 2, 5, parent="plan"), span("b", 2, 4, parent="plan"), span("c", 4, 6, queued_s=2, parent="plan")]
REDUCE = span("reduce", 6, 7, parent="c", role="integrate")
JOB = [PLAN, *MAPS, REDUCE]
"""Two lanes: c waits for b's lane."""


def test_alone_and_shared():
    """Alone: 0-2 the plan, 5-6 c after a ended, 6-7 the reduce. Shared: 2-5."""
    assert busy(JOB) == Busy(alone_s=4.0, shared_s=3.0, lane_s=2 + 3 + 2 + 2 + 1, most=2)


def test_nothing_was_called():
    assert busy([]) == Busy(0.0, 0.0, 0.0, 0)
    assert critical_path([]) == []
    assert phase_seconds([]) == {}


def test_a_call_that_never_started_was_never_in_flight():
    waiting = Span(key="w", queued_ns=0, started_ns=None, first_token_ns=None, ended_ns=9, outcome=Outcome.CANCELLED)
    assert busy([PLAN, waiting]).most == 1


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), max_size=12))
def test_lane_time_is_the_sum_of_the_calls(stretches):
    spans = [span(str(index), start, start + length) for index, (start, length) in enumerate(stretches)]
    assert busy(spans).lane_s == pytest.approx(sum(length for _, length in stretches))


def test_the_chain_of_causes():
    assert [one.key for one in critical_path(JOB)] == ["plan", "c", "reduce"]
    assert output_tokens(critical_path(JOB)) == 40


def test_the_chain_that_set_the_clock_goes_through_the_lane_that_was_waited_for():
    assert [one.key for one in lane_path(JOB)] == ["plan", "b", "c", "reduce"]


def test_a_loser_ends_no_chain():
    winner = span("winner", 0, 3)
    loser = span("loser", 0, 4, outcome=Outcome.CANCELLED, output_tokens=None)
    assert critical_path([winner, loser]) == [winner]


def test_phases_are_counted_once_where_calls_overlap():
    assert phase_seconds(JOB) == {"plan": 2.0, "work": 4.0, "integrate": 1.0}


def test_a_chain_of_two_thousand_calls():
    """Time grows with the calls, not with their square."""
    spans = [span(f"c{i}", i, i + 1, parent=f"c{i - 1}" if i else None) for i in range(2000)]
    assert [one.key for one in critical_path(spans)] == [one.key for one in spans]
