"""Files that are either whole or not there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from widelane.errors import UsageError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file through a draft beside it, so that no reader and no crash ever sees half of it.

    Raises:
        UsageError: it cannot be written there; the draft is taken away.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror or error}.") from error
