"""Where runs lie, and which one to resume."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import platformdirs

from widelane.errors import UsageError
from widelane.lanes.store import RunStore


def runs_root(env: Mapping[str, str]) -> Path:
    """The folder of all runs: WIDELANE_RUNS_DIR, else the user's data folder."""
    stated = env.get("WIDELANE_RUNS_DIR")
    return Path(stated).expanduser() if stated else Path(platformdirs.user_data_dir("widelane")) / "runs"


def cache_root(env: Mapping[str, str]) -> Path:
    """The folder of models: WIDELANE_CACHE_DIR, else the user's cache folder."""
    stated = env.get("WIDELANE_CACHE_DIR")
    return Path(stated).expanduser() if stated else Path(platformdirs.user_cache_dir("widelane"))


def user_path(text: str) -> Path:
    """The path that a person typed.

    Raises:
        UsageError: it cannot be one (an unknown user's home, a name longer than the system allows).
    """
    try:
        path = Path(text).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"cannot use the path {text[:80]!r}: {getattr(error, 'strerror', None) or error}") from None
    return path


def new_run_dir(command: str, stated: str | None, env: Mapping[str, str]) -> Path:
    """A path for a new run, not made yet. A stated one must not hold anything."""
    if stated is None:
        stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
        return runs_root(env) / f"{stamp}-{command}-{os.getpid()}"
    path = user_path(stated)
    if path.is_file():
        raise UsageError(f"--run-dir {path} is a file; name a folder that is new or empty")
    if path.is_dir() and any(path.iterdir()):
        raise UsageError(f"--run-dir {path} is not empty; use --resume to go on with it, or name another folder")
    return path


def newest_unfinished(command: str, env: Mapping[str, str]) -> Path:
    """The newest run of a command, by its name, that is not finished. What cannot be opened is passed over.

    Raises:
        UsageError: there is none.
    """
    root = runs_root(env)
    runs = sorted(path for path in root.glob(f"*-{command}-*") if path.is_dir()) if root.is_dir() else []
    for path in reversed(runs):
        with contextlib.suppress(UsageError), RunStore.open(path) as store:
            if not store.complete:
                return path
    raise UsageError(f"nothing to resume: no unfinished {command} in {root}; start one without --resume")


@contextlib.contextmanager
def folder_made(path: Path) -> Iterator[Path]:
    """Make the folder; when the block fails on bad input, take away what was made, so that nothing is left behind.

    Raises:
        UsageError: the folder cannot be made or written to.
    """
    made = [part for part in reversed((path, *path.parents)) if not part.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        _remove_empty(made)
        raise UsageError(
            f"cannot write to {path}: {error.strerror or error}; "
            "name another folder with --run-dir or WIDELANE_RUNS_DIR"
        ) from None
    try:
        yield path
    except UsageError:
        _remove_empty(made)
        raise


def _remove_empty(made: list[Path]) -> None:
    for part in reversed(made):
        with contextlib.suppress(OSError):
            part.rmdir()


def check_writable_file(stated: str | None, option: str) -> Path | None:
    """The output file a person named, checked before any work is done.

    Raises:
        UsageError: it cannot be written there.
    """
    if stated is None:
        return None
    path = user_path(stated).resolve()  # a link is written through, never replaced
    parent = path.parent
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder; name a file")
    if path.exists() and not path.is_file():
        raise UsageError(f"{option} {path} is no ordinary file; name one")
    if not parent.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {parent}")
    if not os.access(path if path.exists() else parent, os.W_OK):
        raise UsageError(f"{option} {path}: no permission to write there")
    return path
