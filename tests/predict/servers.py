"""Servers whose right answers are known beforehand: a step costs what the test says."""

from __future__ import annotations

from collections.abc import Callable

from widelane.clock import LoopClock
from widelane.predict.server import PredictedServer, slots_figure
from widelane.predict.speedup import CostError
from widelane.testing.fake_engine import FakeServer

EXACT = CostError(low=1.0, high=1.0, words="known exactly")
FITTED = CostError(low=0.8, high=1.3, words="fitted to steps of its like")


def server_of(
    step_s: Callable[[int], float],
    *,
    slots: int = 64,
    prefill_s_per_token: float = 0.0,
    error: CostError = EXACT,
    pool_tokens: int = 1_000_000_000,
) -> PredictedServer:
    """A server that decodes `slots` calls together, a step of `batch` of them in `step_s(batch)`."""
    return PredictedServer(
        words="a server with known costs",
        open_backend=lambda seed: FakeServer(
            LoopClock(),
            slots=slots,
            step_s=step_s,
            prefill_s_per_token=prefill_s_per_token,
            pool_tokens=pool_tokens,
        ),
        slots=slots_figure(slots),
        error=lambda lanes: error,
        replay="known",
    )


def flat(step_s: float) -> Callable[[int], float]:
    """A step takes as long for many as for one: width is free."""
    return lambda batch: step_s


def rising(step_s: float, each: float) -> Callable[[int], float]:
    """Each further sequence adds `each` of the step of one."""
    return lambda batch: step_s * (1 + each * (batch - 1))
