"""Checks every key of an entry's `expect` against what its run showed. An unknown key fails, naming it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.faults.replay import MODELS, Seen
from widelane.figures import Severity
from widelane.records import Outcome, Reply, UsageOrigin

Check = Callable[[Seen, Any], None]
SLACK_S = 60.0
"""Backoff and grace times that may come on top of a first-token limit."""


def check(entry: dict[str, Any], seen: Seen) -> None:
    """Fail with the key, what was expected, and what was seen."""
    for key, expected in entry["expect"].items():
        try:
            _check_one(key, expected, seen)
        except AssertionError as failure:
            raise AssertionError(f"{entry['name']}: {key} = {expected!r}: {failure}\n{describe(seen)}") from None
    # What is refused before it is sent never reaches the server; the doctor's probe has spans of its own.
    if entry["expect"]["outcome"] != "prevented" and not seen.findings:
        assert sum(span.attempts for span in seen.spans) == len(seen.requests), "the trace counts what the server got"


def describe(seen: Seen) -> str:
    """What was seen, for a failure's message."""
    last = seen.last if seen.results else None
    if last is None:
        return f"  no call was made; found {seen.findings}"
    shown = last if isinstance(last, Reply) else f"{getattr(last, 'code', type(last).__name__)}: {last}"
    return f"  last: {shown}\n  requests: {len(seen.requests)}, warnings: {dict(seen.warnings)}, {seen.elapsed_s:.3f} s"


def _check_one(key: str, expected: Any, seen: Seen) -> None:
    if key in _CHECKS:
        _CHECKS[key](seen, expected)
        return
    name, bound = _bound(key)
    if bound and name in _VALUES:
        got = _VALUES[name](seen)
        assert got is not None, "nothing was measured"
        assert got <= expected if bound == "max" else got >= expected, f"got {got!r}"
        return
    assert key in _VALUES, f"this harness does not know the expectation {key!r}"
    got = _VALUES[key](seen)
    assert got == expected, f"got {got!r}"


def _bound(key: str) -> tuple[str, str]:
    """The value that `x_max`, `x_min`, `max_x` or `min_x` bounds, and which way."""
    for bound in ("max", "min"):
        if key.endswith(f"_{bound}"):
            return key.removesuffix(f"_{bound}"), bound
        if key.startswith(f"{bound}_"):
            return key.removeprefix(f"{bound}_"), bound
    return key, ""


# --- values that are compared


def _of_reply(name: str) -> Callable[[Seen], Any]:
    def value(seen: Seen) -> Any:
        assert seen.reply is not None, "no reply, whole or partial"
        return getattr(seen.reply, name)

    return value


def _of_error(name: str) -> Callable[[Seen], Any]:
    def value(seen: Seen) -> Any:
        assert seen.error is not None, "the call did not fail"
        return getattr(seen.error, name, None)

    return value


def _tool_calls(seen: Seen) -> list[Any]:
    assert seen.reply is not None
    return [[call.name, dict(call.arguments)] for call in seen.reply.tool_calls]


def _usage(seen: Seen) -> dict[str, Any] | None:
    """The server's own counts; None when it sent none."""
    assert seen.reply is not None
    usage = seen.reply.usage
    if usage is None or usage.origin is UsageOrigin.COUNTED:
        return None
    counts = {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens, "cached": usage.cached_tokens,
              "reasoning": usage.reasoning_tokens}  # fmt: skip
    return {name: count for name, count in counts.items() if count is not None}


def _usage_origin(seen: Seen) -> str | None:
    assert seen.reply is not None
    assert seen.reply.usage is not None, "tokens are counted when the server does not"
    assert seen.reply.usage.completion_tokens > 0, "never shown as 0"
    return seen.reply.usage.origin.value


def _wait_s(seen: Seen) -> float | None:
    """From the end of the first answer to the arrival of the second request."""
    if len(seen.requests) < 2 or seen.requests[0].ended_s is None:
        return None
    return seen.requests[1].t_s - seen.requests[0].ended_s


_VALUES: dict[str, Callable[[Seen], Any]] = {
    "text": _of_reply("text"),
    "reasoning": _of_reply("reasoning"),
    "finish": _of_reply("finish"),
    "logprobs": _of_reply("logprobs"),
    "choices": lambda seen: len(_of_reply("choices")(seen)),
    "tool_calls": _tool_calls,
    "usage": _usage,
    "usage_origin": _usage_origin,
    "attempts": lambda seen: seen.spans[-1].attempts,
    "requests": lambda seen: len(seen.results),
    "lanes": lambda seen: len(seen.results),
    "peak_concurrent_at_server": lambda seen: seen.peak,
    "effective_width": lambda seen: seen.width.effective if seen.width else None,
    "wait_s": _wait_s,
    "elapsed_s": lambda seen: seen.elapsed_s,
    "events": lambda seen: max(request.events_sent for request in seen.requests),
    "error": _of_error("code"),
    "n_prompt": _of_error("n_prompt"),
    "n_ctx": _of_error("n_ctx"),
    "param": _of_error("param"),
    "status": _of_error("status"),
    "retry_after_s": _of_error("retry_after_s"),
}


