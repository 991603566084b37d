"""The Apple chip of this machine, asked of `sysctl`: which one, how much memory, and how much of it Metal may have."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from widelane.errors import UsageError
from widelane.facts.devices.device import Device, DeviceKind, Lookup
from widelane.facts.devices.machine_files import Sysctl, sysctl_int, sysctl_text
from widelane.facts.devices.table import USABLE_APPLE, find_device

MIB: Final = 2**20

_SMALLER_BANDWIDTH: Final = {
    # (chip, performance cores of the smaller version): bytes/s. The chip with fewer GPU cores has fewer memory
    # channels; the count of performance cores tells the two apart (the table's notes give the bandwidth).
    ("apple-m3-max", 10): 300e9,
    ("apple-m4-max", 10): 410e9,
}


def apple_device(sysctl: Sysctl) -> Lookup:
    """The chip, with this machine's own memory in place of the table's."""
    chip = sysctl_text(sysctl, "machdep.cpu.brand_string")
    memory_bytes = sysctl_int(sysctl, "hw.memsize")
    if chip is None or memory_bytes is None or not chip.startswith("Apple "):
        return Lookup(None, f"Apple: sysctl names no Apple chip ({chip or 'no answer'})")
    limit_mib = sysctl_int(sysctl, "iogpu.wired_limit_mb")  # 0 unless someone set it
    usable_bytes = min(memory_bytes, limit_mib * MIB) if limit_mib else int(memory_bytes * USABLE_APPLE)
    how = f"sysctl names it {chip}"
    if limit_mib:
        how += f"; iogpu.wired_limit_mb is set to {limit_mib}"
    try:
        known = find_device(chip)
    except UsageError:
        known = Device(
            name=chip,
            kind=DeviceKind.UNIFIED,
            memory_bandwidth_bytes_s=None,
            memory_bytes=memory_bytes,
            source="sysctl",
            note="not in the device table; its bandwidth is not known: measure it, or state it",
        )
    known = _version(known, sysctl_int(sysctl, "hw.perflevel0.physicalcpu"))
    return Lookup(replace(known, memory_bytes=memory_bytes, usable_memory_bytes=usable_bytes), how)


def _version(device: Device, performance_cores: int | None) -> Device:
    smaller = _SMALLER_BANDWIDTH.get((device.name, performance_cores or 0))
    return device if smaller is None else replace(device, memory_bandwidth_bytes_s=smaller)
