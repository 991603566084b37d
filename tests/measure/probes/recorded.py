"""Recorded replies as the probes see them: whole bodies, untouched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.data_path import DATA, MISSING
from widelane.measure.probes.answer import Answer, answer_of
from widelane.records import HttpReply


class Recorded(NamedTuple):
    """One recorded reply.

    Attributes:
        name: its place below the recordings, e.g. `vllm/default/chat.json`.
        request: the body that was sent, empty when there was none.
    """

    name: str
    path: str
    request: dict[str, Any]
    reply: HttpReply

    @property
    def answer(self) -> Answer:
        """The reply as a probe reads it."""
        return answer_of(self.reply)


def all_recorded() -> Iterator[Recorded]:
    """Every recorded reply of every server; nothing where there is no data."""
    if DATA is None:
        return
    root = DATA / "fixtures"
    for index in sorted(root.glob("**/index.json")):
        for entry in json.loads(index.read_text())["files"]:
            yield _recorded(root, index.parent / entry["file"], entry)


def recorded(name: str) -> Answer:
    """The reply of one recording by name; skips where it is missing."""
    if DATA is None:
        pytest.skip(MISSING)
    path = DATA / "fixtures" / name
    if not path.is_file():
        pytest.skip(f"no recording {name}")
    entries = json.loads((path.parent / "index.json").read_text())["files"]
    entry = next(entry for entry in entries if entry["file"] == path.name)
    return _recorded(DATA / "fixtures", path, entry).answer


def text_of(name: str) -> str:
    """A recorded body as text; skips where it is missing."""
    if DATA is None:
        pytest.skip(MISSING)
    path = DATA / "fixtures" / name
    if not path.is_file():
        pytest.skip(f"no recording {name}")
    return path.read_text()


def _recorded(root: Path, path: Path, entry: dict[str, Any]) -> Recorded:
    headers = {"content-type": str(entry.get("content_type") or "")}
    reply = HttpReply(int(entry["status"]), headers, path.read_bytes())
    return Recorded(str(path.relative_to(root)), entry["path"], entry.get("request") or {}, reply)
