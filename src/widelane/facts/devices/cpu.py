"""The CPU of this machine as a device: its name, its cores and its memory. Its bandwidth is for measuring.

The number of memory channels is not told to ordinary users on any of the systems, so no nominal bandwidth is made up.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Final

from widelane.facts.devices.device import Device, DeviceKind, Lookup
from widelane.facts.devices.machine_files import (
    Sysctl,
    memory_limit_bytes,
    memory_total_bytes,
    read_text,
    sysctl_int,
    sysctl_text,
)
from widelane.facts.devices.table import GIB, USABLE_CPU

UNKNOWN_MEMORY_BYTES: Final = 8 * GIB
"""Assumed, and said so, on a machine that does not tell its memory."""


def cpu_device(sys_root: Path, proc_root: Path, sysctl: Sysctl) -> Lookup:
    """The CPU; there always is one."""
    named = _name(proc_root, sysctl)
    installed = memory_total_bytes(proc_root) or sysctl_int(sysctl, "hw.memsize")
    memory_bytes = installed or UNKNOWN_MEMORY_BYTES
    limit = memory_limit_bytes(sys_root)
    limited = limit is not None and limit < memory_bytes
    usable_bytes = limit if limit is not None and limited else int(memory_bytes * USABLE_CPU)
    notes = ["bandwidth not stated by the machine: measure it, or name a cpu-… row of the table"]
    if limited:
        notes.append("usable memory is the container's limit")
    if installed is None:
        notes.append("the machine does not tell its memory; 8 GiB assumed")
    device = Device(
        name=named,
        kind=DeviceKind.CPU,
        memory_bandwidth_bytes_s=None,
        memory_bytes=memory_bytes,
        usable_memory_bytes=usable_bytes,
        source="/proc/cpuinfo, /proc/meminfo or sysctl",
        note="; ".join(notes),
    )
    cores = cores_allowed()
    return Lookup(device, f"the CPU, {cores} core{'s' if cores > 1 else ''} that this process may use")


def cores_allowed() -> int:
    """Logical cores that this process may run on, at least 1."""
    if hasattr(os, "sched_getaffinity"):  # Linux only
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _name(proc_root: Path, sysctl: Sysctl) -> str:
    """`model name` on x86, the board's name on Arm boards, sysctl's on macOS, else the architecture."""
    match = re.search(r"^model name\s*:\s*(\S.*)$", read_text(proc_root / "cpuinfo") or "", re.MULTILINE)
    named = match[1] if match else read_text(proc_root / "device-tree/model")
    return named or sysctl_text(sysctl, "machdep.cpu.brand_string") or f"{platform.machine() or 'unknown'} CPU"
