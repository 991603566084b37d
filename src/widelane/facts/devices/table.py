"""The devices whose figures are known, by name: bandwidth, memory, arithmetic, and where each figure comes from.

The table is `devices.csv` beside this file. Memory is counted in binary units: makers' "24 GB" of DRAM are 24 * 2^30
bytes on every kind of device here (an RTX 3090 reports 24,576 MiB, an H100 81,559 MiB, a 16 GB Mac 17,179,869,184
bytes). Of these, programs can have less:

- GB10: 119 GiB, what Linux shows as total on a DGX Spark (the firmware keeps the rest).
- Apple: 75 %, about what Metal may wire by default (`recommendedMaxWorkingSetSize` was seen between 66 % on small
  machines and 84 % on 128 GB); `sysctl iogpu.wired_limit_mb` raises it.
- Other unified memory: 93 %, the share that a GB10 leaves.
- Graphics cards: 97 %; the driver, its context and ECC keep the rest.
- CPU: 90 %, leaving a tenth to the system.
"""

from __future__ import annotations

import csv
import difflib
import io
import re
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Final

from widelane.errors import UsageError
from widelane.facts.devices.device import Device, DeviceKind

GIB: Final = 2**30
USABLE_GPU: Final = 0.97
USABLE_APPLE: Final = 0.75
USABLE_UNIFIED: Final = 0.93
USABLE_CPU: Final = 0.90
MOST_CARDS: Final = 64

_GB10_USABLE_BYTES: Final = 119 * GIB
_VENDOR_WORDS: Final = frozenset({"nvidia", "geforce", "amd", "radeon", "instinct", "intel", "apple", "tesla"})
_MANY_BEFORE: Final = re.compile(r"(\d{1,4})\s*x[\s_-]*(?=\D)(.+)", re.IGNORECASE)
_MANY_AFTER: Final = re.compile(r"(.+?)[\s_-]+x\s*(\d{1,4})", re.IGNORECASE)
_MEMORY_SUFFIX: Final = re.compile(r"-\d+gb$")
_CHECKED: Final = {
    "read-bw": "bandwidth read there",
    "read": "read there",
    "second-hand": "second-hand",
    "unread": "not read at its source",
}
"""Words of the table's column `checked`."""


def find_device(text: str) -> Device:
    """The device of a name or alias, whatever its case and spacing; `2x-rtx-3090` is two cards holding one model.

    Raises:
        UsageError: no device is called so; the message names the near ones, or all.
    """
    count, name = _count_and_name(text)
    if not 1 <= count <= MOST_CARDS:
        raise UsageError(f"{text!r} asks for {count} devices; give 1 to {MOST_CARDS}.")
    found = _by_key().get(_key(name)) or _without_memory(name)
    if found is None:
        raise UsageError(_unknown(name))
    return together(found, count)


def device_names() -> tuple[str, ...]:
    """Names of all devices, in the table's order."""
    return tuple(device.name for device in _devices())


def together(device: Device, count: int) -> Device:
    """`count` cards of one kind that hold a model together (tensor parallel): every figure is that of all of them."""
    if count == 1:
        return device
    return replace(
        device,
        name=f"{count}x-{device.name}",
        memory_bandwidth_bytes_s=_times(device.memory_bandwidth_bytes_s, count),
        memory_bytes=device.memory_bytes * count,
        usable_memory_bytes=None if device.usable_memory_bytes is None else device.usable_memory_bytes * count,
        bf16_flops=_times(device.bf16_flops, count),
        fp8_flops=_times(device.fp8_flops, count),
        fp4_flops=_times(device.fp4_flops, count),
        aliases=(),
        count=device.count * count,
    )


def read_devices(text: str) -> tuple[Device, ...]:
    """The devices of a table with the columns of `devices.csv`.

    Raises:
        ValueError: a column is missing or a figure is no number.
    """
    return tuple(_device(row) for row in csv.DictReader(io.StringIO(text)))


