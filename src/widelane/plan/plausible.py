"""Measurements that no machine can produce: what to look at before a row is believed.

Three checks (each gives a sentence, or None): more bytes than the memory can deliver, a rate that stands out of its own
series, and a total that does not fit the rate of one request.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from widelane.plan.step_time import StepCost

FAR_FROM_TOTAL = 1.9
"""Assumed border: a burst of five that includes its prefill showed 1.7 between rate x width and total, requests queued
behind the slots show 2 and more."""
OUT_OF_SERIES = 3.0
"""Times its series' median: what a prefix-cache hit looks like in a series of prefill rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why a measurement is not what it seems.

    Attributes:
        code: `above-bandwidth`, `out-of-series`, `total-does-not-fit`.
        sentence: with figures, and what is likely behind it.
    """

    code: str
    sentence: str


def bytes_moved(cost: StepCost, *, batch: int, context: float) -> float:
    """Bytes that one step must move at least: the weights once, each cache once, each state read and written.

    Of routed experts those of one token count: how many a batch shares is not known for sure.
    """
    experts = cost.expert_bytes * cost.top_k / cost.n_experts if cost.n_experts else 0.0
    return cost.dense_bytes + experts + batch * (cost.kv_bytes(context) + 2.0 * cost.state_bytes)


def above_bandwidth(
    cost: StepCost, bandwidth_bytes_s: float, step_s: float, *, batch: int, context: float
) -> Doubt | None:
    """Doubt when a step of `step_s` seconds moved more than the nominal bandwidth allows.

    Raises:
        ValueError: `step_s` is not above 0.
    """
    if not step_s > 0:
        raise ValueError(f"a step takes longer than 0 s, not {step_s!r}")
    least = bytes_moved(cost, batch=batch, context=context)
    share = least / step_s / bandwidth_bytes_s
    if share <= 1.0:
        return None
    return Doubt(
        code="above-bandwidth",
        sentence=(
            f"A step of {step_s * 1e3:.3g} ms would move {least / 1e9:.3g} GB, {share * 100:.0f} % of the nominal "
            f"{bandwidth_bytes_s / 1e9:.4g} GB/s: the batch, the weights or the rate is not what was stated, or "
            "drafted tokens were counted as steps."
        ),
    )


def total_does_not_fit(request_tok_s: float, width: int, total_tok_s: float) -> Doubt | None:
    """Doubt when the rate of one request times the requests in flight is far from the total.

    Raises:
        ValueError: the total is not above 0.
    """
    if not total_tok_s > 0:
        raise ValueError(f"a total is above 0 tok/s, not {total_tok_s!r}")
    implied = request_tok_s * width
    if 1.0 / FAR_FROM_TOTAL <= implied / total_tok_s <= FAR_FROM_TOTAL:
        return None
    if implied > total_tok_s:
        cause = f"about {total_tok_s / request_tok_s:.0f} were decoding at a time, or the total includes prefill"
    else:
        cause = "the total counts more than these requests, or the rate includes waiting"
    return Doubt(
        code="total-does-not-fit",
        sentence=(
            f"{width} requests at {request_tok_s:.4g} tok/s are {implied:.4g} tok/s, {total_tok_s:.4g} tok/s were "
            f"reported in total: {cause}."
        ),
    )


def out_of_series(rates: Sequence[float]) -> list[tuple[int, Doubt]]:
    """Members of a series of like measurements that are several times its median, by their index."""
    if len(rates) < 3:
        return []
    usual = statistics.median(rates)
    return [
        (
            index,
            Doubt(
                code="out-of-series",
                sentence=(
                    f"{rate:.4g} tok/s is {rate / usual:.1f} times the median of its series ({usual:.4g} tok/s): a "
                    "prompt that the prefix cache already held looks like this."
                ),
            ),
        )
        for index, rate in enumerate(rates)
        if usual > 0 and rate > OUT_OF_SERIES * usual
    ]
