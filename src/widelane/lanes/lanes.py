"""Many calls at once to one server: how many are in flight, who goes first, what is sent again, and the trace.

The life of a call: offered → waits in the queue (`admission`) → takes a lane → sent (`backend.complete`, one attempt)
→ ended, or gives its lane back and waits (`retry`, `breaker`) → offered again with its old place in the queue.
The decisions are in the pure files beside this one; here is the waiting.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from widelane.clock import Clock
from widelane.errors import BudgetExhausted, CallError, ConnectionRefused, UsageError, WidelaneError
from widelane.lanes.breaker import Breaker, CanFetch, probe_of
from widelane.lanes.budget import Budget, Ledger
from widelane.lanes.footprint import Footprints, prompt_tokens
from widelane.lanes.lane_queue import LaneQueue
from widelane.lanes.notices import Incident, Notices
from widelane.lanes.observed_width import ObservedWidth, observed_width
from widelane.lanes.recovery import Failure, Recovery
from widelane.lanes.retry import RetryPolicy, resend_at_once
from widelane.lanes.trace import CallState, FirstToken, Rows
from widelane.lanes.width import PoolBound, WidthControl
from widelane.records import Backend, ChatRequest, Observer, Outcome, Reply, Span
from widelane.wire.open_files import raise_open_files_limit

OBSERVED_SPANS = 512
"""Latest calls from which the server's own width is told."""


class CallStore(Protocol):
    """Where calls are kept over a crash (`store.RunStore`)."""

    def reply(self, key: str) -> Reply | None: ...

    async def started(self, key: str) -> None: ...

    async def finished(self, span: Span, reply: Reply | None) -> None: ...


