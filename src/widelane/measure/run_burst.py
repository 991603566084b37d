"""One burst, run: equal calls sent at once, each with the times of its chunks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from widelane.clock import Clock
from widelane.engines.engine import Engine
from widelane.lanes.lanes import Lanes
from widelane.measure.calls import CallRecord
from widelane.measure.first_calls import length_fields
from widelane.measure.live_call import LiveCall
from widelane.measure.workload import CallMaker

_TOGETHER_CHUNKS = 4
"""Once every call has this many chunks and none has ended, all of them decode together: more tokens say no more."""
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstPlan:
    """What to send.

    Attributes:
        seconds: bound; what has not ended by then is cut off.
        group: names the burst, so that its prompts are its own.
    """

    width: int
    output_tokens: int
    seconds: float
    group: str


async def run_burst(
    plan: BurstPlan, lanes: Lanes, maker: CallMaker, engine: Engine, *, clock: Clock
) -> list[CallRecord]:
    """Every call of the burst, those that were cut off included. Ends early when all calls decode together."""
    base_ns = clock.now_ns()
    fields = length_fields(maker, engine, plan.output_tokens)
    live = [LiveCall(base_ns=base_ns) for _ in range(plan.width)]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                call.run(lanes, maker.request(plan.group, number, plan.output_tokens, fields), clock, role="probe")
            )
            for number, call in enumerate(live)
        ]
        until_ns = base_ns + int(plan.seconds * 1e9)
        while clock.now_ns() < until_ns and not _known(live):
            _, pending = await asyncio.wait(tasks, timeout=_LOOK_S, return_when=asyncio.ALL_COMPLETED)
            if not pending:
                break
        for task in tasks:
            task.cancel()
    return [call.record(clock.now_ns()) for call in live]


def _known(live: list[LiveCall]) -> bool:
    return all(not call.over and len(call.chunk_ns) >= _TOGETHER_CHUNKS for call in live)
