"""The NVIDIA card of this machine, asked of its driver through NVML.

A card that the table knows takes the table's figures; another is described by what NVML says: memory, and the nominal
bandwidth 2 * memory clock * bus width / 8 (a double data rate: an RTX 3090's 9751 MHz and 384 bits give 936 GB/s, an
H100's 2619 MHz and 5120 bits give 3352 GB/s).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar, cast

from widelane.facts.devices.device import Device, DeviceKind, Lookup
from widelane.facts.devices.driver_names import nvidia_row, same_memory
from widelane.facts.devices.table import USABLE_GPU, device_names, find_device

_Value = TypeVar("_Value")
_MEMORY_CLOCK: Final = 2
"""NVML_CLOCK_MEM"""
_MOST_CARDS: Final = 1024


class Nvml(Protocol):
    """The part of NVML's bindings (module `pynvml`) that is used."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None: ...  # noqa: N802 - the bindings' own names
    def nvmlShutdown(self) -> None: ...  # noqa: N802
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...  # noqa: N802
    def nvmlDeviceGetName(self, handle: Any) -> str | bytes: ...  # noqa: N802
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...  # noqa: N802
    def nvmlDeviceGetMemoryBusWidth(self, handle: Any) -> int: ...  # noqa: N802
    def nvmlDeviceGetMaxClockInfo(self, handle: Any, kind: int) -> int: ...  # noqa: N802


@dataclass(frozen=True, slots=True)
class _Card:
    """What NVML says of one card; None where it does not (GB10 and Jetson have no memory of their own)."""

    name: str
    memory_bytes: int | None
    bandwidth_bytes_s: float | None


def load_nvml() -> Nvml | None:
    """NVML's bindings, None where they are not installed."""
    try:
        return cast("Nvml", importlib.import_module("pynvml"))
    except ImportError:
        return None


def nvidia_device(nvml: Nvml | None, system_memory_bytes: int | None) -> Lookup:
    """The card with the most memory.

    Args:
        nvml: None where the bindings are missing.
        system_memory_bytes: the memory of machines whose GPU has none of its own.
    """
    if nvml is None:
        return Lookup(None, "NVIDIA: the module pynvml is not installed")
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError, OSError) as error:
        return Lookup(None, f"NVIDIA: {error}")
    try:
        cards = [_card(nvml, index) for index in range(min(_MOST_CARDS, nvml.nvmlDeviceGetCount()))]
    except (nvml.NVMLError, OSError) as error:
        return Lookup(None, f"NVIDIA: the driver does not answer: {error}")
    finally:
        _asked(nvml, nvml.nvmlShutdown)
    if not cards:
        return Lookup(None, "NVIDIA: the driver is here and sees no card")
    card = max(cards, key=lambda each: each.memory_bytes or 0)
    device = _device(card, system_memory_bytes)
    if device is None:
        return Lookup(None, f"NVIDIA: {card.name} does not tell its memory")
    return Lookup(device, _how(card, cards, device))


def _card(nvml: Nvml, index: int) -> _Card:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name = nvml.nvmlDeviceGetName(handle)
    memory = _asked(nvml, lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total))
    width = _asked(nvml, lambda: nvml.nvmlDeviceGetMemoryBusWidth(handle))
    clock_mhz = _asked(nvml, lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, _MEMORY_CLOCK))
    bandwidth = 2.0 * clock_mhz * 1e6 * width / 8 if width and clock_mhz else None
    return _Card(name.decode(errors="replace") if isinstance(name, bytes) else name, memory or None, bandwidth)


def _asked(nvml: Nvml, ask: Callable[[], _Value]) -> _Value | None:
    """The answer, None where this card or driver has none."""
    try:
        return ask()
    except (nvml.NVMLError, AttributeError, OSError):  # AttributeError: bindings older than the function
        return None


def _device(card: _Card, system_memory_bytes: int | None) -> Device | None:
    """The card as the table has it where name and memory agree, else as the driver describes it."""
    row = nvidia_row(card.name)
    known = find_device(row) if row is not None else None
    shared = card.memory_bytes is None or (known is not None and known.kind is DeviceKind.UNIFIED)
    memory_bytes = card.memory_bytes or system_memory_bytes
    if memory_bytes is None:
        return known if shared else None
    # Of memory shared with the system, what the driver or Linux manages is already less than what is installed.
    usable_bytes = memory_bytes if shared else int(memory_bytes * USABLE_GPU)
    if known is not None and same_memory(memory_bytes, known.memory_bytes):
        return replace(known, usable_memory_bytes=usable_bytes)
    return Device(
        name=card.name,
        kind=DeviceKind.UNIFIED if shared else DeviceKind.GPU,
        memory_bandwidth_bytes_s=card.bandwidth_bytes_s,
        memory_bytes=memory_bytes,
        usable_memory_bytes=usable_bytes,
        source="NVML: memory, and bandwidth as memory clock x bus width",
        note="not in the device table; its arithmetic rates are not known",
    )


def _how(card: _Card, cards: list[_Card], device: Device) -> str:
    named = f"NVML names it {card.name}"
    if len(cards) == 1:
        return named
    alike = sum(each.name == card.name for each in cards)
    if alike == len(cards):
        together = f" (all together: {alike}x-{device.name})" if device.name in device_names() else ""
        return f"{named}; one of {alike} alike{together}"
    return f"{named}; the one with the most memory of {len(cards)} different cards"