class Lanes:
    """Calls to one server, `width` at a time.

    Use as `async with Lanes(backend, width=16, clock=SystemClock(), rng=random.Random(0)) as lanes:`. Leaving the
    block cancels every call in flight and waits for it; the callers still waiting then get `CancelledError`.
    To drop a loser, cancel the task that awaits `call()`: the connection is closed, which frees the server's slot.

    Attributes:
        spans: one span a call that is over, in the order of ending; failed and cancelled ones included.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        width: int,
        clock: Clock,
        rng: random.Random,
        store: CallStore | None = None,
        budget: Budget | None = None,
        retry: RetryPolicy | None = None,
        pool_tokens: int | None = None,
        is_up: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Args:
        width: calls in flight at most; lowered for a while when the server sheds load.
        store: finished calls are kept in it, and a call whose key it holds is answered from it.
        pool_tokens: the server's shared KV pool in tokens, when a full one fails every call (llama.cpp's default).
        is_up: asks whether the server takes requests; by default `GET /health`, where the backend can.
        """
        policy = retry or RetryPolicy()
        self.spans: list[Span] = []
        self._backend = backend
        self._clock = clock
        self._store = store
        self._ledger = Ledger(budget)
        self._width = WidthControl(width, adaptive=policy.adaptive_width)
        self._pool = PoolBound(pool_tokens)
        where = str(getattr(backend, "url", ""))
        self._breaker = Breaker(probe_of(backend, is_up), policy, rng, self._server_changed, where)
        self._queue = LaneQueue(self._width, self._pool, self._ledger, self._breaker)
        self._recovery = Recovery(policy, self._queue, self._width, self._pool, self._breaker, clock, rng)
        self._footprints = Footprints()
        self._notices = Notices()
        self._rows = Rows()
        self._tasks: dict[asyncio.Task[Reply], None] = {}  # a set has no order of its own: the trace would have none
        self._keys: set[str] = set()
        self._offered = 0
        self._deadline_s: float | None = None
        self._open = False

    def __repr__(self) -> str:
        return f"<Lanes width {self.current_width}/{self.width}, {self._queue.admission!r}, {len(self.spans)} ended>"

    async def __aenter__(self) -> Self:
        """Raises:
        OpenFilesLimit: the process may not open one socket a lane, whatever it is told.
        """
        self._make_room()
        self._open = True
        seconds = self._ledger.budget.seconds
        if seconds is not None:
            self._deadline_s = asyncio.get_running_loop().time() + seconds
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        self._queue.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, self._breaker.close(), return_exceptions=True)

    # --- what can be asked and set

    @property
    def width(self) -> int:
        """Calls that may be in flight, as stated; may be changed while running. Calls in flight are not stopped."""
        return self._width.ceiling

    @width.setter
    def width(self, value: int) -> None:
        self._width.ceiling = value
        if self._open:
            self._make_room()
            self._queue.pump()

    @property
    def current_width(self) -> int:
        """The width in force: below `width` after the server shed load."""
        return self._width.current

    @property
    def pool_tokens(self) -> int | None:
        """Bound on reserved tokens in flight, lowered when the server's pool overflowed; None: unbounded."""
        return self._pool.tokens

    @property
    def tokens_spent(self) -> int:
        """Prompt and output tokens of ended attempts."""
        return self._ledger.spent

    @property
    def in_flight(self) -> int:
        """Calls that hold a lane now."""
        return self._queue.admission.in_flight

    @property
    def waiting(self) -> int:
        """Calls in the queue."""
        return self._queue.waiting

    @property
    def incidents(self) -> Sequence[Incident]:
        """Overloads, overflows and down-times, with the width they came at."""
        return self._recovery.incidents

    @property
    def server_width(self) -> ObservedWidth | None:
        """What the latest calls tell of the width that the server really has; None while they are too few."""
        return observed_width(self.spans[-OBSERVED_SPANS:])

    @property
    def warnings(self) -> Mapping[str, int]:
        """Conditions of this server, by name, with the number of replies that showed each.

        Those of the replies, `not_reproducible` (one request with a seed at temperature 0, two answers),
        `buffered_stream` (it came in one burst at its end: latency figures mean nothing), and `server_queues` (the
        server makes calls wait for a slot; the count is that of the calls that waited).
        """
        counts = dict(self._notices.counts)
        seen = self.server_width
        if seen is not None and seen.server_queues:
            counts["server_queues"] = seen.queued
        return counts

    # --- calling

    async def call(
        self,
        request: ChatRequest,
        *,
        key: str | None = None,
        role: str = "work",
        priority: int = 0,
        parent: str | None = None,
        observe: Observer | None = None,
    ) -> Reply:
        """The reply, sent again where that is safe.

        Args:
            key: unique in the run; a resumed run answers a finished key from its store. Made up when None.
            priority: a lower number goes first; within one priority, first come first served.
            observe: called for every chunk; after a failed attempt the chunks begin anew.

        Raises:
            CallError: it failed for good; ServerDown when the server stayed away and the run should be resumed.
            BudgetExhausted: a budget does not allow it, or was used up while it ran.
            UsageError: the key was used before, by a call that did not fail and was not cancelled.
        """
        if not self._open:
            raise RuntimeError("use `async with Lanes(...) as lanes:` round the calls")
        sequence = self._offered
        self._offered += 1
        if key is not None and self._store is not None and (kept := self._store.reply(key)) is not None:
            return kept
        key = self._claim(key, sequence)
        call = CallState(
            request=request, key=key, role=role, parent=parent, priority=priority, sequence=sequence,
            queued_ns=self._clock.now_ns(), watch=FirstToken(observe), observe=observe,
        )  # fmt: skip
        # A task of its own, so that leaving the context can stop the call without touching the caller's task.
        task = asyncio.create_task(self._run(call), name=f"widelane call {key}")
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._over(done, call))
        return await task

    def _over(self, task: asyncio.Task[Reply], call: CallState) -> None:
        self._tasks.pop(task, None)
        if task.cancelled() and not call.begun:  # before its first step: nothing in it has run
            self._cancelled(call)

    def _claim(self, key: str | None, sequence: int) -> str:
        if key is None:
            session = getattr(self._store, "session", None)
            key = f"call-{sequence}" if session is None else f"call-{session}-{sequence}"
        if key in self._keys:
            raise UsageError(f"the call key {key!r} was used before in this run; a key names one call")
        self._keys.add(key)
        return key

    async def _run(self, call: CallState) -> Reply:
        """One call from offer to end; whatever happens, it leaves a span."""
        call.begun = True
        try:
            reply = await self._within_time(call)
        except asyncio.CancelledError:
            self._cancelled(call)
            raise
        except WidelaneError as error:
            await self._failed(call, error)
            raise
        else:
            span = self._record(call, Outcome.OK, reply=reply)
            await self._keep(span, reply)
            return reply
        finally:
            if call.row is not None:
                self._rows.give_back(call.row)

    async def _keep(self, span: Span, reply: Reply) -> None:
        if self._store is None:
            return
        try:
            await self._store.finished(span, reply)
        except WidelaneError:
            self._keys.discard(span.key)  # it is not finished: whoever asks again is to hear of the store, not the key
            raise

    def _record(
        self, call: CallState, outcome: Outcome, *, reply: Reply | None = None, error: WidelaneError | None = None
    ) -> Span:
        code = None if error is None else getattr(error, "code", "budget_exhausted")
        partial = error.partial if isinstance(error, CallError) else None
        span = call.span(self._clock.now_ns(), outcome, reply or partial, code, None if error is None else str(error))
        self.spans.append(span)
        return span

    def _cancelled(self, call: CallState) -> None:
        self._keys.discard(call.key)  # as a resumed run may make it again, so may this one
        self._record(call, Outcome.CANCELLED)

    async def _failed(self, call: CallState, error: WidelaneError) -> None:
        if isinstance(error, CallError) and error.request_id is None:
            error.request_id = call.key
        self._keys.discard(call.key)  # a failed call may be made again under its key
        budget_or_call = isinstance(error, (CallError, BudgetExhausted))
        span = self._record(call, Outcome.FAILED, error=error)
        if self._store is not None and budget_or_call:
            await self._store.finished(span, None)

    async def _within_time(self, call: CallState) -> Reply:
        """The reply, within the seconds of the run's and the call's budget."""
        budget = self._ledger.budget
        try:
            # A timeout that is over already would still let the call be sent, and cancel it then.
            if not self._time_is_up():
                async with asyncio.timeout_at(self._deadline_s) as limit:
                    return await self._complete(call, limit)
        except TimeoutError:
            if not self._time_is_up():
                raise BudgetExhausted(f"the call's budget of {budget.call_seconds:g} s is used up") from None
        raise BudgetExhausted(f"the run's budget of {budget.seconds:g} s is used up")

    def _time_is_up(self) -> bool:
        return self._deadline_s is not None and asyncio.get_running_loop().time() >= self._deadline_s

    async def _complete(self, call: CallState, limit: asyncio.Timeout) -> Reply:
        """Attempts until one is answered or no further one is allowed."""
        estimate = prompt_tokens(call.request)
        while True:
            request = self._ledger.limited(call.request, estimate, call.used_tokens)
            ticket = await self._queue.enter(call.priority, call.sequence, self._footprints.tokens(request))
            used = 0
            try:
                await self._note_start(call, limit)
                result = await self._send(call, request)
                used = _used_tokens(call, result, estimate)
                if isinstance(result, Failure):
                    decision = self._recovery.react(call, result)
            except asyncio.CancelledError:
                used = call.watch.chunks + estimate if call.watch.chunks else 0
                raise
            finally:
                call.used_tokens += used
                self._queue.leave(ticket, used)
            if isinstance(result, Reply):
                self._succeeded(request, result, estimate)
                return result
            await self._recovery.hold(result, decision)

    async def _note_start(self, call: CallState, limit: asyncio.Timeout) -> None:
        if call.row is not None:
            return
        call.row = self._rows.take()
        if self._store is not None:
            await self._store.started(call.key)
        call.started_ns = self._clock.now_ns()
        seconds = self._ledger.budget.call_seconds
        if seconds is not None:
            until_s = asyncio.get_running_loop().time() + seconds
            limit.reschedule(until_s if self._deadline_s is None else min(until_s, self._deadline_s))

    async def _send(self, call: CallState, request: ChatRequest) -> Reply | Failure:
        """One attempt, and the immediate second one when the pooled connection was stale."""
        while True:
            call.watch = FirstToken(call.observe)
            call.attempts += 1
            sent, trips = self._recovery.note_sending(), self._breaker.trips
            try:
                return await self._backend.complete(request, call.watch)
            except CallError as error:
                if resend_at_once(error, resent=call.resent):
                    call.resent = True
                    continue
                if isinstance(error, ConnectionRefused):
                    call.attempts -= 1  # nobody was there to send it to
                lost = not self._breaker.passing or self._breaker.trips != trips
                admission = self._queue.admission
                return Failure(error, sent, admission.in_flight, admission.tokens_in_flight, lost)

    def _succeeded(self, request: ChatRequest, reply: Reply, estimate: int) -> None:
        self._width.succeeded()
        self._breaker.succeeded()
        self._notices.read(request, reply)
        if reply.usage is not None:
            self._footprints.learn(estimate, reply.usage.prompt_tokens, reply.usage.completion_tokens)
        self._queue.pump()

    def _server_changed(self) -> None:
        if self._open:
            self._queue.pump()

    def _make_room(self) -> None:
        if isinstance(self._backend, CanFetch):  # a real server: one socket a lane
            raise_open_files_limit(self.width)


def _used_tokens(call: CallState, result: Reply | Failure, estimate: int) -> int:
    """Tokens an attempt took: the server's count, else the chunks seen and the prompt's estimate."""
    reply = result if isinstance(result, Reply) else result.error.partial
    usage = reply.usage if reply is not None else None
    if usage is not None:
        prompt = estimate if usage.prompt_tokens is None else usage.prompt_tokens
        return prompt + usage.completion_tokens
    answered = isinstance(result, Reply) or call.watch.chunks > 0
    return call.watch.chunks + estimate if answered else 0
