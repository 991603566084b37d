"""What a run, and each call of it, may use: tokens and seconds. Pure accounting; the waiting is in `lanes`.

A token is a prompt or an output token as the server counts them. The run's budget is kept by reserving, before a call
is sent, what it may take at most; what it did not take is given back when it ends. So many calls that start at once
do not exceed it together. What remains: a prompt estimate that was short, and calls without max_tokens, for which a
typical length is reserved.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum

from widelane.errors import BudgetExhausted
from widelane.records import ChatRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits; None means no limit.

    Attributes:
        tokens: prompt and output tokens of the whole run, failed attempts included as far as they are known.
        seconds: duration of the whole run, from entering `async with Lanes(...)`.
        call_tokens: prompt and output tokens of one call over all its attempts; `max_tokens` is lowered to keep it.
        call_seconds: duration of one call from its first sending, waits between attempts included.
    """

    tokens: int | None = None
    seconds: float | None = None
    call_tokens: int | None = None
    call_seconds: float | None = None


class Admit(StrEnum):
    """Whether the run's budget lets a call start."""

    START = "start"
    WAIT = "wait"
    """Calls in flight hold reservations; what they give back may be enough."""
    EXHAUSTED = "exhausted"


class Ledger:
    """Tokens spent and reserved in a run.

    Attributes:
        spent: tokens of ended attempts.
        reserved: tokens that the calls in flight may still take.
    """

    def __init__(self, budget: Budget | None) -> None:
        self.budget = budget or Budget()
        self.spent = 0
        self.reserved = 0

    def admit(self, tokens: int) -> Admit:
        """Whether a call that may take this many tokens can start."""
        limit = self.budget.tokens
        if limit is None or self.spent + self.reserved + tokens <= limit:
            return Admit.START
        return Admit.WAIT if self.reserved else Admit.EXHAUSTED

    def reserve(self, tokens: int) -> None:
        """A call starts."""
        self.reserved += tokens

    def settle(self, tokens: int, used: int) -> None:
        """A call that had reserved `tokens` ended and took `used`."""
        self.reserved -= tokens
        self.spent += used

    def run_exhausted(self, tokens: int) -> BudgetExhausted:
        """The error of a call that no longer fits."""
        return BudgetExhausted(
            f"the run's budget of {self.budget.tokens} tokens is used up: {self.spent} spent, and the next call may "
            f"take {tokens}; what was finished is kept"
        )

    def limited(self, request: ChatRequest, prompt_tokens: int, spent_by_call: int) -> ChatRequest:
        """The request with max_tokens lowered to what the call's own budget leaves.

        Raises:
            BudgetExhausted: it leaves nothing.
        """
        limit = self.budget.call_tokens
        if limit is None:
            return request
        left = (limit - spent_by_call - prompt_tokens) // request.n
        if left < 1:
            raise BudgetExhausted(
                f"the call's budget of {limit} tokens is used up: {spent_by_call} spent in earlier attempts, about "
                f"{prompt_tokens} in its prompt"
            )
        if request.max_tokens is not None and request.max_tokens <= left:
            return request
        return dataclasses.replace(request, max_tokens=left)
