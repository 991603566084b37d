"""Step costs times a factor: a machine that works as another one, only longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from widelane.sim.cost_model import CostModel, PromptChunk, StepLine


@dataclass(frozen=True, slots=True)
class Slower:
    """Another cost model with every step `factor` times as long."""

    cost: CostModel
    factor: float

    def decode_line(self, batch: int, context_tokens: float, draft_depth: int) -> StepLine:
        line = self.cost.decode_line(batch, context_tokens, draft_depth)
        return StepLine(line.base_s * self.factor, line.per_token_s * self.factor, line.until_tokens)

    def mixed_s(self, chunks: Sequence[PromptChunk], batch: int, context_tokens: float, draft_depth: int) -> float:
        return self.factor * self.cost.mixed_s(chunks, batch, context_tokens, draft_depth)
