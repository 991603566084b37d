"""Engine versions as numbers that can be compared."""

from __future__ import annotations

import re

_NUMBER = r"(?<!\d)\d{1,9}(?!\d)"
"""A longer one is no version, whatever it is."""


def version_of(text: str | None) -> tuple[int, ...] | None:
    """Release numbers of a version, None for a development build or nothing."""
    match = re.match(rf"v?({_NUMBER})\.({_NUMBER})(?:\.({_NUMBER}))?", text or "")
    return tuple(int(part) for part in match.groups() if part is not None) if match else None


def is_version(engine: str, text: str) -> bool:
    """Whether a person's text names a build of llama.cpp (`b9180`, `9180`), or a release of another engine."""
    if engine == "llama.cpp":
        return build_of(text) is not None and version_of(text) is None
    return version_of(text) is not None


def build_of(text: str | None) -> int | None:
    """llama.cpp's build number (`b11549-abc` → 11549), None when there is none; builds by hand say 0."""
    match = re.match(rf"b?({_NUMBER})", text or "")
    return int(match[1]) if match else None
