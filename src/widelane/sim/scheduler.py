"""Who runs in the next step, and what it reads: decided at each boundary between steps.

1. What decodes goes on. When the pool cannot hold what the step adds, the policy decides who gives way.
2. Nobody overtakes: the head of the queue starts when there is a slot and room for it, else all wait. In a step that
   preempted, nobody starts.
3. What is left of the step's tokens goes to prompts in the order in which their calls started.

Source of the recompute policy: vLLM's `v1/core/sched/scheduler.py`; of the others: llama.cpp's `update_slots`.
"""

from __future__ import annotations

from typing import NamedTuple

from widelane.sim.batch import DecodeBatch
from widelane.sim.call import SimCall
from widelane.sim.config import EngineConfig, PoolPolicy
from widelane.sim.counters import Counters
from widelane.sim.event_log import EventLog
from widelane.sim.events import FailReason
from widelane.sim.live_call import LiveCall
from widelane.sim.room import Room
from widelane.sim.waiting import WaitingCalls


class Reading(NamedTuple):
    """Prompt tokens of one call that a step reads."""

    live: LiveCall
    tokens: int


class Scheduler:
    """The running calls and the queue.

    Attributes:
        running: calls that hold a slot, in the order in which they started, by their `order`.
        waiting: the others.
        room: slots and pool.
    """

    def __init__(self, config: EngineConfig, batch: DecodeBatch, counters: Counters, log: EventLog) -> None:
        self.running: dict[int, LiveCall] = {}
        self.waiting = WaitingCalls()
        self.room = Room(config, batch)
        self._config = config
        self._batch = batch
        self._counters = counters
        self._log = log
        self._gave_way = False

    # --- what may enter

    def refusal(self, call: SimCall) -> FailReason | None:
        """Why this call cannot even wait, None when it can."""
        if call.prompt_tokens >= self.room.longest_tokens:
            return FailReason.PROMPT_TOO_LONG
        most = self._config.max_queue
        if most is not None and len(self.waiting) - self.room.slots.free >= most:
            return FailReason.QUEUE_FULL
        return None

    def output_limit(self, call: SimCall) -> int:
        """Tokens that the call can write before the context ends, at most what it would."""
        return min(call.output_tokens, self.room.longest_tokens - call.prompt_tokens)

    # --- one boundary between steps

    def schedule(self, now_s: float) -> list[Reading]:
        """Let calls give way and start; what of which prompts the next step reads."""
        self._gave_way = self._make_way(now_s)
        if not self._gave_way and self.waiting:
            self.room.shrink()  # running calls have grown since: what they displaced is not to be found
            self._start(now_s)
        readings = self._readings() if self.room.reading else []
        self.room.shrink()
        return readings

    def decode_steps(self, steps: int) -> int:
        """How many of the next `steps` steps, which read no prompt, may be done before the scheduler is asked again."""
        if self.room.reading or self._gave_way:
            return 1
        return self.room.steps(steps)

    def read(self, readings: list[Reading], now_s: float) -> list[LiveCall]:
        """These have been read; the calls whose prompts are complete, and decode from now on."""
        complete = []
        for live, tokens in readings:
            if self.room.reading.get(live.order) is not live:  # cancelled meanwhile
                continue
            live.read += tokens
            self._counters.computed_tokens += tokens
            if live.read == live.target:
                del self.room.reading[live.order]
                self._batch.join(live, now_s)
                complete.append(live)
        return complete

    # --- leaving

    def find(self, call_id: str) -> LiveCall | None:
        """The running call of this id."""
        return next((live for live in self.running.values() if live.call.id == call_id), None)

    def release(self, live: LiveCall, *, whole: bool = False, keep: bool = True) -> None:
        """The call runs no more: its slot and its room are free (`whole`, `keep`: see `Room.leave`)."""
        del self.running[live.order]
        self.room.leave(live, whole=whole, keep=keep)

    # --- private

    def _make_way(self, now_s: float) -> bool:
        """Whether calls were preempted, so that the next step fits."""
        free = self.room.free_units
        if free is None or self._config.policy is PoolPolicy.RESERVE:
            return False
        if self._config.policy is PoolPolicy.FAIL_ALL:
            if free < 0 or (free == 0 and self.room.reading):
                self._fail_all(now_s)
            return False
        preempted = False
        while free is not None and free < 0 and len(self.running) > 1:
            self._preempt(now_s)
            preempted = True
            free = self.room.free_units
        return preempted

    def _preempt(self, now_s: float) -> None:
        """The youngest of the least important gives everything back and is computed anew."""
        victim = max(reversed(self.running.values()), key=_priority)
        self.release(victim)
        victim.forget()
        self._counters.preemptions += 1
        self.waiting.push(victim)
        self._log.preempted(victim, now_s)

    def _fail_all(self, now_s: float) -> None:
        for live in sorted(self.running.values(), key=_order):
            self.release(live, keep=False)
            self._counters.failed += 1
            self._log.failed(live.call.id, now_s, FailReason.POOL_FULL, live.arrivals())

    def _start(self, now_s: float) -> None:
        """Start calls from the head of the queue while there are slots and room."""
        left = self._prompt_tokens_left() - sum(live.target - live.read for live in self.room.reading.values())
        while self.room.slots.free and (live := self.waiting.head()) is not None:
            if self._config.policy is PoolPolicy.RECOMPUTE and left <= 0:
                return  # vLLM starts a call with its first tokens
            if not self.room.enter(live):
                return
            self.waiting.pop()
            self.running[live.order] = live
            self.room.read(live, min(left, live.target - live.read))  # the next call of this step may share it
            left -= live.target - live.read
            if live.cached_tokens is None:
                live.cached_tokens = live.read
                self._counters.prefix_query_tokens += live.target
                self._counters.prefix_hit_tokens += live.read
            self._log.started(live, now_s)

    def _prompt_tokens_left(self) -> int:
        """Tokens of the next step that decoding leaves to prompts."""
        decoding = len(self._batch) * self._config.tokens_per_sequence if self._config.prefill_shares_steps else 0
        return self._config.prefill_chunk_tokens - decoding

    def _readings(self) -> list[Reading]:
        """Give the step's tokens to prompts; in a pool that fails when full, no more than there are cells."""
        left = self._prompt_tokens_left()
        free = self.room.free_units if self._config.policy is PoolPolicy.FAIL_ALL else None
        readings = []
        for live in self.room.reading.values():
            tokens = min(left, live.target - live.read)
            if free is not None:
                tokens, units = self.room.readable(live, tokens, max(0, free))
                free -= units
            if tokens > 0:
                left -= tokens
                readings.append(Reading(live, tokens))
                self.room.read(live, tokens)
        return readings


def _priority(live: LiveCall) -> int:
    return live.call.priority


def _order(live: LiveCall) -> int:
    return live.order
