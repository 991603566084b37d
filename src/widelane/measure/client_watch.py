"""What the client itself costs while it measures: CPU share and event-loop lag.

A client that cannot keep up reports its own queue as the server's latency. The peers that do so print TTFTs of seconds
where the server's truth is 60 ms, so every level carries these two figures, and a level that the client spoiled has no
others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from widelane.clock import Clock
from widelane.figures import Figure, Origin, unknown
from widelane.measure.profile import ClientShare
from widelane.metrics import percentile

TICK_S = 0.02
MOST_CPU = 0.5
"""Share of one core from which the figures are the client's own: beyond, its queue grows faster than it works."""
MOST_LAG_SHARE = 0.25
"""Share of a TPOT or TTFT that the typical bad lag (p90) may have."""
_LEAST_LAG_S = 0.002
"""Timers of an idle event loop are late by up to a millisecond (epoll's resolution), two on a busy machine."""


class ClientLoad(NamedTuple):
    """What the client used in one window.

    Attributes:
        cpu_share: CPU seconds of this process over wall seconds; None when the window was too short.
        lag_p90_s, lag_p99_s: how late timers ran; None without a tick.
    """

    cpu_share: float | None
    lag_p90_s: float | None
    lag_p99_s: float | None


class ClientWatch:
    """Ticks on the event loop and notes how late each tick is.

    `cpu_s` gives the CPU seconds that this process (all threads, no children) has used.
    """

    def __init__(self, clock: Clock, cpu_s: Callable[[], float] = time.process_time) -> None:
        self._clock = clock
        self._cpu_s = cpu_s
        self._lags_s: list[float] = []
        self._cpu_at = cpu_s()
        self._ns_at = clock.now_ns()

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            due_ns = self._clock.now_ns() + int(TICK_S * 1e9)
            await asyncio.sleep(TICK_S)
            self._lags_s.append(max(0, self._clock.now_ns() - due_ns) / 1e9)

    def take(self) -> ClientLoad:
        """The load since the last time this was asked for."""
        cpu, now_ns = self._cpu_s(), self._clock.now_ns()
        wall = (now_ns - self._ns_at) / 1e9
        load = ClientLoad(
            (cpu - self._cpu_at) / wall if wall > 0 else None,
            percentile(self._lags_s, 0.9),
            percentile(self._lags_s, 0.99),
        )
        self._cpu_at, self._ns_at, self._lags_s = cpu, now_ns, []
        return load


def client_share(load: ClientLoad, tpot_s: float | None, ttft_s: float | None) -> tuple[ClientShare, list[str]]:
    """Whether the client spoiled a level with these typical latencies, and what to say about it, in sentences."""
    said = []
    cpu, lag = load.cpu_share, load.lag_p90_s
    if cpu is not None and cpu > MOST_CPU:
        said.append(f"The client used {cpu:.0%} of its core: figures would be its own, not the server's.")
    if lag is not None and lag > _LEAST_LAG_S:
        for name, value in (("TPOT", tpot_s), ("TTFT", ttft_s)):
            if value and lag > MOST_LAG_SHARE * value:
                said.append(
                    f"The client's event loop ran {lag * 1e3:.3g} ms late (p90) against a {name} of "
                    f"{value * 1e3:.3g} ms: figures would be its own, not the server's."
                )
    share = ClientShare(
        cpu_share=_figure(cpu, ""),
        lag_p99_s=_figure(load.lag_p99_s, "s"),
        spoiled=bool(said),
    )
    return share, said


def pooled(loads: list[ClientLoad]) -> ClientLoad:
    """The typical (median) CPU share and p90 lag over the windows of a level, and the worst p99."""
    return ClientLoad(
        percentile([load.cpu_share for load in loads if load.cpu_share is not None], 0.5),
        percentile([load.lag_p90_s for load in loads if load.lag_p90_s is not None], 0.5),
        max((load.lag_p99_s for load in loads if load.lag_p99_s is not None), default=None),
    )


def _figure(value: float | None, unit: str) -> Figure:
    if value is None:
        return unknown(unit, "the level was too short to tell", Origin.MEASURED)
    return Figure(value, unit, Origin.MEASURED)
