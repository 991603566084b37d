"""A backend without a server: scripted replies, delays and failures, for tests of code that makes calls.

    backend = FakeBackend(["yes", ServerOverloaded("busy"), "no"], delay_s=0.5)
    async with Lanes(backend, width=4, clock=LoopClock(), rng=random.Random(0)) as lanes:
        reply = await lanes.call(ChatRequest(prompt="?"))

Time is the running loop's, so under `run_virtual` delays cost nothing.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from widelane.errors import CallError
from widelane.records import CallTiming, ChatRequest, Delta, Observer, Reply, Usage

Answer = str | Reply | CallError


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    """One answer with its own times.

    Attributes:
        delay_s: sent to first token.
        decode_s: first token to end.
    """

    answer: Answer
    delay_s: float = 0.0
    decode_s: float = 0.0


class FakeBackend:
    """Gives the scripted answers in the order of the requests; the last one repeats.

    Attributes:
        requests: every request received, in order.
        running: calls under way now.
        peak: most calls under way together.
        cancelled: calls that were cancelled.
        slots: calls served together; further ones wait, as on a server with too few slots. None: no limit.
    """

    def __init__(
        self,
        answers: Sequence[Answer | Scripted] | Callable[[ChatRequest, int], Answer | Scripted] = ("ok",),
        *,
        delay_s: float = 0.0,
        decode_s: float = 0.0,
        slots: int | None = None,
    ) -> None:
        """Args:
        answers: a list, or a function of the request and its number (from 0).
        """
        self.requests: list[ChatRequest] = []
        self.running = 0
        self.peak = 0
        self.cancelled = 0
        self.slots = slots
        self._answers = answers
        self._delay_s = delay_s
        self._decode_s = decode_s
        self._free_slots = asyncio.Semaphore(slots) if slots is not None else None

    def __repr__(self) -> str:
        return f"<FakeBackend {len(self.requests)} requests, {self.running} running, peak {self.peak}>"

    async def complete(self, request: ChatRequest, observe: Observer | None = None) -> Reply:
        """The next scripted answer; a scripted error is raised when its delay is over."""
        script = self._next(request)
        sent_ns = _now_ns()
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            if self._free_slots is None:
                return await self._serve(script, sent_ns, observe)
            async with self._free_slots:
                return await self._serve(script, sent_ns, observe)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    def _next(self, request: ChatRequest) -> Scripted:
        number = len(self.requests)
        self.requests.append(request)
        if callable(self._answers):
            found = self._answers(request, number)
        else:
            found = self._answers[min(number, len(self._answers) - 1)]
        if isinstance(found, Scripted):
            return found
        return Scripted(answer=found, delay_s=self._delay_s, decode_s=self._decode_s)

    async def _serve(self, script: Scripted, sent_ns: int, observe: Observer | None) -> Reply:
        await asyncio.sleep(script.delay_s)
        answer = script.answer
        if isinstance(answer, CallError):
            raise copy.copy(answer)  # every failure is an exception of its own
        text = answer if isinstance(answer, str) else answer.text
        first_ns = _now_ns()
        if observe is not None:
            observe(Delta(first_ns, text))
        await asyncio.sleep(script.decode_s)
        return answer if isinstance(answer, Reply) else _reply(text, sent_ns, first_ns)


def _reply(text: str, sent_ns: int, first_ns: int) -> Reply:
    words = max(1, len(text.split()))
    timing = CallTiming(
        sent_ns=sent_ns, headers_ns=first_ns, first_token_ns=first_ns, ended_ns=_now_ns(), chunk_ns=(first_ns,)
    )
    usage = Usage(prompt_tokens=8, completion_tokens=words)
    return Reply(text=text, finish="stop", usage=usage, timing=timing, choices=(text,), model="fake")


def _now_ns() -> int:
    return int(asyncio.get_running_loop().time() * 1e9)
