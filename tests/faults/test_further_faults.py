"""Further faults of the same kinds, written here, so that every operation is played even without the catalogue."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.expectations import check
from tests.faults.replay import replay
from widelane.testing.virtual_time import run_virtual

STREAM = {"op": "status", "code": 200, "headers": {"content-type": "text/event-stream"}}
END = {"op": "end"}


def event(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c1', 'model': 'm', 'choices': [choice]}, ensure_ascii=False)}\n\n"


def send(text: str) -> dict[str, Any]:
    return {"op": "send", "text": text}


def answered(code: int, body: Any, headers: dict[str, str] | None = None) -> list[dict[str, Any]]:
    kind = {"content-type": "application/json", **(headers or {})}
    return [{"op": "status", "code": code, "headers": kind}, send(json.dumps(body)), END]


HELLO, WORLD = event({"content": "Hello"}), event({"content": " world"})
STOP = event({}, "stop") + "data: [DONE]\n\n"
WHOLE = [STREAM, send(HELLO + WORLD + STOP), END]
OK = {"outcome": "ok", "text": "Hello world"}
LOADING = answered(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})
FULL_POOL = answered(
    500, {"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}}
)
CALL_TEXT = '\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>'

FAULTS: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any]]] = {
    "one write a byte": (
        [[STREAM, {"op": "send_bytewise", "text": event({"content": "café 🌍"}) + STOP}, END]],
        {"outcome": "ok", "text": "café 🌍", "attempts": 1}, {},
    ),
    "a pause between tokens is no fault": (
        [[STREAM, send(HELLO), {"op": "wait", "s": 60}, send(WORLD + STOP), END]], {**OK, "attempts": 1}, {},
    ),
    "late headers are no fault": ([[{"op": "wait", "s": 120}, *WHOLE]], {**OK, "attempts": 1}, {}),
    "closed before any byte": ([[{"op": "fin"}], WHOLE], {**OK, "attempts": 2}, {}),
    "reset before any byte": ([[{"op": "rst"}], WHOLE], {**OK, "attempts": 2}, {}),
    "the server dies in the middle of a stream": (
        [[STREAM, send(HELLO), {"op": "refuse", "s": 30}], WHOLE], {**OK, "attempts": 2, "discarded_partial": True}, {},
    ),
    "down for most of the limit": ([[{"op": "refuse", "s": 100}], WHOLE], {**OK, "attempts": 1}, {}),
    "loading takes long and is no error": ([LOADING] * 12 + [WHOLE], {**OK, "attempts": 13}, {}),
    "a Retry-After of an hour is shortened": (
        [answered(429, {"error": {"message": "later"}}, {"retry-after": "3600"}), WHOLE],
        {**OK, "attempts": 2, "wait_s_min": 120, "wait_s_max": 121}, {},
    ),
    "a failing server is given up": (
        [answered(500, {"error": {"message": "boom"}})],
        {"outcome": "failed", "error": "server_failed", "attempts": 5}, {},
    ),
    "a full pool is tried again": ([FULL_POOL, WHOLE], {**OK, "attempts": 2}, {}),
    "a wrong key is not": (
        [answered(401, {"error": {"message": "bad key"}})],
        {"outcome": "failed", "error": "unauthorized", "attempts": 1, "status": 401}, {},
    ),
    "half a JSON body": (
        [[*answered(200, {})[:1], send('{"choices": [{"mess'), {"op": "fin"}], WHOLE], {**OK, "attempts": 2}, {},
    ),
    "a stream held back to its end": (
        [[STREAM, {"op": "wait", "s": 5}, send(HELLO + 30 * event({"content": "!"}) + STOP), END]],
        {"outcome": "ok", "attempts": 1, "warn": ["buffered_stream"]}, {},
    ),
    "a tool call split over chunks of text": (
        [[STREAM, send(event({"content": "<tool_ca"}) + event({"content": "ll>" + CALL_TEXT}) + STOP), END]],
        {"outcome": "ok", "text": "", "tool_calls": [["read", {"path": "a"}]], "warn": ["tool_call_recovered"]}, {},
    ),
    "a dropped call closes its connection": (
        [[STREAM, send(HELLO), {"op": "hang"}]], {"outcome": "cancelled"}, {"cancel_after_s": 2},
    ),
    "a dropped call keeps its slot": (
        [[STREAM, send(HELLO), {"op": "client_closes_then_busy", "s": 30}]],
        {"outcome": "ok", "warn": ["cancel_not_freeing"]}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str, tmp_path: Path) -> None:
    turns, expect, request = FAULTS[name]
    entry = {"name": name, "class": "further", "request": request, "turns": turns, "expect": expect}
    check(entry, run_virtual(lambda: replay(entry, tmp_path)))
