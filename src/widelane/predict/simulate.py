"""One run of a job on a simulated server, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from widelane.clock import LoopClock
from widelane.errors import CallError, UsageError
from widelane.lanes.lanes import Lanes
from widelane.predict.chance import Chance
from widelane.predict.shape import Work
from widelane.records import Backend, Span
from widelane.virtual_time import run_virtual

LONGEST_JOB_S = 100 * 365 * 86_400.0
"""Virtual seconds after which a job is taken to be endless: much work on one slow lane may take years."""
OpenBackend = Callable[[int], Backend]
"""A fresh server for a seed; called inside the running virtual loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run left.

    Attributes:
        width: lanes it had.
        wall_s: virtual seconds from its start to its end.
        solved: False when it came to nothing.
        spans: every call.
    """

    width: int
    wall_s: float
    solved: bool
    spans: Sequence[Span]


def run_once(work: Work, open_backend: OpenBackend, *, width: int, chance: Chance) -> Run:
    """The job on `width` lanes of a fresh server. Not to be called from within a running event loop.

    Raises:
        UsageError: the server cannot serve a call of the job (its prompt is too long, its pool too small).
    """

    async def main() -> Run:
        rng = chance.rng("lanes")
        async with Lanes(open_backend(chance.seed), width=width, clock=LoopClock(), rng=rng) as lanes:
            solved = await work.run(lanes, chance)
            wall_s = asyncio.get_running_loop().time()
        return Run(width=width, wall_s=wall_s, solved=solved, spans=tuple(lanes.spans))

    try:
        return run_virtual(main, longest_s=LONGEST_JOB_S)
    except (CallError, ExceptionGroup) as raised:
        error = _call_error(raised)
        if error is None:
            raise
        raise UsageError(
            f"This server could not do the job on {width} lanes: {error.message} (call {error.request_id}). "
            "Make its calls shorter, or predict it on a server with a longer context or a larger pool."
        ) from None


def _call_error(raised: Exception) -> CallError | None:
    """The first failure of a call among what a task group raised, None when something else failed too."""
    if isinstance(raised, CallError):
        return raised
    if not isinstance(raised, ExceptionGroup):
        return None
    found = [_call_error(one) for one in raised.exceptions]
    return found[0] if all(found) else None
