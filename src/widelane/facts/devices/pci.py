"""AMD and Intel cards of this machine, read from `/sys/class/drm` and `/sys/class/kfd` (Linux).

A card of the table is known by its PCI ids. Another counts when it has memory of its own worth planning for; small
carve-outs belong to the graphics of a CPU, which shares the CPU's memory and gains nothing in bandwidth.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from widelane.facts.devices.device import Device, DeviceKind, Lookup
from widelane.facts.devices.driver_names import AMD, INTEL, pci_row, same_memory
from widelane.facts.devices.machine_files import read_int, read_text
from widelane.facts.devices.table import GIB, USABLE_GPU, device_names, find_device

_LEAST_OWN_MEMORY_BYTES: Final = 3 * GIB
"""Below this an unknown GPU is taken for the graphics part of a CPU (carve-outs are 0.5 to 2 GiB by default)."""
_MAKERS: Final = {AMD: "AMD", INTEL: "Intel"}
_GDDR6_TRANSFERS: Final = 16
"""Transfers a clock: a 7900 XTX's 1249 MHz and 384 bits give 959 GB/s, a 9070 XT's 1258 MHz and 256 bits 644 GB/s."""
_GDDR6_CHIPS: Final = range(100300, 130000)
"""`gfx_target_version` of RDNA 2 to 4, whose cards all have GDDR6. HBM cards (gfx9) differ among each other."""
_MOST_ENTRIES: Final = 256


@dataclass(frozen=True, slots=True)
class _Card:
    folder: Path
    vendor: int
    device: int
    revision: int | None
    name: str
    memory_bytes: int | None
    shared_bytes: int | None


def pci_device(sys_root: Path, system_memory_bytes: int | None) -> Lookup:
    """The AMD or Intel card with the most memory that can hold a model.

    Args:
        sys_root: where sysfs is mounted.
        system_memory_bytes: what Linux manages, for a GPU that shares it.
    """
    cards = list(_cards(sys_root))
    if not cards:
        return Lookup(None, "AMD, Intel: /sys/class/drm lists no such card")
    found = [(card, device) for card in cards if (device := _device(sys_root, card, system_memory_bytes)) is not None]
    if not found:
        return Lookup(None, f"AMD, Intel: {cards[0].name} is the graphics part of a CPU, or does not tell its memory")
    card, device = max(found, key=lambda pair: pair[1].memory_bytes)
    how = f"PCI ids {card.vendor:04x}:{card.device:04x} in /sys/class/drm"
    alike = sum(each.name == device.name for _, each in found)
    if alike > 1:
        how += f"; one of {alike} alike"
        how += f" (all together: {alike}x-{device.name})" if device.name in device_names() else ""
    return Lookup(device, how)


def _cards(sys_root: Path) -> Iterator[_Card]:
    try:
        folders = sorted(path for path in (sys_root / "class/drm").iterdir() if re.fullmatch(r"card\d+", path.name))
    except OSError:
        return
    for entry in folders[:_MOST_ENTRIES]:
        folder = entry / "device"
        vendor, device = read_int(folder / "vendor"), read_int(folder / "device")
        if vendor not in _MAKERS or device is None:
            continue
        maker = _MAKERS[vendor]
        memory_bytes = read_int(folder / "mem_info_vram_total") if vendor == AMD else _largest_window(folder)
        yield _Card(
            folder=folder,
            vendor=vendor,
            device=device,
            revision=read_int(folder / "revision"),
            name=read_text(folder / "product_name") or f"{maker} GPU {vendor:04x}:{device:04x}",
            memory_bytes=memory_bytes,
            shared_bytes=read_int(folder / "mem_info_gtt_total"),
        )


def _largest_window(folder: Path) -> int | None:
    """Bytes of the largest memory window (BAR) of a PCI device: all of an Intel card's memory with resizable BARs."""
    sizes = []
    for line in (read_text(folder / "resource") or "").splitlines():
        try:
            start, end, _ = (int(word, 16) for word in line.split())
        except ValueError:
            continue
        sizes.append(end - start + 1 if end > start else 0)
    return max(sizes, default=0) or None


def _device(sys_root: Path, card: _Card, system_memory_bytes: int | None) -> Device | None:
    row = pci_row(card.vendor, card.device, card.revision)
    known = find_device(row) if row is not None else None
    if known is not None and known.kind is DeviceKind.UNIFIED:
        return _shared(known, card, system_memory_bytes)
    own_bytes = card.memory_bytes or 0
    if known is not None and card.vendor == INTEL and own_bytes < known.memory_bytes / 2:
        return known  # without resizable BARs the window is 256 MB and tells nothing
    if known is not None and same_memory(own_bytes, known.memory_bytes):
        return replace(known, usable_memory_bytes=int(own_bytes * USABLE_GPU))
    if own_bytes < _LEAST_OWN_MEMORY_BYTES:
        return None
    return Device(
        name=card.name,
        kind=DeviceKind.GPU,
        memory_bandwidth_bytes_s=_gddr6_bytes_s(sys_root, card),
        memory_bytes=own_bytes,
        usable_memory_bytes=int(own_bytes * USABLE_GPU),
        source="/sys/class/drm: memory; /sys/class/kfd: memory clock x bus width",
        note="not in the device table; its arithmetic rates are not known",
    )


def _shared(known: Device, card: _Card, system_memory_bytes: int | None) -> Device:
    """A GPU in the CPU's memory: its carve-out, and what the driver may map of the rest (GTT)."""
    own_bytes = card.memory_bytes or 0
    installed = own_bytes + (system_memory_bytes or 0)
    usable = own_bytes + card.shared_bytes if card.shared_bytes else known.usable_memory_bytes
    if not installed or same_memory(installed, known.memory_bytes):
        return replace(known, usable_memory_bytes=usable)
    usable = min(installed, usable) if usable is not None else installed
    return replace(known, memory_bytes=installed, usable_memory_bytes=usable)


def _gddr6_bytes_s(sys_root: Path, card: _Card) -> float | None:
    """Nominal bandwidth of an AMD card as the compute driver describes its memory, None where that does not say."""
    try:
        nodes = sorted((sys_root / "class/kfd/kfd/topology/nodes").iterdir())[:_MOST_ENTRIES]
    except OSError:
        return None
    for node in nodes:
        facts = _properties(node / "properties")
        if (facts.get("vendor_id"), facts.get("device_id")) != (card.vendor, card.device):
            continue
        memory = _properties(node / "mem_banks/0/properties")
        width, clock_mhz = memory.get("width", 0), memory.get("mem_clk_max", 0)
        if facts.get("gfx_target_version", 0) in _GDDR6_CHIPS and width and clock_mhz:
            return width / 8 * clock_mhz * 1e6 * _GDDR6_TRANSFERS
    return None


def _properties(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in (read_text(path) or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
