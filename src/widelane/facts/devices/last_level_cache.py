"""How much of what is read again may come from a cache instead of memory."""

from __future__ import annotations

from pathlib import Path

from widelane.facts.devices.machine_files import Sysctl, read_int, read_text, sysctl_int

_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
_SYSCTLS = ("hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize")
_MOST_CORES = 4096


def last_level_cache_bytes(sys_root: Path, sysctl: Sysctl) -> int | None:
    """Bytes of all caches of the last level together (a server CPU has one a core group), None where none is told.

    Linux: `/sys/devices/system/cpu/cpu*/cache`. macOS: sysctl, which does not tell the system-level cache.
    """
    caches: dict[tuple[int, str], int] = {}  # (level, cores that share it): bytes
    try:
        cores = sorted((sys_root / "devices/system/cpu").glob("cpu[0-9]*"))[:_MOST_CORES]
    except OSError:
        cores = []
    for core in cores:
        for index in sorted((core / "cache").glob("index[0-9]*")):
            level, size = read_int(index / "level"), _size_bytes(read_text(index / "size"))
            if level is not None and size:
                caches[level, read_text(index / "shared_cpu_list") or core.name] = size
    if caches:
        last = max(level for level, _ in caches)
        return sum(size for (level, _), size in caches.items() if level == last)
    return next((size for name in _SYSCTLS if (size := sysctl_int(sysctl, name))), None)


def _size_bytes(text: str | None) -> int | None:
    """`32768K` as bytes."""
    if not text:
        return None
    digits, unit = (text[:-1], _UNITS.get(text[-1], 0)) if not text.isdigit() else (text, 1)
    return int(digits) * unit if digits.isdigit() else None
