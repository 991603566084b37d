"""Replies as the client gives them, for probes that judge times and counts."""

from __future__ import annotations

from collections.abc import Sequence

from widelane.records import CallTiming, Reply, Usage

MS = 1_000_000


def reply(
    *,
    chunks_ms: Sequence[float] = (100, 150, 200),
    ended_ms: float | None = None,
    tokens: int | None = 3,
    prompt_tokens: int | None = 20,
    cached_tokens: int | None = None,
    finish: str = "length",
    streamed: bool = True,
    warnings: Sequence[str] = (),
    text: str = "one two three",
) -> Reply:
    """A reply sent at 0 whose chunks arrived at these milliseconds."""
    chunk_ns = tuple(int(ms * MS) for ms in chunks_ms)
    ended_ns = int(ended_ms * MS) if ended_ms is not None else (chunk_ns[-1] if chunk_ns else 0)
    timing = CallTiming(
        sent_ns=0,
        headers_ns=None,
        first_token_ns=chunk_ns[0] if chunk_ns else None,
        ended_ns=ended_ns,
        chunk_ns=chunk_ns,
        streamed=streamed,
    )
    usage = None if tokens is None else Usage(prompt_tokens, tokens, cached_tokens)
    return Reply(text=text, finish=finish, usage=usage, timing=timing, warnings=warnings)
