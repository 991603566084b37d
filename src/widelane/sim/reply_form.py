"""A reply as llama.cpp or vLLM writes it: the events of a stream, and the body of a whole one.

Forms are those of recorded replies: llama.cpp b11549, vLLM 0.32.0. Log probabilities are not made up: `null` stands
where they were asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from widelane.records import ToolCall
from widelane.sim.answers.answer import Answer
from widelane.sim.answers.plain import json_text
from widelane.sim.generation import Generation
from widelane.sim.telling import CallPiece, Piece

FINGERPRINTS = {"llama.cpp": "b11549-sim", "vllm": "vllm-0.32.0-sim"}
VERSIONS = {"llama.cpp": "b11549-sim", "vllm": "0.32.0"}
DONE = b"data: [DONE]\n\n"
CREATED = 1_800_000_000
"""A fixed time of making, so that equal runs give equal bytes."""


class EventKind(StrEnum):
    """What an event of a stream is for."""

    OPENING = "opening"
    OUTPUT = "output"
    FINISH = "finish"
    USAGE = "usage"
    DONE = "done"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event, in the bytes in which it is sent."""

    kind: EventKind
    data: bytes


class ReplyForm:
    """The form of one reply.

    Args:
        number: of the reply on its server; its id is made from it.
    """

    def __init__(self, engine: str, model: str, number: int, *, chat: bool) -> None:
        self._llama = engine == "llama.cpp"
        self._chat = chat
        self._model = model
        self._id = f"{'chatcmpl' if chat or self._llama else 'cmpl'}-{number:016x}"
        self._fingerprint = FINGERPRINTS.get(engine)
        self._reasoning_field = "reasoning_content" if self._llama else "reasoning"
        kind = ("chat.completion" if chat else "text_completion") + (".chunk" if chat else "")
        head = {"id": self._id, "object": kind, "created": CREATED, "model": model}
        if self._llama:
            head["system_fingerprint"] = self._fingerprint or ""
        self._head = msgspec.json.encode(head)[:-1].decode()

    # --- a stream

    def opening(self, index: int) -> list[StreamEvent]:
        """The first event of a choice."""
        if not self._chat:
            return []
        delta = {"role": "assistant", "content": None if self._llama else ""}
        return [self._event(EventKind.OPENING, index, delta, None)]

    def output(self, index: int, piece: Piece) -> list[StreamEvent]:
        """Events of the next tokens."""
        events = []
        if piece.reasoning:
            events.append(self._event(EventKind.OUTPUT, index, {self._reasoning_field: piece.reasoning}, None))
        if piece.text:
            events.append(self._text(index, piece.text))
        events += [
            self._event(EventKind.OUTPUT, index, {"tool_calls": [_call_delta(part)]}, None) for part in piece.calls
        ]
        return events

    def finish(self, index: int, reason: str) -> StreamEvent:
        """The end of a choice."""
        return self._event(EventKind.FINISH, index, {} if self._llama else {"content": ""}, reason)

    def ending(self, generation: Generation, *, include_usage: bool) -> list[StreamEvent]:
        """What follows the last choice."""
        events = []
        if include_usage:
            more: dict[str, Any] = {"choices": [], "usage": self.usage(generation)}
            more |= {"timings": timings(generation)} if self._llama else {"system_fingerprint": self._fingerprint}
            body = msgspec.json.encode(more)
            events.append(StreamEvent(EventKind.USAGE, f"data: {self._head},".encode() + body[1:] + b"\n\n"))
        return [*events, StreamEvent(EventKind.DONE, DONE)]

    def error(self, body: Mapping[str, Any]) -> list[StreamEvent]:
        """An error under way, and the end of the stream."""
        data = b"data: " + msgspec.json.encode(body) + b"\n\n"
        return [StreamEvent(EventKind.ERROR, data), StreamEvent(EventKind.DONE, DONE)]

    # --- a whole body

    def whole(self, generation: Generation, choices: Sequence[tuple[Answer, str]]) -> bytes:
        """The body of an unstreamed reply.

        Args:
            choices: what each choice says, as far as it was written, and its finish reason.
        """
        body: dict[str, Any] = {
            "id": self._id,
            "object": "chat.completion" if self._chat else "text_completion",
            "created": CREATED,
            "model": self._model,
            "choices": [self._whole_choice(index, *choice) for index, choice in enumerate(choices)],
            "system_fingerprint": self._fingerprint,
            "usage": self.usage(generation),
        }
        if self._llama:
            body["timings"] = timings(generation)
        return msgspec.json.encode(body)

    def usage(self, generation: Generation) -> dict[str, Any]:
        """Token counts; vLLM tells cached ones only where it was started to."""
        prompt, written = generation.prepared.prompt_tokens, generation.written_tokens
        cached = {"cached_tokens": generation.cached_tokens} if self._llama else None
        return {
            "prompt_tokens": prompt,
            "completion_tokens": written,
            "total_tokens": prompt + written,
            "prompt_tokens_details": cached,
        }

    # --- parts

    def _text(self, index: int, text: str) -> StreamEvent:
        """The usual event, put together from text: it is written for every token."""
        said = msgspec.json.encode(text).decode()
        delta = f'"delta":{{"content":{said}}}' if self._chat else f'"text":{said}'
        data = f'data: {self._head},"choices":[{{"index":{index},{delta},"logprobs":null,"finish_reason":null}}]}}\n\n'
        return StreamEvent(EventKind.OUTPUT, data.encode())

    def _event(self, kind: EventKind, index: int, delta: Mapping[str, Any], finish: str | None) -> StreamEvent:
        choice: dict[str, Any] = {"index": index}
        choice |= {"delta": delta} if self._chat else {"text": ""}
        choice |= {"logprobs": None, "finish_reason": finish}
        body = msgspec.json.encode([choice])
        return StreamEvent(kind, f'data: {self._head},"choices":'.encode() + body + b"}\n\n")

    def _whole_choice(self, index: int, answer: Answer, finish: str) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": index, "logprobs": None, "finish_reason": finish}
        if not self._chat:
            return choice | {"text": answer.text}
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.reasoning or not self._llama:
            message[self._reasoning_field] = answer.reasoning or None
        if answer.tool_calls:
            message["tool_calls"] = [_whole_call(call) for call in answer.tool_calls]
        return choice | {"message": message}


def timings(generation: Generation) -> dict[str, float]:
    """llama.cpp's own measurements of a call."""
    first_s, ended_s = generation.first_s or generation.began_s, generation.ended_s or generation.began_s
    prompt = generation.prepared.prompt_tokens - generation.cached_tokens
    read_ms = max(1e-3, (first_s - generation.began_s) * 1e3)
    written_ms = max(1e-3, (ended_s - first_s) * 1e3)
    written = generation.written_tokens
    return {
        "cache_n": generation.cached_tokens,
        "prompt_n": prompt,
        "prompt_ms": read_ms,
        "prompt_per_second": prompt / read_ms * 1e3,
        "predicted_n": written,
        "predicted_ms": written_ms,
        "predicted_per_second": written / written_ms * 1e3,
    }


def _call_delta(part: CallPiece) -> dict[str, Any]:
    if part.call is None:
        return {"index": part.index, "function": {"arguments": part.arguments}}
    return {
        "index": part.index,
        "id": part.call.id,
        "type": "function",
        "function": {"name": part.call.name, "arguments": part.arguments},
    }


def _whole_call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": json_text(call.arguments)},
    }
