"""What a step costs, as the engine asks for it: a line in the context, so that many steps are summed at once.

The engine knows how many sequences a step holds and how many tokens; how long that takes is told by a `CostModel`
(`sim.costs`: from the arithmetic of `plan/`, or from a measured profile).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class StepLine(NamedTuple):
    """The length of a decode step as a straight line: `base_s + per_token_s * context_tokens`.

    Attributes:
        base_s: seconds of a step whose sequences hold nothing.
        per_token_s: further seconds for each token of context, of all sequences together.
        until_tokens: context of all sequences together up to which the line holds; the engine asks again beyond it.
            For a model whose window layers are not full yet; infinite for others. Greater than the context asked for.
    """

    base_s: float
    per_token_s: float
    until_tokens: float = math.inf

    def seconds(self, context_tokens: float) -> float:
        """Seconds of a step whose sequences hold so many tokens together."""
        return self.base_s + self.per_token_s * context_tokens


@dataclass(frozen=True, slots=True)
class PromptChunk:
    """Part of one prompt that a step reads.

    Attributes:
        tokens: prompt tokens read, at least 1.
        depth: tokens of the same sequence that are in the cache already.
    """

    tokens: int
    depth: int


class CostModel(Protocol):
    """Seconds of the steps of one model on one machine with one engine. Pure: the same arguments, the same answer."""

    def decode_line(self, batch: int, context_tokens: float, draft_depth: int) -> StepLine:
        """The line for steps of `batch` sequences that hold `context_tokens` together.

        Args:
            batch: sequences computed, those that only fill up a captured graph included; at least 1.
            context_tokens: tokens in the cache of all sequences together when the first such step begins.
            draft_depth: tokens that each sequence has drafted and checked in the step; 0 without speculation.
        """
        ...

    def mixed_s(self, chunks: Sequence[PromptChunk], batch: int, context_tokens: float, draft_depth: int) -> float:
        """Seconds of a step that reads these parts of prompts and decodes `batch` sequences (0: none) with them.

        The other arguments are those of `decode_line`.
        """
        ...
