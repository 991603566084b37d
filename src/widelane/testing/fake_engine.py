"""A small model of a continuous-batching server, in memory: slots, a queue, prefill and decode steps with a cost.

    server = FakeServer(LoopClock(), slots=4, step_s=lambda batch: 0.02 + 0.001 * batch, prefill_s_per_token=0.001)
    report = await sweep(server, FakeEngine(server), …)      # under `run_virtual`: no time passes

It is a Backend whose right answers are known beforehand: throughput, waiting and limits follow from its arguments.
One step admits waiting calls to free slots, reads their prompts, and gives every running call one token (or as many as
`tokens_per_step`), as llama.cpp and vLLM do. Same calls, same times: there is no chance in it unless `noise` is given.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from widelane.clock import Clock
from widelane.engines.engine import NO_HINTS, Gauges, Hints
from widelane.engines.server_facts import ServerFacts
from widelane.errors import CallError, PoolOverflow
from widelane.figures import Figure, unknown
from widelane.records import CallTiming, ChatRequest, Delta, Observer, Reply, Usage, UsageOrigin

_FOREVER = 1_000_000_000


@dataclass(slots=True, kw_only=True, eq=False)
class _Sequence:
    """A call inside the server."""

    prompt_tokens: int
    length: int
    observe: Observer | None
    done: asyncio.Future[None]
    written: int = 0
    prefilled: bool = False
    chunk_ns: list[int] = field(default_factory=list)
    held: list[Delta] = field(default_factory=list)


class FakeServer:
    """A server with known costs.

    Attributes:
        peak_running: most calls in slots at one time.
        preemptions: calls thrown out of the pool.
        requests: calls received.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        slots: int,
        step_s: Callable[[int], float],
        prefill_s_per_token: float = 0.0,
        pool_tokens: int = _FOREVER,
        preempts: bool = False,
        tokens_per_step: int = 1,
        natural_length: int | None = None,
        buffers: bool = False,
        counts_tokens: bool = True,
        fails: Callable[[int], CallError | None] = lambda _: None,
        noise: random.Random | None = None,
        noise_share: float = 0.1,
    ) -> None:
        """Args:
        slots: calls in the running batch.
        step_s: seconds of a decode step, by the number of calls that decode in it.
        pool_tokens: KV pool; when it is full the server preempts the youngest call (`preempts`) or fails all.
        tokens_per_step: tokens that one step gives a call, in one chunk (speculative decoding).
        natural_length: tokens after which the model would stop unless `ignore_eos` is sent; None: never.
        buffers: deliver every stream in one piece at its end, as a buffering proxy does.
        counts_tokens: False sends no usage, so that the client must count chunks.
        fails: a failure for the call with this number (from 0), None to serve it.
        noise: makes the length of every step stray by up to `noise_share`.
        """
        self.peak_running = 0
        self.preemptions = 0
        self.requests = 0
        self._clock, self._slots, self._step_s = clock, slots, step_s
        self._prefill_s_per_token, self._pool_tokens, self._preempts = prefill_s_per_token, pool_tokens, preempts
        self._tokens_per_step, self._natural_length = tokens_per_step, natural_length
        self._buffers, self._counts_tokens, self._fails = buffers, counts_tokens, fails
        self._noise, self._noise_share = noise, noise_share
        self._waiting: list[_Sequence] = []
        self._running: list[_Sequence] = []
        self._stepping: asyncio.Task[None] | None = None

    async def complete(self, request: ChatRequest, observe: Observer | None = None) -> Reply:
        """One call. Cancelling it frees its slot.

        Raises:
            CallError: what `fails` gave, or PoolOverflow.
        """
        number = self.requests
        self.requests += 1
        failure = self._fails(number)
        if failure is not None:
            raise failure
        sent_ns = self._clock.now_ns()
        call = _Sequence(
            prompt_tokens=len((request.prompt or str(request.messages)).split()),
            length=self._length(request),
            observe=observe,
            done=asyncio.get_running_loop().create_future(),
        )
        self._waiting.append(call)
        if self._stepping is None or self._stepping.done():
            self._stepping = asyncio.create_task(self._run(), name="fake server steps")
        try:
            await call.done
        finally:
            for queue in (self._waiting, self._running):
                if call in queue:
                    queue.remove(call)
        return self._reply(call, sent_ns)

    def gauges(self) -> Gauges:
        """The server's counters now."""
        return Gauges(
            running=len(self._running),
            waiting=len(self._waiting),
            kv_usage=self._used() / self._pool_tokens,
            preemptions_total=self.preemptions,
        )

    # --- the steps

    async def _run(self) -> None:
        # A call that arrives now is taken into the very next step, as on a server that polls its queue.
        await asyncio.sleep(0)
        while self._waiting or self._running:
            self._admit()
            new = [call for call in self._running if not call.prefilled]
            decoding = len(self._running) - len(new)
            seconds = self._prefill_s_per_token * sum(call.prompt_tokens for call in new)
            seconds += self._step_s(decoding) if decoding else 0.0
            if self._noise is not None:
                seconds *= 1 + self._noise_share * self._noise.uniform(-1, 1)
            taking_part = list(self._running)
            await asyncio.sleep(max(seconds, 1e-6))
            for call in taking_part:
                if call in self._running:
                    self._give(call)
            self._check_pool()

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._slots:
            fits = self._used() + self._waiting[0].prompt_tokens < self._pool_tokens
            if self._preempts and not fits and self._running:
                return
            self._running.append(self._waiting.pop(0))
        self.peak_running = max(self.peak_running, len(self._running))

    def _give(self, call: _Sequence) -> None:
        """One chunk for a call, its first right after its prompt was read."""
        tokens = min(self._tokens_per_step if call.prefilled else 1, call.length - call.written)
        call.prefilled = True
        call.written += tokens
        delta = Delta(self._clock.now_ns(), " la" * tokens)
        call.held.append(delta)
        over = call.written >= call.length
        if self._buffers and not over:
            return
        for held in call.held:
            arrived = Delta(delta.t_ns, held.text)
            call.chunk_ns.append(arrived.t_ns)
            if call.observe is not None:
                call.observe(arrived)
        call.held.clear()
        if over:
            self._running.remove(call)
            if not call.done.done():
                call.done.set_result(None)

    def _check_pool(self) -> None:
        while self._used() > self._pool_tokens and self._running:
            if self._preempts:
                self.preemptions += 1
                youngest = self._running.pop()
                youngest.prefilled = False
                self._waiting.insert(0, youngest)
                continue
            for call in self._running:
                if not call.done.done():
                    call.done.set_exception(PoolOverflow("Context size has been exceeded.", status=500))
            self._running.clear()

    def _used(self) -> int:
        return sum(call.prompt_tokens + call.written for call in self._running)

    def _length(self, request: ChatRequest) -> int:
        asked = request.max_tokens or 16
        if self._natural_length is None or request.extra.get("ignore_eos"):
            return asked
        return min(asked, self._natural_length)

    def _reply(self, call: _Sequence, sent_ns: int) -> Reply:
        origin = UsageOrigin.READ if self._counts_tokens else UsageOrigin.COUNTED
        return Reply(
            text=" la" * call.written,
            finish="length",
            usage=Usage(
                call.prompt_tokens if self._counts_tokens else None,
                call.written if self._counts_tokens else len(call.chunk_ns),
                origin=origin,
            ),
            timing=CallTiming(
                sent_ns=sent_ns,
                headers_ns=None,
                first_token_ns=call.chunk_ns[0],
                ended_ns=call.chunk_ns[-1],
                chunk_ns=tuple(call.chunk_ns),
            ),
        )


