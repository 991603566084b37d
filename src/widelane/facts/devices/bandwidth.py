"""Memory bandwidth of this machine, measured: a read and a copy over far more than its caches hold, on all cores.

After McCalpin's STREAM (https://www.cs.virginia.edu/stream/ref.html): buffers of at least four times the last-level
cache, the best of several passes, and bytes counted as the program names them (a copy reads one byte and writes one;
what the cache reads before it overwrites a line is not counted). It is the CPU's road to memory. On unified memory
that is the same memory that the GPU reads, though the GPU may use more of it; on a graphics card's machine it says
nothing about the card.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol

from widelane.clock import Clock
from widelane.errors import WidelaneError
from widelane.facts.devices.cpu import cores_allowed
from widelane.facts.devices.last_level_cache import last_level_cache_bytes
from widelane.facts.devices.local import PROC, SYS
from widelane.facts.devices.machine_files import (
    Sysctl,
    memory_available_bytes,
    memory_limit_left_bytes,
    sysctl_int,
    system_sysctl,
)
from widelane.facts.devices.measured_bandwidth import MeasuredBandwidth
from widelane.facts.devices.memory_passes import MemoryPasses, Passes

CACHE_FACTOR: Final = 4
"""STREAM's rule: each array at least four times the caches."""
LEAST_BUFFER_BYTES: Final = 512 * 2**20
"""Where no cache size is told; above the largest known last-level caches of desktops and Macs (96 MB) all the same."""
MOST_BUFFER_BYTES: Final = 8 * 2**30
MOST_SHARE_OF_FREE: Final = 0.25
SECONDS: Final = 2.0
LEAST_PASSES: Final = 3
MOST_PASSES: Final = 1000
_PLAUSIBLE_BYTES_S: Final = (1e8, 2e13)
"""From slower than any machine that loads a model to above any memory: outside, the clock or the passes are broken."""


class _Opens(Protocol):
    """What makes the passes; `MemoryPasses.opened`."""

    def __call__(self, buffer_bytes: int, threads: int) -> AbstractContextManager[Passes]: ...


def measure_bandwidth(
    *,
    clock: Clock,
    seconds: float = SECONDS,
    progress: Callable[[float], None] | None = None,
    sys_root: Path = SYS,
    proc_root: Path = PROC,
    sysctl: Sysctl = system_sysctl,
    opened: _Opens = MemoryPasses.opened,
) -> MeasuredBandwidth:
    """Read and copy passes for about `seconds`, at least three of each.

    Args:
        progress: told the share that is done, 0 … 1.
        sys_root, proc_root, sysctl: where the cache and the free memory are read.
        opened: makes the passes.

    Raises:
        WidelaneError: there is too little free memory to get beyond the caches, or a pass failed.
    """
    cache_bytes = last_level_cache_bytes(sys_root, sysctl)
    wanted = buffer_bytes(cache_bytes, free_memory_bytes(sys_root, proc_root, sysctl))
    threads = cores_allowed()
    with opened(wanted, threads) as passes:
        size = passes.buffer_bytes
        reads_s, copies_s = _timed(passes, clock, seconds, progress)
    read_bytes_s, copy_bytes_s = size / min(reads_s), size / min(copies_s)  # a copy reads half and writes half
    return MeasuredBandwidth(
        read_bytes_s=read_bytes_s,
        copy_bytes_s=copy_bytes_s,
        threads=threads,
        buffer_bytes=size,
        cache_bytes=cache_bytes,
        passes=len(reads_s),
        doubt=_doubt(read_bytes_s, copy_bytes_s, reads_s),
    )


def buffer_bytes(cache_bytes: int | None, free_bytes: int | None) -> int:
    """Bytes to go through: beyond the caches, and at most a quarter of the free memory.

    Raises:
        WidelaneError: both cannot be had.
    """
    wanted = min(MOST_BUFFER_BYTES, max(LEAST_BUFFER_BYTES, CACHE_FACTOR * (cache_bytes or 0)))
    if free_bytes is None:
        return wanted
    allowed = int(free_bytes * MOST_SHARE_OF_FREE)
    needed = max(LEAST_BUFFER_BYTES // 8, 2 * (cache_bytes or 0))
    if allowed < needed:
        raise WidelaneError(
            f"Measuring bandwidth needs {needed / 2**20:.0f} MiB to get beyond the caches, and a quarter of the free "
            f"memory is {allowed / 2**20:.0f} MiB. Close something, or state the bandwidth."
        )
    return min(wanted, allowed)


def free_memory_bytes(sys_root: Path, proc_root: Path, sysctl: Sysctl) -> int | None:
    """Memory that can be taken without swapping, a container's limit included; None where it is not told."""
    pages, page_bytes = sysctl_int(sysctl, "vm.page_free_count"), sysctl_int(sysctl, "hw.pagesize")
    told = [
        memory_available_bytes(proc_root),
        memory_limit_left_bytes(sys_root),
        pages * page_bytes if pages and page_bytes else None,
    ]
    return min((each for each in told if each is not None), default=None)


def _timed(
    passes: Passes, clock: Clock, seconds: float, progress: Callable[[float], None] | None
) -> tuple[list[float], list[float]]:
    """Seconds of each read and each copy, in turn, so that both see the same disturbances."""
    begun_ns = clock.now_ns()
    reads_s: list[float] = []
    copies_s: list[float] = []
    while len(reads_s) < MOST_PASSES:
        reads_s.append(_seconds(passes.read, clock))
        copies_s.append(_seconds(passes.copy, clock))
        done = min((clock.now_ns() - begun_ns) / 1e9 / seconds if seconds > 0 else 1.0, len(reads_s) / LEAST_PASSES)
        if progress is not None:
            progress(min(1.0, done))
        if done >= 1.0:
            break
    return reads_s, copies_s


def _seconds(work: Callable[[], None], clock: Clock) -> float:
    begun_ns = clock.now_ns()
    work()
    return max(1, clock.now_ns() - begun_ns) / 1e9


def _doubt(read_bytes_s: float, copy_bytes_s: float, reads_s: list[float]) -> str | None:
    """A read moves half of what a copy moves, so it cannot be much slower; and the passes should agree."""
    low, high = _PLAUSIBLE_BYTES_S
    if not low <= read_bytes_s <= high or not low <= copy_bytes_s <= high:
        return "no memory is that slow or that fast: the clock or the passes cannot be trusted"
    if read_bytes_s < copy_bytes_s / 2:
        return "reading came out at less than half the copy's rate: other programs disturbed it"
    ordered = sorted(reads_s)
    if ordered[len(ordered) // 2] > 1.5 * ordered[0]:
        return "half the passes took over 1.5 times the best one: the machine is busy, and more may be possible"
    return None
