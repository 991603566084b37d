"""Engine versions as numbers that can be compared."""

from __future__ import annotations

import re


def version_of(text: str | None) -> tuple[int, ...] | None:
    """Release numbers of a version, None for a development build or nothing."""
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text or "")
    return tuple(int(part) for part in match.groups() if part is not None) if match else None


def build_of(text: str | None) -> int | None:
    """llama.cpp's build number (`b11549-abc` → 11549), None when there is none; builds by hand say 0."""
    match = re.match(r"b?(\d+)", text or "")
    return int(match[1]) if match else None
