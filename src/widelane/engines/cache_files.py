"""Files that several processes may make at once: a lock, atomic replacement, and a stamp for a cheap second look."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from enum import Enum, auto
from pathlib import Path
from typing import Final

import msgspec

from widelane.errors import UsageError, WidelaneError

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in total). It may come from another thread, must be quick and must not raise."""

LOCK_POLL_S: Final = 0.1
# How file systems without locks (some network mounts) say so.
NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})


class Stopped(WidelaneError):
    """The caller gave up; nothing was left behind."""


def raise_if_stopped(stop: threading.Event | None) -> None:
    """End a long piece of work whose caller was cancelled.

    Raises:
        Stopped: the event is set.
    """
    if stop is not None and stop.is_set():
        raise Stopped("stopped before the file was complete")


@contextlib.contextmanager
def usable_folder(folder: Path, *, what: str) -> Iterator[None]:
    """Make `folder`; inside, trouble with the disk becomes one clear error.

    Raises:
        UsageError: the folder is read-only, no folder, or its disk is full.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            reason = "the disk is full"
        else:
            reason = f"it cannot be written ({error.strerror or error})"
        raise UsageError(
            f"{what} {folder} cannot be used: {reason}.\nFree some space, or name another folder."
        ) from error


@contextlib.contextmanager
def locked(path: Path, stop: threading.Event | None = None) -> Iterator[bool]:
    """Hold the lock file while the block runs; waits for another process that holds it.

    The lock goes with its process, however that ends. Where the file system has no locks the block runs without,
    and is given False.

    Raises:
        Stopped: `stop` was set while waiting.
    """
    with path.open("ab") as file:
        while (held := _try_lock(file.fileno())) is Held.BY_OTHERS:
            raise_if_stopped(stop)
            time.sleep(LOCK_POLL_S)
        yield held is Held.BY_US


class Held(Enum):
    """Who holds a lock."""

    BY_US = auto()
    BY_OTHERS = auto()
    NOT_LOCKABLE = auto()


def _try_lock(descriptor: int) -> Held:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Held.BY_OTHERS
    except OSError as error:
        if error.errno in NO_LOCKS:
            return Held.NOT_LOCKABLE
        raise
    return Held.BY_US


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path to write to; it becomes `target` in one step when the block ends well, and goes away when not."""
    part = target.with_name(f"{target.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def require_space(folder: Path, needed_bytes: int, *, what: str) -> None:
    """Refuse early what would fill the disk.

    Raises:
        UsageError: less than `needed_bytes` is free.
    """
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise UsageError(
            f"{what} needs {needed_bytes / 1e6:.0f} MB in {folder}, and {free_bytes / 1e6:.0f} MB are free.\n"
            "Free some space, or name another folder."
        )


class Stamp(msgspec.Struct, frozen=True):
    """What a file looked like when it was last checked in full.

    Attributes:
        origin: what the content was checked against or made from.
    """

    size_bytes: int
    mtime_ns: int
    origin: str


def write_stamp(path: Path, origin: str) -> None:
    """Note beside the file that its content is good. Failing to write it costs only time at the next start."""
    status = path.stat()
    stamp = Stamp(size_bytes=status.st_size, mtime_ns=status.st_mtime_ns, origin=origin)
    with contextlib.suppress(OSError), replacing(_stamp_path(path)) as part:
        part.write_bytes(msgspec.json.encode(stamp))


def stamp_holds(path: Path, origin: str) -> bool:
    """Whether the file was checked against `origin` and has not been touched since."""
    try:
        status = path.stat()
        stamp = msgspec.json.decode(_stamp_path(path).read_bytes(), type=Stamp)
    except (OSError, msgspec.DecodeError):
        return False
    return stamp == Stamp(size_bytes=status.st_size, mtime_ns=status.st_mtime_ns, origin=origin)


def _stamp_path(path: Path) -> Path:
    return path.with_name(path.name + ".checked")
