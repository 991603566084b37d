"""Steps as a coroutine over lanes: every call starts when those that it needs have ended.

It reads like its algorithm and knows nothing of time or servers: the same code runs on the simulator and on a server.
"""

from __future__ import annotations

import asyncio

from widelane.lanes.lanes import Lanes
from widelane.predict.call_request import call_request
from widelane.predict.chance import Chance
from widelane.predict.steps import PlannedCall, StepGraph


async def run_steps(lanes: Lanes, graph: StepGraph, chance: Chance) -> None:
    """Make every call of the graph.

    Args:
        chance: decides the lengths of the answers; they do not depend on the width.

    Raises:
        CallError: a call failed for good; the others are cancelled.
    """
    calls = graph.calls()
    tokens = {call.key: call.step.output.draw(chance.rng(call.key)) for call in calls}
    ended = {call.key: asyncio.Event() for call in calls}
    finished: list[str] = []

    async def make(call: PlannedCall) -> None:
        for key in call.needs:
            await ended[key].wait()
        prompt = call.step.prompt_tokens + (sum(tokens[key] for key in call.needs) if call.step.reads else 0)
        request = call_request(f"{chance.seed} {call.key}", prompt, tokens[call.key])
        await lanes.call(request, key=call.key, role=call.step.role, parent=_last(call, finished))
        finished.append(call.key)
        ended[call.key].set()

    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(make(call), name=f"step {call.key}")


def _last(call: PlannedCall, finished: list[str]) -> str | None:
    """The needed call that ended last: the one that the start had to wait for."""
    needs = set(call.needs)
    return next((key for key in reversed(finished) if key in needs), None)