def usable_share(kind: DeviceKind, name: str) -> float:
    """Share of a device's memory that programs can have (see the top of the file)."""
    if name.startswith("apple-"):
        return USABLE_APPLE
    return {DeviceKind.GPU: USABLE_GPU, DeviceKind.UNIFIED: USABLE_UNIFIED, DeviceKind.CPU: USABLE_CPU}[kind]


@cache
def _devices() -> tuple[Device, ...]:
    return read_devices((resources.files("widelane.facts.devices") / "devices.csv").read_text(encoding="utf-8"))


@cache
def _by_key() -> dict[str, Device]:
    named = {_key(device.name): device for device in _devices()}
    return {_key(alias): device for device in _devices() for alias in device.aliases} | named


def _device(row: dict[str, str]) -> Device:
    name, kind = row["name"], DeviceKind(row["kind"])
    memory_bytes = round(float(row["memory_gb"]) * GIB)
    usable = _GB10_USABLE_BYTES if name == "gb10" else int(memory_bytes * usable_share(kind, name))
    checked = _CHECKED.get(row["checked"], row["checked"])
    return Device(
        name=name,
        kind=kind,
        aliases=tuple(alias.strip() for alias in row["aliases"].split(";") if alias.strip()),
        memory_bandwidth_bytes_s=_scaled(row["memory_bandwidth_gbs"], 1e9),
        memory_bytes=memory_bytes,
        usable_memory_bytes=usable,
        bf16_flops=_scaled(row["bf16_dense_tflops"], 1e12),
        fp8_flops=_scaled(row["fp8_dense_tflops"], 1e12),
        fp4_flops=_scaled(row["fp4_dense_tflops"], 1e12),
        stream_efficiency=_scaled(row["stream_efficiency"], 1.0),
        source=f"{row['source']} ({checked})",
        note="; ".join(part for part in (row["note"], _usable_note(name)) if part),
    )


def _usable_note(name: str) -> str:
    if not name.startswith("apple-"):
        return ""
    return "usable memory: about 75 %, what Metal wires by default; `sudo sysctl iogpu.wired_limit_mb=N` raises it"


def _scaled(text: str, factor: float) -> float | None:
    return float(text) * factor if text else None


def _times(value: float | None, count: int) -> float | None:
    return None if value is None else value * count


def _count_and_name(text: str) -> tuple[int, str]:
    if match := _MANY_BEFORE.fullmatch(text.strip()):
        return int(match[1]), match[2]
    if match := _MANY_AFTER.fullmatch(text.strip()):
        return int(match[2]), match[1]
    return 1, text


def _key(text: str) -> str:
    """What two spellings of one name share: letters and digits, without the makers' words."""
    words = re.split(r"[^a-z0-9]+", text.lower())
    return "".join(word for word in words if word not in _VENDOR_WORDS)


def _without_memory(name: str) -> Device | None:
    """The one device that differs from `name` only by its memory size (`rtx-3060` for `rtx-3060-12gb`)."""
    wanted = _key(name)
    found = [device for device in _devices() if _key(_MEMORY_SUFFIX.sub("", device.name)) == wanted]
    return found[0] if len(found) == 1 and wanted else None


def _unknown(name: str) -> str:
    wanted = _key(name)
    keys = {key: device.name for key, device in _by_key().items()}
    typed = "-".join(name.lower().split())
    near = [
        keys[key]
        for key in keys
        if len(typed) > 1 and (typed in keys[key] or (wanted and (wanted in key or key in wanted)))
    ]
    near += [keys[key] for key in difflib.get_close_matches(wanted, keys, n=4, cutoff=0.7)]
    listed = f"near: {', '.join(dict.fromkeys(near))}" if near else f"known: {', '.join(device_names())}"
    return f"No device is called {name[:80]!r} ({listed}). Name one of these, or `auto` for this machine."
