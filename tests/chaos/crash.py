"""The end of a process, seen from its disk: killed at an instant or in the middle of a write, or out of space.

What kill -9 leaves is what the files hold at that moment: they are copied, and the run goes on from the copy. A write
that was under way is cut at any byte. (That SQLite gets its bytes to the disk at all is the store's own test.)
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from widelane.lanes.run_database import DATABASE


class Crash:
    """When and how one session dies. It does nothing unless told.

    Args:
        folder: the run.
        copy: where what is left of it goes.
        died: called when the process is killed.
        at_write: the write (from 1) in the middle of which the process is killed; None: none.
        left: share of the bytes of that write that reached the disk; from 1 on all of them, but nobody was told.
        full_at_write: the write at which the disk is full.

    Attributes:
        dead: set once the process was killed; nothing that happens afterwards counts.
        writes: writes so far.
    """

    def __init__(
        self, folder: Path, copy: Path, died: Callable[[], None], *, at_write: int | None = None, left: float = 1.0,
        full_at_write: int | None = None,
    ) -> None:  # fmt: skip
        self.dead = asyncio.Event()
        self.writes = 0
        self._folder = folder
        self._copy = copy
        self._died = died
        self._at_write = at_write
        self._left = left
        self._full_at_write = full_at_write
        self._full = False

    def connect(self, path: Path) -> sqlite3.Connection:
        """Opens the database on a disk that fills up, and that nobody waits for."""
        crash = self

        class Disk(sqlite3.Connection):
            def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
                if (
                    sql == "PRAGMA synchronous=FULL"
                ):  # a kill takes nothing from the system's cache: waiting is for nothing
                    sql = "PRAGMA synchronous=OFF"
                if crash._full and sql.startswith(("INSERT", "COMMIT")):
                    raise sqlite3.OperationalError("database or disk is full")
                return super().execute(sql, *values)

        return sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=Disk)

    async def write(self, storing: Coroutine[Any, Any, None]) -> bool:
        """Let the store write; False when the process died over it, so that nobody heard of it."""
        if self.dead.is_set():
            storing.close()
            return False
        self.writes += 1
        self._full = self._full or self.writes == self._full_at_write
        before = self._log_bytes()
        await storing
        if self.writes != self._at_write:
            return True
        self.kill()
        log = self._copy / f"{DATABASE}-wal"
        grown = self._log_bytes() - before
        if self._left < 1.0 and grown > 0:  # a log that was begun anew has been overwritten in its middle: kept whole
            with log.open("r+b") as file:
                file.truncate(before + int(grown * self._left))
        return False

    def no_more(self) -> None:
        """What was to come does not."""
        self._at_write = self._full_at_write = None

    def kill(self) -> None:
        """Keep what the files hold now."""
        shutil.copytree(self._folder, self._copy)
        self.dead.set()
        self._died()

    def _log_bytes(self) -> int:
        log = self._folder / f"{DATABASE}-wal"
        return log.stat().st_size if log.exists() else 0
