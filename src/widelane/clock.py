"""Time as an argument. Nothing else in the package reads a clock."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Where a component gets its time from."""

    def now_ns(self) -> int:
        """Monotonic nanoseconds; only differences mean anything."""
        ...

    def wall_s(self) -> float:
        """Seconds since 1970, only to say when a run happened."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def now_ns(self) -> int:
        return time.perf_counter_ns()

    def wall_s(self) -> float:
        return time.time()


class LoopClock:
    """The running event loop's time: virtual under a virtual-time loop.

    `epoch_s` is the wall time at loop time zero, so that a test can say what day it is.
    """

    __slots__ = ("_epoch_s",)

    def __init__(self, epoch_s: float = 0.0) -> None:
        self._epoch_s = epoch_s

    def now_ns(self) -> int:
        return int(asyncio.get_running_loop().time() * 1e9)

    def wall_s(self) -> float:
        return self._epoch_s + asyncio.get_running_loop().time()
