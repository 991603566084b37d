"""The folder of a run: made for it, or taken away again when the run could not be begun."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from widelane.errors import UsageError
from widelane.lanes import run_database as database
from widelane.lanes.run_lock import RunLock


def make_folder(path: Path) -> list[Path]:
    """Make the folder; what was made, outermost first.

    Raises:
        UsageError: it cannot be made, or holds something that is not an unbegun run.
    """
    made = [part for part in reversed((path, *path.parents)) if not part.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        held = sorted(item.name for item in path.iterdir())
    except OSError as error:
        for part in reversed(made):
            with contextlib.suppress(OSError):
                part.rmdir()
        raise UsageError(f"cannot make a run in {path}: {error.strerror or error}; name another folder") from None
    # A run that was killed before its first commit left an empty database: that is as good as none.
    if (path / database.DATABASE).exists() and _begun(path):
        raise UsageError(f"{path} holds a run already; resume it, or name another folder")
    others = [name for name in held if not name.startswith((database.DATABASE, RunLock.NAME))]
    if others:
        raise UsageError(f"{path} is not empty (it holds {others[0]}); name a folder that is new or empty")
    return made


def _begun(path: Path) -> bool:
    try:
        with contextlib.closing(database.connect(path / database.DATABASE)) as connection:
            return database.is_begun(connection)
    except sqlite3.Error:
        return True  # something is there that is not ours to overwrite


def take_away(path: Path, made: list[Path]) -> None:
    """Remove a run that could not be begun, and the folders made for it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(OSError):
            (path / (database.DATABASE + suffix)).unlink()
    with contextlib.suppress(OSError):
        (path / RunLock.NAME).unlink()
    for part in reversed(made):
        with contextlib.suppress(OSError):
            part.rmdir()
