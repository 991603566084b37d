"""How wide the road is: the batch at which a decode step takes twice as long, and what the whole batch gives there."""

from __future__ import annotations

from dataclasses import dataclass

from widelane.plan.step_time import StepCost, StepRates, step_parts, step_seconds

WIDEST = 4096
"""Batches beyond this are not looked at."""
SLOW_DOWN = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """Where a step takes SLOW_DOWN times as long as for one request.

    Attributes:
        doubling_batch: the smallest such batch; None when even WIDEST sequences stay below.
        output_tok_s: tokens/s of the whole batch there (at WIDEST when it is None).
        gain: that over the rate of one request.
        sentence: what kind of model it is, and what width buys here.
    """

    doubling_batch: int | None
    output_tok_s: float
    gain: float
    sentence: str


def width_of(cost: StepCost, rates: StepRates, *, context: float) -> Width:
    """The width of a model on a machine, every sequence holding `context` tokens."""
    alone_s = step_seconds(cost, rates, batch=1, context=context)
    doubling = doubling_batch(cost, rates, context=context)
    batch = WIDEST if doubling is None else doubling
    output_tok_s = batch / step_seconds(cost, rates, batch=batch, context=context)
    gain = output_tok_s * alone_s
    return Width(
        doubling_batch=doubling,
        output_tok_s=output_tok_s,
        gain=gain,
        sentence=_sentence(cost, rates, context=context, batch=doubling, gain=gain),
    )


def doubling_batch(cost: StepCost, rates: StepRates, *, context: float) -> int | None:
    """The smallest batch whose step takes twice that of one request, None up to WIDEST.

    Every batch is looked at: where an engine changes its kernels a wider step can be shorter, so halving the interval
    could miss the first crossing.
    """
    limit_s = SLOW_DOWN * step_seconds(cost, rates, batch=1, context=context)
    return next(
        (batch for batch in range(2, WIDEST + 1) if step_seconds(cost, rates, batch=batch, context=context) >= limit_s),
        None,
    )


def _sentence(cost: StepCost, rates: StepRates, *, context: float, batch: int | None, gain: float) -> str:
    kind = "A mixture of experts" if cost.n_experts else "A dense model"
    if batch is None:
        return f"{kind}: a step takes less than twice as long up to {WIDEST} sequences of {context:,.0f} tokens."
    seen = (
        f"at {batch} sequences of {context:,.0f} tokens a step takes twice as long and the batch gives {gain:.1f} times"
    )
    return f"{kind}: {seen} the tokens of one request; {_cause(cost, rates, context=context, batch=batch)}"


def _cause(cost: StepCost, rates: StepRates, *, context: float, batch: int) -> str:
    """What grew most on the way there."""
    alone = step_parts(cost, rates, batch=1, context=context)
    wide = step_parts(cost, rates, batch=batch, context=context)
    grown = {
        "the further tokens visit further experts, so width is not nearly free.": wide.experts_s - alone.experts_s,
        "each sequence reads its own KV cache, so short contexts go wider.": wide.cache_s - alone.cache_s,
        "each sequence moves its own recurrent state, whatever its length.": wide.state_s - alone.state_s,
        "the arithmetic of so many tokens no longer hides behind the weights.": wide.compute_s - alone.compute_s,
        "steps of more than one token are launched kernel by kernel.": wide.overhead_s - alone.overhead_s,
    }
    return max(grown, key=lambda words: grown[words])
