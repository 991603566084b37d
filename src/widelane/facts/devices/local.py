"""Which device this machine would run a model on: an NVIDIA card, an Apple chip, an AMD or Intel card, else its CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from widelane.facts.devices.apple import apple_device
from widelane.facts.devices.cpu import cpu_device
from widelane.facts.devices.device import Device, Lookup
from widelane.facts.devices.machine_files import Sysctl, memory_total_bytes, system_sysctl
from widelane.facts.devices.nvidia import Nvml, load_nvml, nvidia_device
from widelane.facts.devices.pci import pci_device

SYS: Final = Path("/sys")
PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDevice:
    """The device of this machine.

    Attributes:
        how: how it was recognised, as half a sentence.
        passed_over: why it is none of the kinds looked for before it, one half-sentence each.
    """

    device: Device
    how: str
    passed_over: tuple[str, ...] = ()


def local_device(
    *,
    sys_root: Path = SYS,
    proc_root: Path = PROC,
    nvml: Nvml | None = None,
    sysctl: Sysctl = system_sysctl,
    system: str = sys.platform,
) -> LocalDevice:
    """The device of this machine. Never fails: the CPU is what is left, and the reasons say why.

    Args:
        sys_root, proc_root: where Linux's /sys and /proc are.
        nvml: the NVML bindings; None loads those that are installed.
        sysctl: reads macOS's table.
        system: `sys.platform` of the machine.
    """
    passed_over: list[str] = []
    for found in _looked_for(sys_root, proc_root, nvml, sysctl, system):
        if found.device is not None:
            return LocalDevice(device=found.device, how=found.how, passed_over=tuple(passed_over))
        passed_over.append(found.how)
    raise AssertionError("every machine has a CPU")


def _looked_for(sys_root: Path, proc_root: Path, nvml: Nvml | None, sysctl: Sysctl, system: str) -> Iterator[Lookup]:
    """One answer a kind, asked only when the one before had none."""
    if system == "darwin":
        yield apple_device(sysctl)
    else:
        memory_bytes = memory_total_bytes(proc_root)
        yield nvidia_device(nvml or load_nvml(), memory_bytes)
        yield pci_device(sys_root, memory_bytes)
    yield cpu_device(sys_root, proc_root, sysctl)
