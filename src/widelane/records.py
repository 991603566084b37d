"""What passes between the parts: requests, replies, deltas, spans, and the Backend protocol.

Plain frozen values, so that they can be sent, stored, simulated and served alike. Times are monotonic
nanoseconds of the clock that the component was given; only differences mean anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import msgspec

Message = Mapping[str, Any]
"""A chat message as the OpenAI protocol has it: `role`, `content`, `tool_calls`, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One call. With `prompt` it goes to `/v1/completions`, with `messages` to `/v1/chat/completions`.

    Attributes:
        model: None means the server's only (or first) model.
        max_tokens: limit on output tokens, also kept by the client; None means the server's default.
        extra: further body fields, sent as they are (`grammar`, `chat_template_kwargs`, `ignore_eos`, …).
        raw: return what came even when it is no usable answer (empty, only reasoning): for measuring and probing.
        prompt_tokens_estimate: tokens of the prompt, for limits that depend on it; None: characters / 4.
    """

    messages: Sequence[Message] = ()
    prompt: str | None = None
    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: Sequence[str] = ()
    n: int = 1
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    response_format: Mapping[str, Any] | None = None
    logprobs: bool = False
    stream: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)
    raw: bool = False
    prompt_tokens_estimate: int | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A complete call: the name is known and the arguments are a JSON object.

    Attributes:
        id: the server's id, or one made up when it sent none; unique in the reply.
        arguments: decoded arguments; empty when the server sent an empty string.
    """

    id: str
    name: str
    arguments: Mapping[str, Any]


class UsageOrigin(StrEnum):
    """Whether the server counted the tokens or the client counted events."""

    READ = "read"
    COUNTED = "counted"


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one call.

    Attributes:
        prompt_tokens: None when the server sent no usage.
        cached_tokens: prompt tokens taken from the prefix cache, None when the server does not say.
        origin: `counted` means that `completion_tokens` is the number of content events, a lower bound.
    """

    prompt_tokens: int | None
    completion_tokens: int
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    origin: UsageOrigin = UsageOrigin.READ


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTiming:
    """When things happened, in nanoseconds of the client's clock.

    Attributes:
        sent_ns: the request's last byte was handed to the socket.
        headers_ns: response headers arrived; None when none did.
        first_token_ns: the first chunk with output (text, reasoning or tool call) arrived.
        ended_ns: the last byte that matters arrived.
        chunk_ns: arrival of every chunk with output; a chunk may hold several tokens.
        streamed: False when the reply came as one JSON body: then only E2E can be measured.
    """

    sent_ns: int
    headers_ns: int | None
    first_token_ns: int | None
    ended_ns: int
    chunk_ns: Sequence[int]
    streamed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One whole reply.

    Attributes:
        text: the answer, without reasoning and without recovered tool calls.
        reasoning: reasoning text, wherever the server put it.
        tool_error: why a tool call in the reply could not be used, None when all could.
        finish: the server's finish reason; `unknown` when it gave none,
            `length` when the client's own fuse closed the stream.
        usage: token counts; None when nothing could be counted.
        warnings: conditions to report once a server, e.g. `reasoning_in_content`, `tool_call_recovered`,
            `no_finish_reason`, `not_streamed`, `max_tokens_ignored`, `special_token_leak`, `n_ignored`.
        choices: every choice's text; `text` is the first of them.
        server_timings: the server's own timings (llama.cpp), None when it sends none.
    """

    text: str
    reasoning: str = ""
    tool_calls: Sequence[ToolCall] = ()
    tool_error: str | None = None
    finish: str
    usage: Usage | None
    timing: CallTiming
    warnings: Sequence[str] = ()
    choices: Sequence[str] = ()
    logprobs: Any = None
    server_timings: Mapping[str, Any] | None = None
    model: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """One chunk with output, as it arrives."""

    t_ns: int
    text: str
    reasoning: str = ""


Observer = Callable[[Delta], None]
"""Called for every chunk with output. It must be quick and must not raise."""


class Backend(Protocol):
    """Where a call goes: a server over HTTP, or the simulator. One attempt; retries belong to `lanes`.

    Deltas are pushed to `observe` rather than pulled: waking a task for every token costs more than reading it.
    """

    async def complete(self, request: ChatRequest, observe: Observer | None = None) -> Reply:
        """The whole reply. Cancelling closes the connection, which frees the server's slot.

        Raises:
            CallError: the call failed; the subclass says how.
        """
        ...


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A plain HTTP reply, as the engine adapters and probes read it.

    Attributes:
        headers: names in lower case; the last of several wins.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str = ""

    def json(self) -> Any:
        """The decoded body, None when it is not JSON."""
        try:
            return msgspec.json.decode(self.body)
        except (ValueError, RecursionError):  # not JSON, or nested without end
            return None


class Fetch(Protocol):
    """A plain request to a server, for facts and probes. The path is relative to the server's root (not `/v1`)."""

    async def __call__(self, method: str, path: str, body: Any = None, *, timeout_s: float = 10.0) -> HttpReply:
        """The reply, whatever its status.

        Raises:
            CallError: no reply came (refused, reset, timed out, not HTTP).
        """
        ...


class Outcome(StrEnum):
    """How a call ended."""

    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One call in the trace: the only record that timelines, shares and resume derive from.

    Attributes:
        key: unique in the run; what a resumed run recognises.
        parent: key of the span that caused this one, None at the root.
        role: `plan`, `work`, `verify`, `integrate`, `measure`, `probe`, …
        lane: row in the timeline, counted from 0; a lane holds one call at a time.
        queued_ns, started_ns, first_token_ns, ended_ns: when it was offered, sent, first answered and over.
        attempts: requests sent.
        error: `code` of the failure, None when it did not fail.
    """

    key: str
    parent: str | None = None
    role: str = "work"
    lane: int = 0
    queued_ns: int
    started_ns: int | None
    first_token_ns: int | None
    ended_ns: int
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    attempts: int = 1
    outcome: Outcome = Outcome.OK
    error: str | None = None
    detail: str | None = None
