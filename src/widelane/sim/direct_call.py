"""A call to the simulated model without HTTP: no bytes for a token, the same reply in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import msgspec

from widelane.records import CallTiming, ChatRequest, Delta, Observer, Reply
from widelane.sim.events import FailReason
from widelane.sim.exchange import cut
from widelane.sim.generation import Generation
from widelane.sim.refusal import gave_up
from widelane.sim.reply_form import ReplyForm, StreamEvent
from widelane.sim.service import ModelService, Prepared
from widelane.sim.telling import CallPiece, Piece
from widelane.wire.assemble import ReplyAssembler
from widelane.wire.failures import classify


class _Said:
    """What has come of one choice."""

    __slots__ = ("calls", "reasoning", "text")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[CallPiece] = []

    def whole(self) -> Piece:
        return Piece("".join(self.text), "".join(self.reasoning), tuple(self.calls))


class DirectCall:
    """One call. Await `reply()`, once.

    The reply is assembled by the client's own assembler from a few events at the end, so that it is what the same
    answer would have become over HTTP; the times are those of the tokens.

    Args:
        to_ns: nanoseconds of the caller's clock at an instant of the engine.
    """

    def __init__(
        self,
        service: ModelService,
        request: ChatRequest,
        prepared: Prepared,
        observe: Observer | None,
        to_ns: Callable[[float], int],
        number: int,
    ) -> None:
        self._request = request
        self._observe = observe
        self._to_ns = to_ns
        self._engine = service.settings.engine
        self._form = ReplyForm(self._engine, service.settings.model, number, chat=prepared.ask.chat)
        self._said = [_Said() for _ in prepared.choices]
        self._finishes: dict[int, str] = {}
        self._chunk_ns: list[int] = []
        self._done: asyncio.Future[FailReason | None] = asyncio.get_running_loop().create_future()
        self._generation = Generation(service, prepared, self)
        self._sent_ns = to_ns(self._generation.began_s)

    async def reply(self) -> Reply:
        """The whole reply. Cancelling frees the slot.

        Raises:
            CallError: the engine gave the call up.
        """
        try:
            reason = await self._done
        except asyncio.CancelledError:
            self._generation.cancel()
            raise
        if reason is None:
            return self._assembled(whole=True)
        refusal = gave_up(self._engine, reason)
        error = classify(refusal.status, refusal.headers, refusal.body)
        error.partial = self._assembled(whole=False) if self._chunk_ns else None
        raise error

    # --- Reader

    @property
    def watches(self) -> bool:
        return self._observe is not None and self._request.stream

    def came(self, index: int, piece: Piece, tokens: int, time_s: float) -> None:
        if not piece:
            return
        said = self._said[index]
        if piece.text:
            said.text.append(piece.text)
        if piece.reasoning:
            said.reasoning.append(piece.reasoning)
        said.calls += piece.calls
        t_ns = self._to_ns(time_s)
        self._chunk_ns.append(t_ns)
        if self._observe is not None and self._request.stream and not self._done.done():
            self._observe(Delta(t_ns, piece.text, piece.reasoning))

    def choice_over(self, index: int, finish: str) -> None:
        self._finishes[index] = finish

    def over(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    def failed(self, reason: FailReason) -> None:
        if not self._done.done():
            self._done.set_result(reason)

    # --- the reply

    def _assembled(self, *, whole: bool) -> Reply:
        assembler = ReplyAssembler(self._request)
        assembler.sent_ns = self._sent_ns
        generation = self._generation
        ended_ns = self._to_ns(generation.ended_s if generation.ended_s is not None else generation.began_s)
        if self._request.stream or not whole:
            for event in self._events(whole=whole):
                payload = event.data.removeprefix(b"data: ").rstrip(b"\n")
                assembler.feed(payload, ended_ns)
        else:
            plans = generation.prepared.choices
            choices = [(cut(plan.answer, plan.tokens), self._finishes[index]) for index, plan in enumerate(plans)]
            assembler.feed_whole(msgspec.json.decode(self._form.whole(generation, choices)), ended_ns)
        return replace(assembler.result(), timing=self._timing(ended_ns))

    def _events(self, *, whole: bool) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for index, said in enumerate(self._said):
            events += self._form.opening(index)
            events += self._form.output(index, said.whole())
            if index in self._finishes:
                events.append(self._form.finish(index, self._finishes[index]))
        if whole:
            events += self._form.ending(self._generation, include_usage=self._generation.prepared.ask.include_usage)
        return events

    def _timing(self, ended_ns: int) -> CallTiming:
        streamed = self._request.stream
        chunk_ns = tuple(sorted(self._chunk_ns)) if streamed else ()
        return CallTiming(
            sent_ns=self._sent_ns,
            headers_ns=self._sent_ns if streamed else ended_ns,
            first_token_ns=chunk_ns[0] if chunk_ns else None,
            ended_ns=max(ended_ns, chunk_ns[-1] if chunk_ns else 0),
            chunk_ns=chunk_ns,
            streamed=streamed,
        )
