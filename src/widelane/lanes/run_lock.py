"""One writer a run: a lock that the kernel gives back when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import ClassVar, Self

from widelane.errors import UsageError

try:
    import fcntl
except ImportError:  # not POSIX: SQLite's own locks still keep two writers apart, commit by commit
    fcntl = None  # type: ignore[assignment]


class RunLock:
    """An exclusive `flock` on a file beside the database.

    Not on the database itself: closing any descriptor of a file drops the POSIX locks that SQLite holds on it.
    """

    NAME: ClassVar[str] = "run.lock"

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, folder: Path) -> Self:
        """The lock.

        Raises:
            UsageError: another process holds it, or the folder cannot be written.
        """
        try:
            descriptor = os.open(folder / cls.NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(f"cannot write to {folder}: {error.strerror or error}; name another folder") from None
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                raise UsageError(f"the run in {folder} is in use by another process; wait for it, or stop it") from None
        return cls(descriptor)

    def release(self) -> None:
        """Give the lock back."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)