class FakeEngine:
    """The adapter of a FakeServer.

    `tells` False makes it silent, like a server without metrics; `forces` False cannot fix an output length.
    """

    name = "openai-compatible"

    def __init__(self, server: FakeServer, *, tells: bool = True, forces: bool = True) -> None:
        self._server, self._tells, self._forces = server, tells, forces

    async def facts(self, hints: Hints = NO_HINTS) -> ServerFacts:
        """Nothing but that nothing is told."""
        return facts_of_nothing()

    async def gauges(self) -> Gauges:
        """The server's own counters."""
        return self._server.gauges() if self._tells else Gauges(reason="this fake server tells nothing")

    def forced_text(self, text: str) -> Mapping[str, Any] | None:
        """A fake server cannot be made to say something."""
        return None

    def fixed_length(self, tokens: int) -> Mapping[str, Any]:
        """`ignore_eos`, unless it cannot."""
        return {"ignore_eos": True} if self._forces else {}

    def no_prefix_cache(self) -> Mapping[str, Any]:
        """There is none."""
        return {}

    def thinking_off(self) -> Mapping[str, Any]:
        """It never thinks."""
        return {}


def facts_of_nothing(**known: Figure) -> ServerFacts:
    """The facts of a server that tells nothing, but for `known`."""
    nothing = unknown("", "the server does not tell")
    names = (  # all that are figures; `extra` is not
        "version", "model", "slots", "context_per_slot", "context_trained", "kv_dtype", "state_dtype", "pool_tokens",
        "unified_pool", "speculation", "prefix_cache", "queue_length", "reasoning_parser", "tool_parser",
        "weights_bytes", "parameters", "launch_command",
    )  # fmt: skip
    figures: dict[str, Any] = {name: known.get(name, nothing) for name in names}
    return ServerFacts(engine="openai-compatible", **figures)
