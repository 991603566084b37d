"""How many cores this process may really use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import psutil

CGROUP_CPU_MAX: Final = Path("/sys/fs/cgroup/cpu.max")


def usable_cores(cpu_max: Path = CGROUP_CPU_MAX) -> int:
    """Physical cores, fewer where the process is bound to some of them or a container has a CPU quota; at least 1.

    Args:
        cpu_max: where Linux tells the quota (cgroup v2); a system without such a file has none.
    """
    logical = os.cpu_count() or 1
    counts = [psutil.cpu_count(logical=False) or logical]
    if hasattr(os, "sched_getaffinity"):  # Linux only
        counts.append(len(os.sched_getaffinity(0)))
    quota = _quota_cores(cpu_max)
    if quota is not None:
        counts.append(quota)
    return max(1, min(counts))


def _quota_cores(cpu_max: Path) -> int | None:
    """Whole cores of a quota such as `200000 100000` (microseconds a period); None for `max …` or no file."""
    try:
        quota, period = cpu_max.read_text().split()
        return int(quota) // int(period)
    except (OSError, ValueError):
        return None
