"""A level that was too short for its queue: only calls of the opening burst ended. Pure.

Where all calls decode together, their latencies are those of a burst and are given as such. Where calls wait, a burst's
are far below those of the steady state (its first calls waited for nobody), so they are not given. What a closed loop
must have is: with C calls always in flight and X calls ending a second, a call takes C / X (Little's law), and its
waiting is what remains of that beside its decoding.
"""

from __future__ import annotations

from dataclasses import replace

from widelane.figures import Figure, Origin, unknown
from widelane.measure.known import Known
from widelane.measure.profile import Level, Percentiles

_BURST = "Latencies are those of the opening burst, all calls sent at once: no later call ended in time."
_INFERRED = "by Little's law (calls in flight over calls a second): no call sent after the opening ended in time"
_TOO_SHORT = "no call sent after the opening ended in time"


def opening_only(row: Level, known: Known) -> Level:
    """The row with what can be said of the steady state, and a flag that says what that is."""
    together = row.decoding_together.number
    if together is not None and together >= row.concurrency:
        return replace(row, flags=(_BURST, *row.flags))
    tok_s, tpot_s = row.output_tok_s.number, row.tpot_s.p50.number
    e2e_s = row.concurrency * known.output_tokens / tok_s if tok_s else None
    ttft_s = e2e_s - tpot_s * (known.output_tokens - 1) if e2e_s and tpot_s else None
    if ttft_s is not None and ttft_s <= 0:
        ttft_s = None
    flag = "No call sent after the opening ended in time: TTFT, E2E and queue share are inferred by Little's law."
    return replace(
        row,
        ttft_s=_middle(ttft_s),
        e2e_s=_middle(e2e_s),
        queue_share=_share(ttft_s, e2e_s, known.alone_ttft_s),
        flags=(flag, *row.flags),
    )


def _middle(value: float | None) -> Percentiles:
    none = unknown("s", _TOO_SHORT, Origin.MEASURED)
    p50 = none if value is None else Figure(value, "s", Origin.INFERRED, reason=_INFERRED)
    return Percentiles(p50=p50, p90=none, p99=none)


def _share(ttft_s: float | None, e2e_s: float | None, alone_s: float | None) -> Figure:
    if ttft_s is None or e2e_s is None or alone_s is None:
        return unknown("", _TOO_SHORT, Origin.MEASURED)
    return Figure(max(0.0, ttft_s - alone_s) / e2e_s, "", Origin.INFERRED, reason=_INFERRED)
