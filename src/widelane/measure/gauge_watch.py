"""What the server itself says while a level runs: preemptions, use of its KV pool, and when it is idle again."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from widelane.engines.engine import Engine, Gauges
from widelane.errors import CallError

SETTLE_S = 2.0
"""How long cut-off calls may take to leave the server before the next level."""
_SETTLE_STEP_S = 0.1


class Told(NamedTuple):
    """What the server said of one window; None where it does not tell."""

    preemptions: float | None
    kv_usage: float | None


class GaugeWatch:
    """Reads the gauges in between and keeps what a window needs. A server that tells nothing is asked once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asks = True
        self._preemptions: float | None = None
        self._at_last_take: float | None = None
        self._kv_usage: float | None = None

    async def begin(self) -> None:
        """Read the counters that differences are taken from; what the pool held before does not count."""
        await self.poll()
        self._at_last_take, self._kv_usage = self._preemptions, None

    async def poll(self) -> None:
        """Read the gauges once."""
        if not self._asks:
            return
        gauges = await _read(self._engine)
        if gauges is None:
            return  # it may be too busy to answer now
        self._asks = gauges.preemptions_total is not None or gauges.kv_usage is not None
        if gauges.preemptions_total is not None:
            self._preemptions = gauges.preemptions_total
        if gauges.kv_usage is not None:
            self._kv_usage = max(self._kv_usage or 0.0, gauges.kv_usage)

    async def take(self) -> Told:
        """What happened since this was last asked for, with one more reading."""
        await self.poll()
        before, now, usage = self._at_last_take, self._preemptions, self._kv_usage
        self._at_last_take, self._kv_usage = now, None
        return Told(None if before is None or now is None else now - before, usage)


async def settle(engine: Engine) -> None:
    """Wait until the cut-off calls have left the server, as far as it tells; a little while at most."""
    for _ in range(round(SETTLE_S / _SETTLE_STEP_S)):
        gauges = await _read(engine)
        if gauges is None or not (gauges.running or gauges.waiting):
            return
        await asyncio.sleep(_SETTLE_STEP_S)


async def _read(engine: Engine) -> Gauges | None:
    try:
        return await engine.gauges()
    except CallError:
        return None
