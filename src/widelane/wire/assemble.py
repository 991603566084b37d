"""A reply put together from the payloads of its events, sans IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from typing import Any

import msgspec

from widelane.errors import CallError, MalformedReply, NotAModelServer, Repetition, TruncatedStream
from widelane.records import CallTiming, ChatRequest, Delta, Observer, Reply, Usage, UsageOrigin
from widelane.wire.choice import ChoiceAssembler, ReadChoice, finish_word
from widelane.wire.conditions import conditions, past_limit
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
    def watched(self) -> bool:
        """True when somebody is told of every chunk."""
        return self._observe is not None

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
                index = choice.get("index")
                # A server that numbers every choice 0 has still sent several.
                place = index if isinstance(index, int) and index not in self.choices else position
                self.choices.setdefault(place, ChoiceAssembler()).feed_whole(choice)
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
        first = read[0] if read else ReadChoice("", "", [], None, [], None, None)
        finish = "length" if self._fused else first.finish
        usage = self._counts()
        return Reply(
            text=first.text,
            reasoning=first.reasoning,
            tool_calls=tuple(first.tool_calls),
            tool_error=first.tool_error,
            finish=finish or "unknown",
            usage=usage,
            timing=self._timing(),
            warnings=tuple(self._warnings(read, usage)),
            choices=tuple(choice.text for choice in read),
            logprobs=first.logprobs,
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
            text, reasoning, arguments, has_call = assembler.read_delta(choice)
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
        allowed = past_limit(self._max_tokens or 0)
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

    def _warnings(self, read: list[ReadChoice], usage: Usage | None) -> list[str]:
        warnings = conditions(self._request, read, usage, fused=self._fused)
        if self._request.stream and not self.streamed:
            warnings.append("not_streamed")
        if self.done and self.choices and self.choices[min(self.choices)].finish is None:
            warnings.append("no_finish_reason")
        return warnings
