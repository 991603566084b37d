"""What a machine tells in small text files (`/proc`, `/sys`) and through `sysctl`: read, or None."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path
from typing import Final, Protocol

_MOST_BYTES: Final = 1 << 20
"""None of these files is longer; a machine with 1024 cores has 1.5 MB of /proc/cpuinfo, all alike."""
_UNLIMITED: Final = 2**60
"""cgroup v1 writes "no limit" as a number near 2^63."""


class Sysctl(Protocol):
    """One value of the system's table (macOS)."""

    def __call__(self, name: str) -> bytes | None:
        """The raw value, None where there is none of that name."""
        ...


def read_text(path: Path) -> str | None:
    """The file's text, None when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace").strip("\0 \n\t")
    except (OSError, ValueError):
        return None


def read_int(path: Path) -> int | None:
    """The file's number (decimal, or hexadecimal with 0x), None when it holds none."""
    try:
        return int(read_text(path) or "", 0)
    except ValueError:
        return None


def memory_total_bytes(proc: Path) -> int | None:
    """Installed memory that Linux manages (`MemTotal`)."""
    return _meminfo(proc, "MemTotal")


def memory_available_bytes(proc: Path) -> int | None:
    """Memory that a program can take without swapping (`MemAvailable`)."""
    return _meminfo(proc, "MemAvailable")


def memory_limit_bytes(sys_root: Path) -> int | None:
    """The container's limit (cgroup v2, v1), None where there is none."""
    for name in ("fs/cgroup/memory.max", "fs/cgroup/memory/memory.limit_in_bytes"):
        limit = read_int(sys_root / name)
        if limit is not None and limit < _UNLIMITED:
            return limit
    return None


def memory_limit_left_bytes(sys_root: Path) -> int | None:
    """What the container's limit leaves, None where there is no limit."""
    limit = memory_limit_bytes(sys_root)
    used = read_int(sys_root / "fs/cgroup/memory.current")
    if used is None:
        used = read_int(sys_root / "fs/cgroup/memory/memory.usage_in_bytes")
    return None if limit is None else max(0, limit - (used or 0))


def sysctl_text(sysctl: Sysctl, name: str) -> str | None:
    """A text of the table."""
    raw = sysctl(name)
    return None if raw is None else raw.rstrip(b"\0").decode(errors="replace")


def sysctl_int(sysctl: Sysctl, name: str) -> int | None:
    """A number of the table (4 or 8 bytes in the machine's order)."""
    raw = sysctl(name)
    return int.from_bytes(raw, sys.byteorder) if raw is not None and len(raw) in (4, 8) else None


def system_sysctl(name: str) -> bytes | None:
    """`sysctlbyname` of the C library; None on systems without it."""
    try:
        by_name = ctypes.CDLL(None).sysctlbyname
    except (OSError, AttributeError, TypeError):
        return None
    size = ctypes.c_size_t(0)
    if by_name(name.encode(), None, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0 or not 0 < size.value <= 4096:
        return None
    value = ctypes.create_string_buffer(size.value)
    if by_name(name.encode(), value, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return None
    return value.raw[: size.value]


def _meminfo(proc: Path, name: str) -> int | None:
    match = re.search(rf"^{name}:\s+(\d+) kB", read_text(proc / "meminfo") or "", re.MULTILINE)
    return int(match[1]) * 1024 if match else None
