"""Past calls from what a person names: a log, a saved sweep, or the folder of one of our runs."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

import msgspec

from widelane.cli.console import Terminal
from widelane.errors import UsageError
from widelane.lanes import run_database as database
from widelane.plan.footprint import PastCall
from widelane.plan.footprints import PastCalls, from_document, from_lines

MOST_DOCUMENT_BYTES: Final = 256 * 2**20
"""A log of one record a line may be of any size; one JSON document has to fit into memory."""
MOST_LINE_CHARACTERS: Final = 64 * 2**20
PROFILE: Final = "sweep.json"


def read_footprints(path: Path, terminal: Terminal) -> tuple[PastCall, ...]:
    """The calls in a file or run folder; what was skipped is told beside, never silently left out.

    Raises:
        UsageError: it cannot be read, or holds no call with token counts; the message says what was skipped and why.
    """
    if path.is_dir():
        past = _from_folder(path)
    elif path.is_file():
        past = _from_file(path)
    else:
        raise UsageError(f"{path} is neither a file nor a run's folder; name a log of past calls, or a run.")
    skipped = past.skipped_words()
    if not past.calls:
        raise UsageError(
            f"{path} holds no call with token counts{f' ({skipped})' if skipped else ''}. Give lines with `usage`, "
            "OpenAI batch output, plain numbers of tokens, or one of our run folders."
        )
    if skipped:
        terminal.note(f"{path}: {len(past.calls)} calls read; skipped {skipped}")
    return tuple(past.calls)


def _from_folder(path: Path) -> PastCalls:
    if (path / database.DATABASE).is_file():
        past = from_lines(_events(path))
        if past.calls or not (path / PROFILE).is_file():
            return past
    if (path / PROFILE).is_file():
        return _from_file(path / PROFILE)
    raise UsageError(f"{path} holds no run (neither {database.DATABASE} nor {PROFILE}); name a run's folder or a log.")


def _events(path: Path) -> Iterator[str]:
    """The stored events as exported lines, read without touching the run: it may still be going on."""
    file = path / database.DATABASE
    try:
        with contextlib.closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            database.read_meta(connection, path)
            for kind, key, value in connection.execute("SELECT kind, key, value FROM event ORDER BY id"):
                yield msgspec.json.encode({"kind": kind, "key": key, "value": msgspec.Raw(value)}).decode()
    except sqlite3.Error as error:
        raise UsageError(f"The run in {path} cannot be read: {error}.") from None


def _from_file(path: Path) -> PastCalls:
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            if not _is_document(file.readline(MOST_LINE_CHARACTERS)):
                file.seek(0)
                return from_lines(_lines(file, path))
        return _from_document(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from None


def _from_document(path: Path) -> PastCalls:
    """One JSON document; where it is none after all (a log whose first line is damaged), the lines of the file."""
    if path.stat().st_size > MOST_DOCUMENT_BYTES:
        raise UsageError(f"{path} is one JSON document of over 256 MiB; write one record a line instead.")
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    try:
        return from_document(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return from_lines(data.decode(errors="replace").splitlines())


def _lines(file: TextIO, path: Path) -> Iterator[str]:
    while line := file.readline(MOST_LINE_CHARACTERS):
        if len(line) == MOST_LINE_CHARACTERS:
            raise UsageError(f"{path} has a line of over {MOST_LINE_CHARACTERS:,} characters; it is no log of calls.")
        yield line


def _is_document(first: str) -> bool:
    """Whether the first line opens a JSON document that goes on below (a list, or an object not closed here)."""
    text = first.strip()
    if text.startswith("["):
        return not text.startswith("[DONE]")
    if not text.startswith("{"):
        return False
    try:
        record = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return True
    return isinstance(record, dict) and isinstance(record.get("timeline"), dict)
