"""Memory bandwidth as it was measured on this machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredBandwidth:
    """What was measured.

    Attributes:
        read_bytes_s, copy_bytes_s: best pass; the copy counts bytes read and bytes written.
        threads: cores that worked together.
        buffer_bytes: memory that a read pass went through.
        cache_bytes: the last-level caches it was sized by, None where the machine does not tell.
        passes: passes of each kind.
        doubt: why the figures may be wrong, None when nothing speaks against them.
    """

    read_bytes_s: float
    copy_bytes_s: float
    threads: int
    buffer_bytes: int
    cache_bytes: int | None
    passes: int
    doubt: str | None = None
