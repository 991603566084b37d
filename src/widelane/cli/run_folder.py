"""The folder of one run while its command works: made late, taken away again when the input was bad."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from widelane.errors import CallError, UsageError


@contextlib.contextmanager
def kept_unless_refused(path: Path, *, fresh: bool) -> Iterator[None]:
    """Keep what the block leaves in `path`, unless it fails on bad input or on a server that does not answer.

    Args:
        fresh: the folder is new or empty, so all in it is ours to take away; False (a resumed run) keeps it always.
    """
    existed = path.exists()
    parents = [parent for parent in path.parents if not parent.exists()]
    try:
        yield
    except (UsageError, CallError):
        if fresh:
            _clear(path, remove=not existed)
            for parent in parents:
                with contextlib.suppress(OSError):
                    parent.rmdir()
        raise


def _clear(path: Path, *, remove: bool) -> None:
    if not path.is_dir():
        return
    for inside in path.iterdir():
        if inside.is_dir():
            shutil.rmtree(inside, ignore_errors=True)
        else:
            inside.unlink(missing_ok=True)
    if remove:
        with contextlib.suppress(OSError):
            path.rmdir()
