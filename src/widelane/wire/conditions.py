"""Conditions of a whole reply that are worth telling a person once a server."""

from __future__ import annotations

from widelane.records import ChatRequest, Usage
from widelane.wire.choice import ReadChoice
from widelane.wire.json_text import decode_json


def past_limit(max_tokens: int) -> int:
    """Output tokens up to which a limit still counts as kept: servers count end tokens in different ways."""
    return max_tokens + max(16, max_tokens // 8)


def conditions(request: ChatRequest, read: list[ReadChoice], usage: Usage | None, *, fused: bool) -> list[str]:
    """The names of the conditions, each once.

    Args:
        read: the reply's choices.
        fused: the client closed the stream itself, past max_tokens.
    """
    names = list(dict.fromkeys(name for choice in read for name in choice.warnings))
    counted = usage.completion_tokens if usage is not None else 0
    over = request.max_tokens is not None and counted > past_limit(request.max_tokens) * max(len(read), 1)
    if fused or over:
        names.append("max_tokens_ignored")
    if len(read) < request.n:
        names.append("n_ignored")
    if any(_breaks_format(request, choice) for choice in read):
        names.append("schema_not_enforced")
    if request.logprobs and all(choice.logprobs is None for choice in read):
        names.append("logprobs_missing")
    return names


def _breaks_format(request: ChatRequest, choice: ReadChoice) -> bool:
    """True for a finished answer that is no JSON where JSON was to be enforced. The schema is its reader's question."""
    kind = (request.response_format or {}).get("type")
    if kind not in ("json_object", "json_schema") or choice.finish != "stop" or not choice.text.strip():
        return False
    try:
        decode_json(choice.text.encode("utf-8", "replace"))
    except ValueError:
        return True
    return False
