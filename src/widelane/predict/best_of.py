"""Best-of-N with a check: tries at one task side by side, and the first that passes ends the others."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from widelane.errors import UsageError
from widelane.lanes.lanes import Lanes
from widelane.predict.call_request import call_request
from widelane.predict.chance import Chance
from widelane.predict.steps import MOST_CALLS, check_read
from widelane.sim.answers.lengths import Lengths

LONGEST_CHECK_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BestOf:
    """What is tried.

    Attributes:
        tries: how many at most.
        pass_rate: chance that one try passes, 0 to 1, each by itself.
        verify_s: seconds that checking one try takes; the simulator costs a check, it does not run one.
    """

    tries: int
    output: Lengths
    prompt_tokens: int
    pass_rate: float
    verify_s: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.tries <= MOST_CALLS:
            raise UsageError(f"{self.tries:,} tries: give 1 to {MOST_CALLS:,}.")
        if not 0.0 <= self.pass_rate <= 1.0:
            raise UsageError(f"A pass rate of {self.pass_rate:g} is no probability: give 0 to 1, such as 0.3.")
        if not 0.0 <= self.verify_s <= LONGEST_CHECK_S:
            raise UsageError(f"A check of {self.verify_s:g} s: give 0 to {LONGEST_CHECK_S:,.0f} seconds.")
        check_read(self.prompt_tokens, self.tries * self.prompt_tokens)

    @property
    def solved(self) -> float:
        """Chance that some try passes: 1 - (1 - p)^N."""
        return 1.0 - (1.0 - self.pass_rate) ** self.tries

    def first_pass(self, share: float) -> int:
        """Number of the first try that passes, `tries` + 1 for none: the inverse of 1 - (1 - p)^n at `share`."""
        passed = (number for number in range(1, self.tries + 1) if share <= 1.0 - (1.0 - self.pass_rate) ** number)
        return next(passed, self.tries + 1)


async def try_all(lanes: Lanes, job: BestOf, chance: Chance) -> bool:
    """Whether a try passed. With one lane the tries come one after another; the next begins while one is checked.

    Args:
        chance: decides how long each try is and whether it passes; neither depends on the width.

    Raises:
        CallError: a call failed for good; the others are cancelled.
    """
    passed = asyncio.Event()
    first = job.first_pass(chance.share)

    async def attempt(number: int) -> None:
        rng = chance.rng(f"try {number}")
        tokens = job.output.draw(rng)
        good = number == first or (number > first and rng.random() < job.pass_rate)
        # All tries share the prompt: whatever prefix cache the server has may help.
        request = call_request(f"{chance.seed} task", job.prompt_tokens, tokens)
        await lanes.call(request, key=f"try-{number}")
        await asyncio.sleep(job.verify_s)
        if good:
            passed.set()

    async with asyncio.TaskGroup() as group:
        tries = [group.create_task(attempt(number), name=f"try {number}") for number in range(1, job.tries + 1)]
        winner = group.create_task(passed.wait(), name="first pass")
        await _until_passed(tries, winner)
        for task in (*tries, winner):
            task.cancel()
    return passed.is_set()


async def _until_passed(tries: list[asyncio.Task[None]], winner: asyncio.Task[bool]) -> None:
    """Return when one passed, or all are over."""
    left: set[asyncio.Task[None] | asyncio.Task[bool]] = {*tries, winner}
    while not winner.done() and len(left) > 1:
        _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
