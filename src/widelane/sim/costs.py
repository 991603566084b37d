"""Step times from arithmetic: what the model moves and computes over how fast the machine does it.

A step that only decodes is `plan.step_time`'s. One that reads prompts beside it computes all tokens in one pass: the
weights and the experts that they visit are read once, while the arithmetic of the linear layers goes on.

    mixed = sqrt(reading² + arithmetic²) + attention of the prompts + caches + states + overhead

The square root is a soft maximum: one side hides behind the other where it is much shorter, and both show where they
are alike. The calibration rows do not tell it from a sum or a plain maximum (open-loop TPOT 11 to 12 % off with each).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from widelane.facts.model import ModelFacts
from widelane.plan.outlook import Outlook
from widelane.plan.prefill import PrefillRates, prefill_attention_seconds, prefill_rates_for
from widelane.plan.step_time import StepCost, StepParts, StepRates, step_parts
from widelane.sim.cost_model import PromptChunk, StepLine

LEAST_ARITHMETIC = 0.25
"""Of a measured prefill at least this share is taken for arithmetic, so that a longer prompt always takes longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCosts:
    """The cost model of one model on one machine with one engine.

    Attributes:
        step, rates: of decode steps.
        prefill: arithmetic reached in prompts.
        facts: for the attention of prompts; None takes that of decoding, for a model of which only `step` is known.
        scale: times the predicted length of everything but the arithmetic of prompts (see `calibrated`).
    """

    step: StepCost
    rates: StepRates
    prefill: PrefillRates
    facts: ModelFacts | None = None
    scale: float = 1.0

    def decode_line(self, batch: int, context_tokens: float, draft_depth: int) -> StepLine:
        parts = step_parts(self.step, self.rates, batch=batch, context=0.0, draft_depth=draft_depth)
        cache = self._cache_line(batch, context_tokens)
        return StepLine(
            base_s=(sum(parts) + cache.base_s) * self.scale,
            per_token_s=cache.per_token_s * self.scale,
            until_tokens=cache.until_tokens,
        )

    def mixed_s(self, chunks: Sequence[PromptChunk], batch: int, context_tokens: float, draft_depth: int) -> float:
        beside = self._beside(chunks, batch, context_tokens, draft_depth)
        return math.hypot(beside.reading_s, self._arithmetic_s(beside.tokens)) + beside.rest_s

    def prompt_s(self, tokens: int) -> float:
        """Seconds of a step that reads one prompt of so many tokens and nothing else."""
        return self.mixed_s([PromptChunk(tokens, 0)], 0, 0.0, 0)

    def _arithmetic_s(self, tokens: float) -> float:
        return 2.0 * self.step.active_parameters * tokens / self.prefill.linear_flops

    def _beside(self, chunks: Sequence[PromptChunk], batch: int, context_tokens: float, draft_depth: int) -> _Beside:
        tokens = sum(chunk.tokens for chunk in chunks) + batch * (1 + draft_depth)
        wide = step_parts(self.step, self.rates, batch=max(1, tokens), context=0.0)
        decoding = NOTHING
        cache_s = 0.0
        if batch:
            decoding = step_parts(self.step, self.rates, batch=batch, context=0.0, draft_depth=draft_depth)
            cache_s = self._cache_line(batch, context_tokens).seconds(context_tokens)
        attention_s = sum(self._attention_s(chunk) for chunk in chunks)
        return _Beside(
            tokens=tokens,
            reading_s=(max(wide.weights_s, decoding.weights_s) + wide.experts_s) * self.scale,
            rest_s=attention_s + (cache_s + decoding.state_s + wide.overhead_s) * self.scale,
        )

    def _attention_s(self, chunk: PromptChunk) -> float:
        if self.facts is not None:
            return prefill_attention_seconds(self.facts, self.prefill, tokens=chunk.tokens, depth=chunk.depth)
        flops = self.step.attention_flops(chunk.depth + chunk.tokens / 2.0)
        return chunk.tokens * flops / self.prefill.attention_flops

    def _cache_line(self, batch: int, context_tokens: float) -> StepLine:
        """The attention of a step: its bytes or its arithmetic, whichever is longer at this context."""
        step, rates = self.step, self.rates
        until = batch * step.window if step.window and context_tokens < batch * step.window else math.inf
        reached = rates.efficiency * rates.bandwidth_bytes_s
        moved = _line(step.kv_bytes_per_token / reached, step.kv_bytes_per_token_window / reached, step, batch, until)
        if not rates.attention_flops_s:
            return moved
        lasting = step.attention_flops_per_token / rates.attention_flops_s
        sliding = step.attention_flops_per_token_window / rates.attention_flops_s
        return _upper(moved, _line(lasting, sliding, step, batch, until), context_tokens)


class _Beside(NamedTuple):
    """A step with prompts but for its arithmetic: tokens computed, what is read meanwhile, and what comes on top."""

    tokens: int
    reading_s: float
    rest_s: float


NOTHING = StepParts(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def plan_costs(outlook: Outlook) -> PlanCosts:
    """The costs of a setup on its machine."""
    request, cost = outlook.request, outlook.cost
    return PlanCosts(
        step=cost,
        rates=outlook.expected.rates,
        prefill=prefill_rates_for(request.device, request.engine, experts=cost.n_experts > 0).rates,
        facts=outlook.setup.model,
    )


def calibrated(
    costs: PlanCosts,
    *,
    step_s: float,
    context_tokens: float,
    prefill_tok_s: float,
    prompt_tokens: int,
    draft_depth: int = 0,
) -> PlanCosts:
    """The same costs, scaled to what one request alone was measured to do.

    Args:
        step_s: seconds of a decode step of one request that holds `context_tokens`, with so many tokens drafted.
        prefill_tok_s: prompt tokens/s of one prompt of `prompt_tokens`.
    """
    predicted_s = costs.decode_line(1, context_tokens, draft_depth).seconds(context_tokens)
    scaled = replace(costs, scale=costs.scale * step_s / predicted_s)
    beside = scaled._beside([PromptChunk(prompt_tokens, 0)], 0, 0.0, 0)
    measured_s = prompt_tokens / prefill_tok_s
    left_s = max(0.0, measured_s - beside.rest_s)
    arithmetic_s = max(LEAST_ARITHMETIC * measured_s, math.sqrt(max(0.0, left_s**2 - beside.reading_s**2)))
    flops = 2.0 * costs.step.active_parameters * prompt_tokens / arithmetic_s
    return replace(scaled, prefill=scaled.prefill._replace(linear_flops=flops))


def _line(lasting_s: float, sliding_s: float, step: StepCost, batch: int, until: float) -> StepLine:
    """Seconds a token of context in layers that keep every token, and in window layers while these are not full."""
    if math.isfinite(until):
        return StepLine(0.0, lasting_s + sliding_s, until)
    return StepLine(batch * step.window * sliding_s, lasting_s, math.inf)


def _upper(one: StepLine, other: StepLine, context_tokens: float) -> StepLine:
    """The longer of two lines at this context, up to where the other one overtakes it."""
    longer, shorter = sorted((one, other), key=lambda line: (line.seconds(context_tokens), line.per_token_s))[::-1]
    if shorter.per_token_s <= longer.per_token_s:
        return longer
    crossing = (longer.base_s - shorter.base_s) / (shorter.per_token_s - longer.per_token_s)
    if crossing <= context_tokens:  # they meet here, as far as rounding can tell
        return shorter
    return longer._replace(until_tokens=min(longer.until_tokens, crossing))
