"""One device that a model may run on, with its nominal figures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DeviceKind(StrEnum):
    UNIFIED = "unified"
    """One memory for CPU and GPU (GB10, Apple, Strix Halo, Jetson)."""
    GPU = "gpu"
    CPU = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device as its maker states it; None where no figure was found.

    Attributes:
        name: row of the table (`gb10`), or what the machine calls itself when no row fits.
        memory_bandwidth_bytes_s: nominal, all `count` devices together; None where no row describes it and its
            driver does not tell.
        memory_bytes: installed memory of all `count` devices; the "24 GB" of a data sheet are 24 * 2^30 bytes.
        usable_memory_bytes: what programs can have of it, None when not known better than `memory_bytes`.
        bf16_flops, fp8_flops, fp4_flops: dense peak, operations/s of all devices together.
        stream_efficiency: share of the nominal bandwidth that decoding was seen to reach, None when not measured.
        count: cards that hold the model together (tensor parallel).
        source, note: where the figures come from, and what to know about them.
    """

    name: str
    kind: DeviceKind
    memory_bandwidth_bytes_s: float | None
    memory_bytes: int
    usable_memory_bytes: int | None = None
    aliases: tuple[str, ...] = ()
    bf16_flops: float | None = None
    fp8_flops: float | None = None
    fp4_flops: float | None = None
    stream_efficiency: float | None = None
    count: int = 1
    source: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A device found on this machine and how it was recognised, or None and why there is none of its kind."""

    device: Device | None
    how: str