# --- conditions that are held


def _outcome(seen: Seen, expected: str) -> None:
    if expected == "ok":
        failed = [str(result) for result in seen.results if not isinstance(result, Reply)]
        assert not failed, f"failed: {failed[0]}"
    elif expected == "failed":
        assert seen.error is not None, "it did not fail"
    elif _about_a_slot(expected) and seen.findings:
        assert _slot_is_kept(seen), f"found {seen.findings}"
    elif expected == "cancelled":
        assert seen.spans[-1].outcome is Outcome.CANCELLED, "the call was not cancelled"
        assert all(request.closed_by_client for request in seen.requests), "the connection was left open"
    elif expected == "prevented":
        # Either nothing was sent and the caller was told, or what was sent is sound (see `request_check`).
        assert seen.requests or seen.error is not None, "nothing was sent, and nothing was said"
    else:
        raise AssertionError(f"this harness does not know the outcome {expected!r}")


def _warn(seen: Seen, expected: list[str]) -> None:
    known = set(seen.warnings)
    if _slot_is_kept(seen):  # the doctor's finding, by whatever name the entry has for it
        known |= {name for name in expected if _about_a_slot(name)}
    missing = [name for name in expected if name not in known]
    assert not missing, f"not reported: {missing}"


def _about_a_slot(name: str) -> bool:
    return name != "cancelled" and any(word in name for word in ("cancel", "slot", "busy"))


def _slot_is_kept(seen: Seen) -> bool:
    return any(finding.severity in (Severity.ERROR, Severity.WARNING) for finding in seen.findings)


def _within_s(seen: Seen, expected: float) -> None:
    assert seen.elapsed_s <= expected, f"took {seen.elapsed_s:.3f} s"


def _within_idle_limit(seen: Seen, expected: bool) -> None:
    if expected:
        limit_s = seen.first_token_limit_s * len(seen.requests) + SLACK_S
        assert seen.first_token_limit_s > 0, "there is no first-token limit"
        assert seen.elapsed_s <= limit_s, f"took {seen.elapsed_s:.0f} s, the limits are {limit_s:.0f} s"


def _discarded_partial(seen: Seen, expected: bool) -> None:
    assert isinstance(seen.last, Reply)
    assert expected is (seen.observed_text != seen.last.text), "what the failed attempt had sent is part of the answer"


def _says(seen: Seen, words: str) -> None:
    assert seen.error is not None, "the call did not fail"
    assert words.lower() in str(seen.error).lower(), "the error does not say so"


def _note(seen: Seen, expected: str) -> None:
    """A remark for people. One about a slot's context is also what a person should be told."""
    if "per slot" in expected and seen.error is not None:
        _says(seen, "slot")


def _tool_error(seen: Seen, expected: str | None) -> None:
    got = _of_reply("tool_error")(seen)
    if expected is None:
        assert got is None, f"got {got!r}"
    else:
        assert got is not None, "there is none"
        assert expected.lower() in got.lower(), f"got {got!r}"


def _lists_models(seen: Seen, expected: bool) -> None:
    if expected:
        for name in MODELS:
            _says(seen, name)


def _ids_unique(seen: Seen, expected: bool) -> None:
    assert seen.reply is not None
    ids = [call.id for call in seen.reply.tool_calls]
    assert expected is (bool(ids) and all(ids) and len(set(ids)) == len(ids)), f"ids: {ids}"


def _sent_arguments(bodies: list[Any]) -> Iterator[Any]:
    for body in bodies:
        for message in body["messages"]:
            for call in message.get("tool_calls") or ():
                yield call["function"]["arguments"]


def _arguments_are_json(bodies: list[Any]) -> None:
    for arguments in _sent_arguments(bodies):
        try:
            json.loads(arguments)
        except ValueError:
            raise AssertionError(f"sent {arguments!r}") from None


def _history_safe(seen: Seen, expected: bool) -> None:
    assert expected, "an unsafe history is never wanted"
    assert seen.history, "the next request was not sent"
    _arguments_are_json([request.body for request in seen.history])


def _request_check(seen: Seen, expected: str) -> None:
    assert "arguments" in expected and "valid JSON" in expected, "this harness does not know the check"
    bodies = [request.body for request in seen.requests]
    assert not bodies or list(_sent_arguments(bodies)), "the history's tool call was dropped"
    _arguments_are_json(bodies)


def _resume(seen: Seen, expected: bool) -> None:
    if expected:
        _says(seen, "resume")
        assert seen.resumed is not None
        assert seen.resumed.text == "back"


_CHECKS: dict[str, Check] = {
    "outcome": _outcome,
    "warn": _warn,
    "within_s": _within_s,
    "within_idle_limit": _within_idle_limit,
    "discarded_partial": _discarded_partial,
    "hint": _says,
    "message": _says,
    "note": _note,
    "tool_error": _tool_error,
    "lists_models": _lists_models,
    "ids_unique": _ids_unique,
    "history_safe": _history_safe,
    "request_check": _request_check,
    "resume": _resume,
}
