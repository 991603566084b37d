"""Past calls in logs of every kind: what counts as a call, and what is passed over and why."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widelane.plan import footprints
from widelane.plan.footprint import PastCall
from widelane.plan.footprints import from_document, from_lines

OPENAI = {"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 300, "completion_tokens": 700}}
FOUND = PastCall(prompt_tokens=300, total_tokens=1_000)


def calls(*records):
    return from_lines(record if isinstance(record, str) else json.dumps(record) for record in records)


@pytest.mark.parametrize(
    "record",
    [
        OPENAI,
        {"request": {}, "response": OPENAI},
        {"custom_id": "a", "response": {"status_code": 200, "body": OPENAI}, "error": None},
        {"usage": {"input_tokens": 300, "output_tokens": 700, "total_tokens": 1000}},
        {"usage": {"input_tokens": 40, "cache_read_input_tokens": 250, "cache_creation_input_tokens": 10,
                   "output_tokens": 700}},
        {"prompt_tokens": 300, "completion_tokens": 700},
        {"tokens_evaluated": 300, "tokens_predicted": 700, "content": "…"},
        {"model": "llama3", "prompt_eval_count": 300, "eval_count": 700, "done": True},
        {"id": 7, "session": 1, "t_ns": 5, "kind": "finished", "key": "a", "value": {"span": {}, "reply": OPENAI}},
        {"key": "a", "prompt_tokens": 300, "output_tokens": 700, "outcome": "ok", "error": None},
        {"text": "…", "finish": "stop", "usage": {"prompt_tokens": 300, "completion_tokens": 700, "origin": "read"}},
        {"kind": "repeat", "value": {"calls": [{"prompt_tokens": 300, "output_tokens": 700, "failure": None}]}},
        "data: " + json.dumps(OPENAI),
    ],
)  # fmt: skip
def test_one_call_however_it_was_logged(record):
    past = calls(record)
    assert past.calls == [FOUND]
    assert past.skipped == {}


def test_plain_numbers_and_totals_tell_no_prompt():
    past = calls("15234", "900.0", {"total_tokens": 12}, {"usage": {"total_tokens": 13}}, {"tokens": 14})
    assert past.calls == [PastCall(prompt_tokens=None, total_tokens=total) for total in (15_234, 900, 12, 13, 14)]


def test_empty_lines_comments_and_the_marks_of_an_event_stream_are_no_records():
    assert calls("", "  ", "# tokens a call", "event: done", ": ping", "data: [DONE]", "\ufeff512").skipped == {}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("hello", footprints.NO_JSON),
        ('{"usage": {"prompt_tokens": 3', footprints.NO_JSON),
        ("[" * 100_000, footprints.NO_JSON),
        ({"choices": []}, footprints.NO_COUNTS),
        ({"usage": None}, footprints.NO_COUNTS),
        ({"usage": {"completion_tokens": 7}}, footprints.NO_COUNTS),
        ("null", footprints.NO_COUNTS),
        ('"text"', footprints.NO_COUNTS),
        ("0", footprints.ODD_COUNTS),
        ("-5", footprints.ODD_COUNTS),
        ("12.5", footprints.ODD_COUNTS),
        ("true", footprints.ODD_COUNTS),
        ("1000000000000", footprints.ODD_COUNTS),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": 5}}, footprints.ODD_COUNTS),
        ({"usage": {"prompt_tokens": "3", "completion_tokens": 5}}, footprints.ODD_COUNTS),
        ({"usage": {"prompt_tokens": 0, "completion_tokens": 0}}, footprints.ODD_COUNTS),
        ({"error": {"message": "overloaded"}}, footprints.FAILED),
        ({"custom_id": "a", "response": {"status_code": 500, "body": OPENAI}}, footprints.FAILED),
        ({"kind": "failed", "key": "a", "value": {"span": {"prompt_tokens": 5}, "reply": None}}, footprints.FAILED),
        ({"prompt_tokens": 300, "output_tokens": 7, "outcome": "cancelled"}, footprints.FAILED),
        ({"prompt_tokens": 300, "output_tokens": 7, "failure": "connection_lost"}, footprints.FAILED),
        ({"prompt_tokens": 300, "output_tokens": 7, "finished": False}, footprints.CUT_OFF),
    ],
)  # fmt: skip
def test_what_is_no_usable_call_is_counted_by_its_reason(record, reason):
    past = calls(OPENAI, record)
    assert past.calls == [FOUND]
    assert past.skipped == {reason: 1}
    assert past.skipped_words() == f"1 {reason} (first: 2)"


def test_exported_events_that_are_no_calls_are_not_held_against_the_log():
    assert calls({"kind": "started", "key": "a", "value": None}, {"kind": "complete", "value": None}).skipped == {}


def test_a_document_is_a_list_an_object_that_holds_one_or_a_saved_sweep():
    span = {"key": "a", "prompt_tokens": 300, "output_tokens": 700, "outcome": "ok"}
    for document in ([OPENAI], {"object": "list", "data": [OPENAI]}, {"timeline": {"4": [span], "8": []}}, OPENAI):
        assert from_document(document).calls == [FOUND]
    assert from_document([1, 2]).calls == [PastCall(prompt_tokens=None, total_tokens=total) for total in (1, 2)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["usage", "prompt_tokens", "completion_tokens", "total_tokens", "value", "reply", "calls",
                             "response", "body", "kind", "error", "timeline", "span", "output_tokens"]),
            inner, max_size=4)
    ),
    max_leaves=12,
)  # fmt: skip


@given(json_values)
def test_no_record_whatever_breaks_the_reader_and_every_call_is_possible(value):
    line = msgspec.json.encode(value).decode()
    for past in (from_lines([line]), from_document(value)):
        for call in past.calls:
            assert call.total_tokens >= 1
            assert call.prompt_tokens is None or 0 <= call.prompt_tokens <= call.total_tokens
