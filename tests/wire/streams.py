"""Helpers of the wire's tests: events as servers write them, and a stream read to its end without a socket."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from widelane.records import ChatRequest, Reply
from widelane.wire.assemble import ReplyAssembler
from widelane.wire.sse import SSEDecoder

ASK = ChatRequest(messages=[{"role": "user", "content": "Hi"}])
READ = {"type": "function", "function": {"name": "read", "parameters": {"properties": {"path": {"type": "string"}}}}}
DONE = b"data: [DONE]\n\n"


def event(delta: Any = None, finish: str | None = None, **fields: Any) -> bytes:
    """One chat chunk as an event."""
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    return raw_event({"id": "c1", "model": "m", "choices": [choice], **fields})


def raw_event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def says(*texts: str, finish: str | None = "stop") -> bytes:
    """A stream that says the texts, one a chunk."""
    return b"".join([*(event({"content": text}) for text in texts), event(finish=finish), DONE])


def read_stream(parts: Iterable[bytes], request: ChatRequest = ASK) -> Reply:
    """The reply of a stream that arrives in these parts, one a nanosecond, and then ends properly."""
    decoder = SSEDecoder()
    assembler = ReplyAssembler(request)
    for t_ns, part in enumerate(parts):
        for payload in decoder.feed(part):
            assembler.feed(payload, t_ns)
    for payload in decoder.rest():
        assembler.feed(payload, 0)
    assembler.end()
    return assembler.result()


def read_whole(body: Any, request: ChatRequest = ASK) -> Reply:
    """The reply of one JSON body."""
    assembler = ReplyAssembler(request)
    assembler.feed_whole(body, 0)
    return assembler.result()


def untimed(reply: Reply) -> tuple[Any, ...]:
    """Everything of a reply but its times."""
    return (
        reply.text,
        reply.reasoning,
        reply.tool_calls,
        reply.tool_error,
        reply.finish,
        reply.usage,
        reply.warnings,
        reply.choices,
        reply.logprobs,
        reply.server_timings,
        reply.model,
        reply.fingerprint,
        len(reply.timing.chunk_ns),
    )
