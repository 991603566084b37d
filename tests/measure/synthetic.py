"""Levels of servers whose limit is known beforehand, computed from first principles (closed loop, Little's law)."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.measure.levels import level, measured
from widelane.measure.profile import Level

OUTPUT_TOKENS = 64
PREFILL_S = 0.05


def served(
    widths: Sequence[int], step_s: Callable[[int], float], *, slots: int | None = None, error: float = 0.02
) -> list[Level]:
    """Rows of a server with `slots` places whose decode step takes `step_s(batch)`.

    A call holds its slot for prefill and 63 further steps; all slots busy, the server ends batch / service calls a
    second; a call beyond the slots waits for the calls before it.
    """
    rows = []
    for width in widths:
        batch = min(width, slots or width)
        service_s = PREFILL_S + (OUTPUT_TOKENS - 1) * step_s(batch)
        rate = batch / service_s
        tok_s = rate * OUTPUT_TOKENS
        rows.append(
            level(
                width,
                tok_s,
                low=tok_s * (1 - error),
                high=tok_s * (1 + error),
                together=batch,
                ttft_s=PREFILL_S + (width - batch) / rate,
                tpot_s=step_s(batch),
            )
        )
    return rows


def with_failures(row: Level, **failures: int) -> Level:
    return replace(row, failures=failures)


def with_pool(row: Level, *, preemptions: int | None = None, kv_usage: float | None = None) -> Level:
    return replace(
        row,
        preemptions=None if preemptions is None else measured(preemptions, "preemptions"),
        kv_usage=None if kv_usage is None else measured(kv_usage, ""),
    )
