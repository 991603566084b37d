"""One reply on its way to one client: what the model writes, in the engine's form, into whatever takes the bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from widelane.sim.answers.answer import Answer
from widelane.sim.answers.writing import Writing
from widelane.sim.events import FailReason
from widelane.sim.generation import Generation
from widelane.sim.refusal import PlainReply, error_body, gave_up
from widelane.sim.reply_form import EventKind, ReplyForm, StreamEvent
from widelane.sim.service import ModelService, Prepared
from widelane.sim.telling import Piece

EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8"}


class Outlet(Protocol):
    """Where a reply goes: a connection, or a fault before one."""

    def plain(self, reply: PlainReply) -> None:
        """A reply with one body."""
        ...

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Status and headers of a stream."""
        ...

    def events(self, events: Sequence[StreamEvent]) -> None:
        """The next events, in one write."""
        ...

    def end(self) -> None:
        """The stream ends properly."""
        ...


class Exchange:
    """A chat or completion request being answered.

    Args:
        number: of the reply on its server.
    """

    def __init__(self, service: ModelService, prepared: Prepared, outlet: Outlet, number: int) -> None:
        self._habits = service.settings.habits
        self._engine = service.settings.engine
        self._ask = prepared.ask
        self._outlet = outlet
        self._form = ReplyForm(self._engine, service.settings.model, number, chat=prepared.ask.chat)
        self._finishes: dict[int, str] = {}
        self._held: list[StreamEvent] = []
        self._over = False
        if self._ask.stream:
            outlet.begin(200, EVENT_STREAM)
            for index in range(len(prepared.choices)):
                self._send(self._form.opening(index))
        self._generation = Generation(service, prepared, self)

    def abandon(self) -> None:
        """The client is gone."""
        if self._habits.frees_on_cancel and not self._over:
            self._generation.cancel()
        self._over = True

    # --- Reader

    @property
    def watches(self) -> bool:
        return self._ask.stream

    def came(self, index: int, piece: Piece, tokens: int, time_s: float) -> None:
        if self._over or not self._ask.stream:
            return
        if piece:
            self._send(self._form.output(index, piece))
        limit = self._habits.fails_in_streams
        if limit is not None and self._generation.written_tokens >= limit:
            words = "EngineCore encountered an issue. See stack trace (above) for the root cause."
            self._end_with(self._form.error(error_body(self._engine, 500, words, "InternalServerError")))
            self._generation.cancel()

    def choice_over(self, index: int, finish: str) -> None:
        self._finishes[index] = finish
        if self._ask.stream and not self._over:
            self._send([self._form.finish(index, finish)])

    def over(self) -> None:
        if self._over:
            return
        if self._ask.stream:
            self._end_with(self._form.ending(self._generation, include_usage=self._ask.include_usage))
            return
        self._over = True
        plans = self._generation.prepared.choices
        choices = [(cut(plan.answer, plan.tokens), self._finishes[index]) for index, plan in enumerate(plans)]
        self._outlet.plain(PlainReply(status=200, body=self._form.whole(self._generation, choices)))

    def failed(self, reason: FailReason) -> None:
        if self._over:
            return
        reply = gave_up(self._engine, reason)
        if not self._ask.stream:
            self._over = True
            self._outlet.plain(reply)
            return
        data = b"data: " + reply.body + b"\n\n"
        self._end_with([StreamEvent(EventKind.ERROR, data), *self._form.error({})[1:]])

    # --- sending

    def _send(self, events: Sequence[StreamEvent]) -> None:
        if self._habits.buffers:
            self._held += events
        else:
            self._outlet.events(events)

    def _end_with(self, events: Sequence[StreamEvent]) -> None:
        self._over = True
        held, self._held = self._held, []
        self._outlet.events([*held, *events])
        self._outlet.end()


def cut(answer: Answer, tokens: int) -> Answer:
    """What stands of an answer after so many tokens; calls that are not whole are left out."""
    if tokens >= answer.output_tokens:
        return answer
    written = Writing(answer, [1] * len(answer.tool_calls)).until(tokens)
    thought = min(answer.reasoning_tokens, tokens)
    return replace(
        answer,
        text=written.text,
        reasoning=written.reasoning,
        tool_calls=(),
        output_tokens=max(1, tokens),
        reasoning_tokens=thought,
    )
