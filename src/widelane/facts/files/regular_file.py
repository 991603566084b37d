"""Opens model files of strangers: regular files only, so that nothing blocks and nothing is read without end."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from widelane.errors import UnreadableModel

_OTHER_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: Path) -> BinaryIO:
    """The file, open for reading without a buffer.

    Raises:
        UnreadableModel: there is no such file, it may not be read, or it is no regular file.
    """
    try:
        # Before opening, because to open a device can already do something.
        _require_regular(path, path.stat().st_mode)
        # A pipe that takes the file's place in between would block without O_NONBLOCK.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _require_regular(path, os.fstat(descriptor).st_mode)
        except BaseException:
            os.close(descriptor)
            raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnreadableModel(f"There is no file {path}.") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UnreadableModel(f"{path} cannot be read: {_reason(error)}.") from error
    return os.fdopen(descriptor, "rb", buffering=0)


def size_of(file: BinaryIO) -> int:
    """Bytes of an open file."""
    return os.fstat(file.fileno()).st_size


def read_whole(path: Path, *, limit_bytes: int) -> bytes:
    """All bytes of a small file.

    Raises:
        UnreadableModel: as `open_regular`, or the file is larger than `limit_bytes`.
    """
    with open_regular(path) as file:
        size = size_of(file)
        if size > limit_bytes:
            raise UnreadableModel(
                f"{path} has {size:,} bytes; a file of this kind has at most {limit_bytes:,}.\n"
                "It is damaged, or another kind of file."
            )
        return read_some(file, path, size)


def read_some(file: BinaryIO, path: Path, count: int) -> bytes:
    """The next `count` bytes, fewer only at the end of the file.

    Raises:
        UnreadableModel: the disk or the network behind it failed.
    """
    pieces: list[bytes] = []
    missing = count
    try:
        while missing and (piece := file.read(missing)):
            pieces.append(piece)
            missing -= len(piece)
    except OSError as error:
        raise UnreadableModel(f"{path} cannot be read: {_reason(error)}.") from error
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _require_regular(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kind = next((words for is_kind, words in _OTHER_KINDS if is_kind(mode)), "no regular file")
    raise UnreadableModel(f"{path} is {kind}; a model file is needed.")


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
