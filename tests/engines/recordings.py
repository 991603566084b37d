"""The recorded servers of the shared data, and servers made by hand from documentation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.data_path import DATA
from widelane.testing.recorded_server import RecordedServer, Recording, load_recording


def folders() -> list[Path]:
    """Every folder with a recording; none where there is no data folder."""
    return sorted(path.parent for path in (DATA / "fixtures").rglob("index.json")) if DATA else []


def files(pattern: str) -> list[Path]:
    """Every recorded file of this name pattern."""
    return sorted((DATA / "fixtures").rglob(pattern)) if DATA else []


def name_of(path: Path) -> str:
    """How a folder or file is called in a test's name."""
    return "/".join(path.parts[-2:])


def recorded(folder: Path, **options: Any) -> RecordedServer:
    return RecordedServer(load_recording(folder), **options)


def without(recording: Recording, *paths: str) -> Recording:
    """The same server with some endpoints switched off."""
    kept = tuple(exchange for exchange in recording.exchanges if exchange.path.partition("?")[0] not in paths)
    return Recording(engine=recording.engine, exchanges=kept, made_with=recording.made_with)


def by_hand(engine: str, replies: Mapping[str, Any], *, server: str | None = None) -> RecordedServer:
    """A server from documentation, not recorded."""
    return RecordedServer(Recording.of_replies(engine, replies, server=server))
