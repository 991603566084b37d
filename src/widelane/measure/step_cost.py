"""What one more sequence costs a decode step, and whether bytes or arithmetic can explain it. Pure.

A step that decodes B sequences takes about t(B) = a + b*B: a reads the weights once, b is what each sequence adds
(reading its KV cache and recurrent state, and the arithmetic of its token). Near a plateau b*B outweighs a.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from widelane.engines.server_facts import ServerFacts
from widelane.measure.profile import Level, Limit

# KV bytes of one token over the bytes of the weights, the largest met in the model configurations at hand:
# 2.4e-4 for a 135M model in 4 bits with an f16 cache, 2.7e-5 for an 8B model likewise.
_KV_SHARE_SMALL_MODEL = 2.5e-4
_KV_SHARE = 5e-5
_SMALL_PARAMETERS = 3e9
# Recurrent state over weights: 157 MB a sequence against 28 GB, moved up to 18 times a step (llama.cpp's path).
_STATE_SHARE = 0.10
GREW = 1.3
"""TPOT has grown when it is this many times that of the narrowest level: less is within a noisy run's spread."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """t(B) = base + each * B through the narrowest and the widest level.

    Attributes:
        base_s: a, never below zero.
        each_s: b.
        narrow, wide: calls decoding together at the two levels, with their TPOT.
    """

    base_s: float
    each_s: float
    narrow: tuple[float, float]
    wide: tuple[float, float]

    @property
    def growth(self) -> float:
        """TPOT at the wide level over that at the narrow one."""
        return self.wide[1] / self.narrow[1]

    @property
    def share(self) -> float:
        """One sequence's cost over the cost of reading the weights; infinite when the weights cost nothing visible."""
        return self.each_s / self.base_s if self.base_s > 0 else float("inf")


def step_cost(levels: Sequence[Level]) -> StepCost | None:
    """The cost of a step, None below two levels of different width or when TPOT fell."""
    seen = sorted(
        (width, tpot)
        for level in levels
        if (width := level.decoding_together.number) and (tpot := level.tpot_s.p50.number)
    )
    if not seen or seen[-1][0] <= seen[0][0]:
        return None
    (narrow, narrow_s), (wide, wide_s) = seen[0], seen[-1]
    each = (wide_s - narrow_s) / (wide - narrow)
    if each <= 0:
        return None
    return StepCost(max(0.0, narrow_s - each * narrow), each, (narrow, narrow_s), (wide, wide_s))


def name_cost(cost: StepCost, context_tokens: float, facts: ServerFacts | None) -> tuple[Limit, str]:
    """Compute or bandwidth, and why, in one or two sentences that say how sure it is.

    On a plateau the experts of a mixture cannot be the cause (all of them are read already, which adds nothing more),
    so what a sequence adds is either its own bytes or its arithmetic. Its bytes have a bound: the KV cache of its
    context and its recurrent state, as a share of the weights. A cost above that bound must be arithmetic.
    """
    (narrow, narrow_s), (wide, wide_s) = cost.narrow, cost.wide
    seen = (
        f"TPOT grew from {_ms(narrow_s)} with {narrow:.0f} decoding together to {_ms(wide_s)} with {wide:.0f}: "
        f"a step takes about {_ms(cost.base_s)} plus {_ms(cost.each_s)} for each sequence"
    )
    bound, bound_words = _bytes_bound(context_tokens, facts)
    if cost.base_s <= 0:  # the line through two noisy levels leaves nothing for the weights: no share to speak of
        return Limit.COMPUTE, (
            f"TPOT grew from {_ms(narrow_s)} with {narrow:.0f} decoding together to {_ms(wide_s)} with {wide:.0f}, as "
            f"fast as the batch or faster, and {bound_words} cannot explain that: arithmetic sets the step time."
        )
    if cost.share > bound:
        times = "far more" if cost.share > 4 * bound else "more"
        return Limit.COMPUTE, (
            f"{seen}. That is {_share(cost.share)}, {times} than {bound_words} can explain ({bound:.1%} at most), so "
            "arithmetic sets the step time."
        )
    return Limit.BANDWIDTH, (
        f"{seen}. That is {_share(cost.share)}, and {bound_words} could explain up to {bound:.1%}: reading each "
        "sequence's own bytes is the likely limit, arithmetic is not excluded."
    )


def _bytes_bound(context_tokens: float, facts: ServerFacts | None) -> tuple[float, str]:
    """Largest share of the weights' bytes that one sequence can add to a step, and what that is."""
    weights = facts.weights_bytes.number if facts else None
    kv_bytes = _extra(facts, "kv_bytes_per_token")
    parameters = facts.parameters.number if facts else None
    if weights and kv_bytes is not None:
        state = _extra(facts, "state_bytes_per_sequence") or 0.0
        words = f"the KV cache of {context_tokens:.0f} tokens" + (" and the recurrent state" if state else "")
        return (kv_bytes * context_tokens + 2 * state) / weights, words
    each = _KV_SHARE if parameters is not None and parameters >= _SMALL_PARAMETERS else _KV_SHARE_SMALL_MODEL
    if facts is not None and facts.state_dtype.value is not None:
        return each * context_tokens + _STATE_SHARE, f"a KV cache of {context_tokens:.0f} tokens and a recurrent state"
    return each * context_tokens, f"a KV cache of {context_tokens:.0f} tokens"


def _extra(facts: ServerFacts | None, name: str) -> float | None:
    figure = facts.extra.get(name) if facts else None
    return figure.number if figure else None


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _share(share: float) -> str:
    if share > 3:
        return "several times what the weights take"
    return f"{share:.{0 if share >= 0.1 else 1}%} of what the weights take"
