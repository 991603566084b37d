"""A reply put together from the payloads of its events, sans IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from typing import Any

import msgspec

from widelane.errors import CallError, MalformedReply, NotAModelServer, Repetition, TruncatedStream
from widelane.records import CallTiming, ChatRequest, Delta, Observer, Reply, Usage, UsageOrigin
from widelane.wire.choice import ChoiceAssembler, ReadChoice, content_text, finish_word
from widelane.wire.error_body import quoted
from widelane.wire.failures import classify_event
from widelane.wire.json_text import decode_json
from widelane.wire.repetition import RepetitionDetector
from widelane.wire.sse import ErrorPayload
from widelane.wire.usage import counted_usage, read_usage, usage_from_timings


class Step(IntEnum):
    """What a payload meant."""

    NOTHING = 0
    """Not an event of the reply."""
    EVENT = 1
    """An event without output: a role, a usage count."""
    OUTPUT = 2
    """Text, reasoning or a piece of a tool call."""
    FINISH = 3
    """Every choice has its finish reason; a usage chunk and `[DONE]` may follow."""
    DONE = 4
    """The reply is over."""
    FUSE = 5
    """Past max_tokens: the server ignores the limit, the stream is to be closed."""


# Bound once: they are looked up for every token.
_decode = msgspec.json.Decoder().decode
_NOTHING = Step.NOTHING
_OUTPUT = Step.OUTPUT
_LOOK_EVERY_EVENTS = 64


class ReplyAssembler:
    """Takes payloads in order, says what each meant, and gives the reply in the end.

    Args:
        observe: called for every chunk with output, with the text as the server sent it (a leaked thought is taken out
            of the whole text, not of the deltas).
        repetition: stop an endless repetition; off for raw requests, which are measured as they come.
    """

    __slots__ = (
        "_chunk_ns",
        "_detectors",
        "_fingerprint",
        "_fused",
        "_id",
        "_max_tokens",
        "_model",
        "_observe",
        "_request",
        "_timings",
        "_usage",
        "choices",
        "done",
        "headers_ns",
        "last_ns",
        "sent_ns",
        "streamed",
    )

    def __init__(
        self, request: ChatRequest, observe: Observer | None = None, *, repetition: bool | None = None
    ) -> None:
        self._request = request
        self._observe = observe
        watch = (not request.raw) if repetition is None else repetition
        self._detectors: dict[int, RepetitionDetector] | None = {} if watch else None
        self._max_tokens = request.max_tokens
        self.choices: dict[int, ChoiceAssembler] = {}
        self._chunk_ns: list[int] = []
        self._usage: Usage | None = None
        self._timings: Mapping[str, Any] | None = None
        self._model: str | None = None
        self._fingerprint: str | None = None
        self._id = ""
        self._fused = False
        self.done = False
        self.streamed = True
        self.sent_ns = 0
        self.headers_ns: int | None = None
        self.last_ns = 0

    @property
    def finished(self) -> bool:
        """True once every choice that came has its finish reason, or the reply is over."""
        return self.done or (bool(self.choices) and all(choice.finish for choice in self.choices.values()))

    @property
    def all_came(self) -> bool:
        """True once as many choices came as were asked for."""
        return len(self.choices) >= self._request.n

    def feed(self, payload: bytes, t_ns: int) -> Step:
        """Takes one payload that arrived at `t_ns`.

        Raises:
            CallError: an error event, an event that is not JSON, or an endless repetition; `partial` holds what came.
        """
        try:
            chunk = _decode(payload)
        except ValueError:
            return self._not_json(payload, t_ns)
        return self._chunk(chunk, payload, t_ns)

    def feed_whole(self, value: Any, t_ns: int) -> None:
        """Takes an unstreamed reply.

        Raises:
            CallError: the body is an error, or no chat completion.
        """
        self.streamed = False
        self.last_ns = t_ns
        if not isinstance(value, Mapping) or value.get("error") or value.get("object") == "error":
            self._failed(value)
        choices = value.get("choices")
        if not isinstance(choices, list):
            if value.get("detail") or value.get("message"):
                self._failed(value)
            raise NotAModelServer(
                f"The reply is JSON, but no completion: it has {quoted(', '.join(map(str, value)))} and no `choices`.",
                status=200,
            )
        for position, choice in enumerate(choices):
            if isinstance(choice, Mapping):
                self._whole_choice(choice, position)
        self._take_usage(value.get("usage"))
        self._take_rest(value)
        self.done = True

    def end(self) -> None:
        """The body has ended properly.

        Raises:
            TruncatedStream: before the reply was whole.
        """
        if not self.finished:
            came = f"{len(self._chunk_ns)} chunks with output" if self._chunk_ns else "no output"
            raise TruncatedStream(
                f"The stream ended after {came}, without a finish reason and without [DONE].", partial=self.result()
            )
        self.done = True

    def result(self) -> Reply:
        """The reply as far as it came."""
        read = self._read_choices()
        first = read[0] if read else ReadChoice("", "", [], None, [], False)
        finish = self.choices[min(self.choices)].finish if self.choices else None
        usage = self._counts()
        if self._fused:
            finish = "length"
        return Reply(
            text=first.text,
            reasoning=first.reasoning,
            tool_calls=tuple(first.tool_calls),
            tool_error=first.tool_error,
            finish=finish or "unknown",
            usage=usage,
            timing=self._timing(),
            warnings=tuple(self._warnings(read, finish, usage)),
            choices=tuple(choice.text for choice in read),
            logprobs=self.choices[min(self.choices)].logprobs if self.choices else None,
            server_timings=self._timings,
            model=self._model,
            fingerprint=self._fingerprint,
        )

    # --- one event

    def _chunk(self, chunk: Any, payload: bytes, t_ns: int) -> Step:
        if type(chunk) is not dict:
            return _NOTHING if type(payload) is not ErrorPayload else self._failed({"error": chunk})
        choices = chunk.get("choices")
        if not choices or type(payload) is ErrorPayload or chunk.get("error"):
            return self._without_choices(chunk, payload, t_ns)
        self.last_ns = t_ns
        if type(choices) is not list:
            return _NOTHING
        step = _NOTHING
        for choice in choices:
            if type(choice) is dict:
                came = self._choice(choice, t_ns)
                if came > step:
                    step = came
        if chunk.get("usage") is not None:
            self._take_usage(chunk["usage"])
        if self._model is None or step is not _OUTPUT:
            self._take_rest(chunk)
        return step

    def _without_choices(self, chunk: dict[str, Any], payload: bytes, t_ns: int) -> Step:
        """A usage chunk, an error, or something that is no event of the reply (`{"type": "ping"}`)."""
        if type(payload) is ErrorPayload or chunk.get("error") or chunk.get("object") == "error":
            return self._failed(chunk)
        self._take_rest(chunk)
        if chunk.get("usage") is None:
            return _NOTHING
        self.last_ns = t_ns
        self._take_usage(chunk["usage"])
        return Step.EVENT

    def _choice(self, choice: dict[str, Any], t_ns: int) -> Step:
        index = choice.get("index")
        if type(index) is not int:
            index = 0
        assembler = self.choices.get(index)
        if assembler is None:
            assembler = self.choices[index] = ChoiceAssembler()
        delta = choice.get("delta")
        if type(delta) is dict and len(delta) == 1 and type(text := delta.get("content")) is str:
            reasoning = arguments = ""
            has_call = False
        else:
            text, reasoning, arguments, has_call = self._delta(assembler, choice)
        if choice.get("logprobs") is not None:
            assembler.feed_logprobs(choice["logprobs"])
        step = Step.EVENT
        if text or reasoning or has_call:
            step = self._output(index, assembler, text, reasoning, arguments, t_ns)
        if choice.get("finish_reason") is not None:
            return self._finish_reason(assembler, choice, step)
        return step

    def _finish_reason(self, assembler: ChoiceAssembler, choice: dict[str, Any], step: Step) -> Step:
        reason = finish_word(choice["finish_reason"])
        if reason is None:
            return step
        assembler.finish = reason
        if "usage" in choice:
            self._take_usage(choice["usage"])
        return Step.FINISH if step is not Step.FUSE and self.finished else step

    def _delta(self, assembler: ChoiceAssembler, choice: dict[str, Any]) -> tuple[str, str, str, bool]:
        """(text, reasoning, tool argument text, was there a piece of a tool call) that a choice of a chunk brings."""
        delta = choice.get("delta")
        if type(delta) is not dict:
            return self._odd_delta(assembler, choice, delta)
        text, reasoning = content_text(delta.get("content"))
        reasoning = reasoning or reasoning_field(delta)
        fragments = delta.get("tool_calls")
        if not fragments and delta.get("function_call"):
            fragments = {"index": 0, "function": delta["function_call"]}
        if not fragments:
            return text, reasoning, "", False
        return text, reasoning, assembler.calls.feed(fragments), True

    def _odd_delta(self, assembler: ChoiceAssembler, choice: dict[str, Any], delta: Any) -> tuple[str, str, str, bool]:
        """Without a delta object: the text of /v1/completions, a bare string, or a whole message in a stream."""
        text = choice.get("text")
        if isinstance(text, str):
            return text, "", "", False
        if isinstance(delta, str):
            return delta, "", "", False
        message = choice.get("message")
        if isinstance(message, dict) and not assembler.events:
            return self._delta(assembler, {"delta": message})
        return "", "", "", False

    def _output(
        self, index: int, assembler: ChoiceAssembler, text: str, reasoning: str, arguments: str, t_ns: int
    ) -> Step:
        if text:
            assembler.text.append(text)
        if reasoning:
            assembler.reasoning.append(reasoning)
        assembler.events += 1
        assembler.recent.append(text or reasoning or arguments)
        self._chunk_ns.append(t_ns)
        if self._observe is not None:
            self._observe(Delta(t_ns, text, reasoning))
        if len(assembler.recent) >= _LOOK_EVERY_EVENTS:
            self._look_for_repetition(index, assembler)
        if self._max_tokens is not None and assembler.events > self._max_tokens:
            return self._check_fuse(assembler)
        return _OUTPUT

    # --- limits

    def _check_fuse(self, assembler: ChoiceAssembler) -> Step:
        """Past max_tokens plus a margin; servers and proxies that cut English into characters get four times that."""
        limit = self._max_tokens or 0
        allowed = limit + max(16, limit // 8)
        if assembler.events <= allowed:
            return _OUTPUT
        in_letters = all(part.isascii() and len(part) <= 1 for part in assembler.recent)
        if in_letters and assembler.events <= allowed * 5:
            return _OUTPUT
        self._fused = True
        return Step.FUSE

    def _look_for_repetition(self, index: int, assembler: ChoiceAssembler) -> None:
        """Raises Repetition once it is certain. Looked for now and then: for every token it would cost too much."""
        text = "".join(assembler.recent)
        events = len(assembler.recent)
        assembler.recent.clear()
        if self._detectors is None:
            return
        detector = self._detectors.setdefault(index, RepetitionDetector())
        phrase = detector.feed(text, events)
        if phrase is None:
            return
        saved = ""
        if self._max_tokens is not None:
            saved = f", about {max(self._max_tokens - assembler.events, 0)} tokens before its limit"
        raise Repetition(
            f"The model repeats {quoted(repr(phrase))} without end; the stream was closed after {assembler.events} "
            f"chunks{saved}.",
            partial=self.result(),
            hint="Raise the temperature or set a repetition penalty; very small or heavily quantised models do this.",
        )

    # --- failures

    def _not_json(self, payload: bytes, t_ns: int) -> Step:
        """A payload that is no strict JSON: `[DONE]`, JSON as some servers write it, or something else."""
        text = payload.strip()
        if text.upper() in (b"[DONE]", b"DONE"):
            self.last_ns = t_ns
            self.done = True
            return Step.DONE
        try:
            return self._chunk(decode_json(text), payload, t_ns)
        except ValueError:
            pass
        if type(payload) is ErrorPayload:
            return self._failed({"error": payload.decode("utf-8", "replace")})
        if not text.startswith(b"{"):
            return _NOTHING  # "ping", "keep-alive", an empty line
        if b"\n" in text:  # events that the server did not part by blank lines
            return max(self.feed(line, t_ns) for line in text.split(b"\n") if line.strip())
        shown = quoted(text.decode("utf-8", "replace"))
        raise MalformedReply(f"An event of the stream is not whole JSON: {shown}", partial=self.result())

    def _failed(self, value: Any) -> Step:
        error: CallError = classify_event(value)
        error.partial = self.result()
        raise error

    # --- the rest

    def _whole_choice(self, choice: Mapping[str, Any], position: int) -> None:
        index = choice.get("index")
        assembler = self.choices.setdefault(index if isinstance(index, int) else position, ChoiceAssembler())
        message = choice.get("message")
        if isinstance(message, Mapping):
            text, reasoning = content_text(message.get("content"))
            assembler.text.append(text)
            assembler.reasoning.append(reasoning or reasoning_field(message))
            assembler.calls.feed_whole(message.get("tool_calls"))
            if not assembler.calls and isinstance(message.get("function_call"), Mapping):
                assembler.calls.feed_whole([{"function": message["function_call"]}])
        else:
            assembler.text.append(content_text(choice.get("text"))[0])
        assembler.feed_logprobs(choice.get("logprobs"))
        assembler.finish = finish_word(choice.get("finish_reason"))

    def _take_usage(self, value: Any) -> None:
        self._usage = read_usage(value) or self._usage

    def _take_rest(self, chunk: Mapping[str, Any]) -> None:
        """What a reply says besides its choices: who made it, and llama.cpp's timings."""
        model, fingerprint, reply_id = chunk.get("model"), chunk.get("system_fingerprint"), chunk.get("id")
        self._model = model if isinstance(model, str) else self._model
        self._fingerprint = fingerprint if isinstance(fingerprint, str) else self._fingerprint
        self._id = reply_id if isinstance(reply_id, str) else self._id
        timings = chunk.get("timings")
        self._timings = timings if isinstance(timings, Mapping) else self._timings

    def _read_choices(self) -> list[ReadChoice]:
        seed = f"{self._id}/{self.sent_ns}"
        return [self.choices[index].read(self._request.tools, f"{seed}/{index}") for index in sorted(self.choices)]

    def _counts(self) -> Usage | None:
        usage = self._usage or usage_from_timings(self._timings)
        events = sum(choice.events for choice in self.choices.values())
        if usage is None:
            return counted_usage(events)
        if usage.completion_tokens == 0 and events:  # some servers send the object and leave the counts at nought
            return replace(usage, completion_tokens=events, origin=UsageOrigin.COUNTED)
        return usage

    def _timing(self) -> CallTiming:
        first = self._chunk_ns[0] if self._chunk_ns else None
        return CallTiming(
            sent_ns=self.sent_ns,
            headers_ns=self.headers_ns,
            first_token_ns=first,
            ended_ns=self.last_ns,
            chunk_ns=tuple(self._chunk_ns),
            streamed=self.streamed,
        )

    def _warnings(self, read: list[ReadChoice], finish: str | None, usage: Usage | None) -> list[str]:
        request = self._request
        warnings = list(dict.fromkeys(warning for choice in read for warning in choice.warnings))
        if request.stream and not self.streamed:
            warnings.append("not_streamed")
        if self.done and finish is None:
            warnings.append("no_finish_reason")
        counted = usage.completion_tokens if usage is not None else 0
        limit = request.max_tokens
        if self._fused or (limit is not None and counted > (limit + max(16, limit // 8)) * max(len(read), 1)):
            warnings.append("max_tokens_ignored")
        if len(read) < request.n:
            warnings.append("n_ignored")
        if request.response_format and finish == "stop" and any(not _keeps(request, choice) for choice in read):
            warnings.append("schema_not_enforced")
        if request.logprobs and all(choice.logprobs is None for choice in self.choices.values()):
            warnings.append("logprobs_missing")
        return warnings


def _keeps(request: ChatRequest, choice: ReadChoice) -> bool:
    """Whether an answer is JSON where JSON was to be enforced; whether it fits the schema is its reader's question."""
    kind = (request.response_format or {}).get("type")
    if kind not in ("json_object", "json_schema") or choice.tool_calls or not choice.text.strip():
        return True
    try:
        decode_json(choice.text.encode("utf-8", "replace"))
    except ValueError:
        return False
    return True


def reasoning_field(message: Mapping[str, Any]) -> str:
    """Reasoning under whichever name the server uses; where it sends two, they are the same text."""
    for name in ("reasoning_content", "reasoning", "thinking"):
        value = message.get(name)
        if isinstance(value, str) and value:
            return value
    return ""
