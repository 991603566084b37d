"""What must be true of any run, whatever befell it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import msgspec

from tests.chaos.history import History
from tests.chaos.items import is_right, said
from tests.chaos.session import Session
from widelane.records import Span

SLACK_S = 1e-6
_AGAIN = {"started", "failed"}
"""Kinds that may be stored several times under one key."""


def check_promises(history: History) -> None:
    """What the witnesses saw being broken, and what was left behind."""
    for session in history.sessions:
        assert not session.witness.broken, session.witness.broken
        assert not session.leaks, session.leaks


def check_records(history: History) -> None:
    """Every acknowledged record is there exactly once, as it was acknowledged, from then on."""
    acknowledged: Counter[tuple[str, str]] = Counter()
    values = {}
    for session, rows in zip(history.sessions, history.rows, strict=True):
        for kind, key, value in session.witness.acknowledged:
            acknowledged[kind, key] += 1
            values[kind, key] = value
        stored = Counter((row.kind, row.key) for row in rows if row.kind != "complete")
        missing = {record: count for record, count in acknowledged.items() if stored[record] < count}
        assert not missing, f"acknowledged and not stored: {missing}"
        twice = {record for record, count in stored.items() if count > 1 and record[0] not in _AGAIN}
        assert not twice, f"stored twice: {twice}"
        # What died unacknowledged may be there; it is the very write in which the process was killed, one a kill.
        unheard = sum((stored - acknowledged).values())
        assert unheard <= sum(session.ending == "killed" for session in history.sessions)
        acknowledged |= stored
        for row in rows:
            if row.kind == "finished" and ("finished", row.key) in values:
                assert said(msgspec.json.decode(row.value)["reply"]) == values["finished", row.key]
            if row.kind == "note" and ("note", row.key) in values:
                assert msgspec.json.decode(row.value) == values["note", row.key]


def check_answers(history: History) -> None:
    """Everything is finished, with the right answer as far as the server gave it."""
    answers = history.answers()
    items = {item.key: item for item in history.plan.items}
    assert answers.keys() == items.keys()
    budget = history.plan.budget
    for key, reply in answers.items():
        short = budget is not None and budget.call_tokens is not None and reply["finish"] == "length"
        fault = history.fault_of(key)
        assert is_right(items[key], said(reply), fault, cut_short=short), f"{key} after {fault}: {reply}"
    notes = {row.key for row in history.rows[-1] if row.kind == "note"}
    assert notes == items.keys()


def check_budgets(history: History) -> None:
    """No session took more than it was given, but for what a server took beyond the limit it had been told."""
    budget = history.plan.budget
    if budget is None:
        return
    for session in (session for session in history.sessions if not session.calm):
        _check_tokens(session, budget.tokens, budget.call_tokens)
        _check_seconds(session, budget.seconds, budget.call_seconds)


def _check_tokens(session: Session, of_run: int | None, of_call: int | None) -> None:
    attempts = session.witness.attempts
    if of_run is not None:
        assert sum(attempt.used_tokens - attempt.beyond_tokens for attempt in attempts) <= of_run
    if of_call is not None and session.spans is not None:
        # A key that was offered again is another call with a budget of its own.
        offers = Counter(span.key for span in session.spans)
        for key, count in offers.items():
            used = sum(attempt.used_tokens - attempt.beyond_tokens for attempt in attempts if attempt.key == key)
            assert used <= of_call * count, f"{key}: {used} tokens in {count} calls of at most {of_call}"


def _check_seconds(session: Session, of_run: float | None, of_call: float | None) -> None:
    for attempt in session.witness.attempts:
        if of_run is not None and attempt.ended_s is not None:
            assert attempt.ended_s <= of_run + SLACK_S
    for span in session.spans or ():
        if of_call is not None and span.started_ns is not None:
            assert span.ended_ns - span.started_ns <= (of_call + SLACK_S) * 1e9, span


def check_spans(history: History) -> None:
    """One span a call, in order within itself, and no two calls in one row of the timeline at once."""
    for session in history.sessions:
        if session.spans is None:
            continue
        assert len(session.spans) == session.calls
        sent = sum(not attempt.refused for attempt in session.witness.attempts)
        assert sum(span.attempts for span in session.spans) == sent
        for span in session.spans:
            times = [span.queued_ns, span.started_ns, span.first_token_ns, span.ended_ns]
            known = [time for time in times if time is not None]
            assert known == sorted(known), span
        _check_rows(session.spans)


def _check_rows(spans: list[Span]) -> None:
    rows: dict[int, list[tuple[int, int]]] = {}
    for span in spans:
        if span.started_ns is not None:
            rows.setdefault(span.lane, []).append((span.started_ns, span.ended_ns))
    for row, times in rows.items():
        for (_, ended_ns), (started_ns, _) in pairwise(sorted(times)):
            assert started_ns >= ended_ns, f"two calls at once in row {row}"


def check_resumed(whole: History, cut: History, number: int) -> None:
    """The run that was killed in session `number` equals the one that was not.

    Up to the kill it is the same run, record for record; in the end it has the same keys and the same answers, but for
    those that a fault spoilt in one of the two.
    """
    kept = cut.rows[number - 1]
    assert kept == whole.rows[number - 1][: len(kept)]
    at_least = [*(len(rows) for rows in whole.rows[: number - 1][-1:]), 0][0]
    assert len(kept) >= at_least + len(cut.sessions[number - 1].witness.acknowledged)
    theirs, ours = whole.answers(), cut.answers()
    assert ours.keys() == theirs.keys()
    for key, reply in ours.items():
        if said(reply) != said(theirs[key]):
            spoilt = whole.fault_of(key), cut.fault_of(key)
            assert any(spoilt) or "length" in (reply["finish"], theirs[key]["finish"]), f"{key}: {spoilt}"
