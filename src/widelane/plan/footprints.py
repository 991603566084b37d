"""Footprints from logs of past calls: one record a line, or one JSON document.

Understood are plain numbers; records with a `usage` as the OpenAI, Responses and Anthropic APIs write it, wherever a
log commonly keeps it (`usage`, `response.usage`, batch output's `response.body.usage`, …); llama.cpp's and Ollama's own
counts; and what this package writes: exported runs, stored calls, spans, saved sweeps. What is not a call is counted by
the reason, never guessed at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from widelane.plan.footprint import MOST_TOKENS, PastCall

NO_JSON: Final = "neither a number nor JSON"
NO_COUNTS: Final = "without token counts"
FAILED: Final = "failed calls"
ODD_COUNTS: Final = "with impossible token counts"
CUT_OFF: Final = "calls cut off before their end"

_PLACES: Final = (
    (), ("response", "body"), ("response",), ("body",), ("reply",), ("value", "reply"), ("value", "span"), ("span",),
    ("value",), ("result", "message"), ("message",), ("data",), ("output",),
)  # fmt: skip
"""Where a record keeps its reply; the first that has counts is taken."""
_COUNTS: Final = (
    ("prompt_tokens", "completion_tokens"),  # OpenAI chat and completions
    ("prompt_tokens", "output_tokens"),  # this package's spans and calls
    ("input_tokens", "output_tokens"),  # Responses API, Anthropic
    ("tokens_evaluated", "tokens_predicted"),  # llama.cpp /completion
    ("prompt_eval_count", "eval_count"),  # Ollama
)
_CACHED_APART: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Anthropic counts cached prompt tokens beside `input_tokens`, the others within them."""
_TOTALS: Final = ("total_tokens", "tokens")
_NO_CALLS: Final = ("started", "complete", "first-calls")
"""Kinds of our exported events that stand for no finished call."""
_MANY: Final = ("calls", "tail")


@dataclass(slots=True)
class PastCalls:
    """What a log holds.

    Attributes:
        skipped: records that are no usable call, by the reason.
        first_skipped: number of the first line or record of each reason, from 1.
    """

    calls: list[PastCall] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    first_skipped: dict[str, int] = field(default_factory=dict)

    def add(self, found: PastCall | str, number: int) -> None:
        """Note a call, or why a record is none."""
        if isinstance(found, PastCall):
            self.calls.append(found)
            return
        self.skipped[found] = self.skipped.get(found, 0) + 1
        self.first_skipped.setdefault(found, number)

    def skipped_words(self) -> str:
        """`3 without token counts (first: line 7)`, reasons in the order they came up; empty when nothing was."""
        parts = (f"{count} {reason} (first: {self.first_skipped[reason]})" for reason, count in self.skipped.items())
        return ", ".join(parts)


def from_lines(lines: Iterable[str]) -> PastCalls:
    """The calls of a log with one record a line; empty lines and comments (`#`) are passed over."""
    past = PastCalls()
    for number, line in enumerate(lines, start=1):
        text = line.strip().lstrip("\ufeff")
        if text.startswith("data:"):  # a recorded event stream
            text = text[5:].strip()
        if not text or text.startswith(("#", "event:", ":")) or text == "[DONE]":
            continue
        try:
            record = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            past.add(NO_JSON, number)
            continue
        _take(record, number, past)
    return past


def from_document(document: Any) -> PastCalls:
    """The calls of one decoded JSON document: a list of records, a saved sweep, or an object that holds a list."""
    past = PastCalls()
    for number, record in enumerate(_records(document), start=1):
        _take(record, number, past)
    return past


def _records(document: Any) -> Iterator[Any]:
    if isinstance(document, list):
        yield from document
    elif isinstance(document, Mapping) and isinstance(document.get("timeline"), Mapping):
        for spans in document["timeline"].values():
            yield from spans if isinstance(spans, list) else ()
    elif isinstance(document, Mapping):
        lists = [value for value in document.values() if isinstance(value, list) and _is_call_list(value)]
        yield from lists[0] if lists else [document]
    else:
        yield document


def _is_call_list(value: list[Any]) -> bool:
    return any(isinstance(_call(item), PastCall) for item in value[:10])


def _take(record: Any, number: int, past: PastCalls) -> None:
    """Note the call or calls of one record."""
    if isinstance(record, Mapping):
        if record.get("kind") in _NO_CALLS and "value" in record:
            return
        for holder in (record, record.get("value")):
            groups = [holder[name] for name in _MANY if name in holder] if isinstance(holder, Mapping) else []
            if groups:
                for call in (call for group in groups if isinstance(group, list) for call in group):
                    past.add(_call(call), number)
                return
    past.add(_call(record), number)


def _call(record: Any) -> PastCall | str:
    """The call of one record, or why it is none."""
    if not isinstance(record, Mapping):
        return _from_total(record)
    if _failed(record):
        return FAILED
    if record.get("finished") is False:
        return CUT_OFF
    for place in _PLACES:
        holder = _at(record, place)
        found = _counted(holder.get("usage") if isinstance(holder, Mapping) else None) or _counted(holder)
        if found is not None:
            return found
    return NO_COUNTS


def _failed(record: Mapping[str, Any]) -> bool:
    """An error is named, or a status of a failure: in batch output, in our spans, calls and exported events."""
    status = _at(record, ("response", "status_code"))
    span = _at(record, ("value", "span")) or _at(record, ("span",))
    outcome = span.get("outcome") if isinstance(span, Mapping) else record.get("outcome")
    return (
        bool(record.get("error"))
        or bool(record.get("failure"))
        or record.get("kind") == "failed"
        or outcome in ("failed", "cancelled")
        or (isinstance(status, int) and status >= 400)
    )


def _at(record: Any, place: Iterable[str]) -> Any:
    for name in place:
        if not isinstance(record, Mapping):
            return None
        record = record.get(name)
    return record


def _counted(counts: Any) -> PastCall | str | None:
    """The call that these counts stand for; None when there are none."""
    if not isinstance(counts, Mapping):
        return None
    answer_alone = False
    for prompt_name, output_name in _COUNTS:
        prompt, output = counts.get(prompt_name), counts.get(output_name)
        if output is None or prompt is None:
            answer_alone = answer_alone or output is not None
            continue
        if prompt_name == "input_tokens":
            prompt = _added(prompt, *(counts.get(name) or 0 for name in _CACHED_APART))
        total = _added(prompt, output)
        return ODD_COUNTS if total is None else _past_call(prompt, total)
    total = next((counts[name] for name in _TOTALS if counts.get(name) is not None), None)
    if total is not None:
        return _from_total(total)
    return NO_COUNTS if answer_alone else None  # an answer without its prompt is no footprint


def _added(*counts: Any) -> int | None:
    """The sum of whole numbers that are not negative, None when one is something else."""
    return sum(counts) if all(_is_count(count) for count in counts) else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS


def _past_call(prompt: Any, total: int) -> PastCall | str:
    return PastCall(prompt_tokens=prompt, total_tokens=total) if 1 <= total <= MOST_TOKENS else ODD_COUNTS


def _from_total(value: Any) -> PastCall | str:
    if not isinstance(value, (int, float)):
        return NO_COUNTS
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return PastCall(prompt_tokens=None, total_tokens=int(whole)) if _is_count(whole) and whole else ODD_COUNTS
