"""Bad input to the embedded server: one clear error, nothing started, nothing left behind."""

from pathlib import Path

import pytest

from widelane.engines import embedded
from widelane.engines.embedded import EmbeddedServer
from widelane.errors import UsageError


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "ServerProcess", lambda *_: pytest.fail("a server was started"))


async def start(**options: object) -> None:
    async with EmbeddedServer(**options):  # type: ignore[arg-type]
        pass


@pytest.fixture
def with_xllamacpp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: object())


@pytest.mark.usefixtures("with_xllamacpp")
async def test_a_file_that_is_no_gguf_model(tmp_path: Path) -> None:
    model = tmp_path / "notes.txt"
    model.write_text("not a model")

    with pytest.raises(UsageError, match=r"notes\.txt is not a GGUF model"):
        await start(model=model, log_dir=tmp_path / "logs", cache_dir=tmp_path / "cache")

    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.usefixtures("with_xllamacpp")
async def test_a_model_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no model file"):
        await start(model=tmp_path / "none.gguf", log_dir=tmp_path / "logs", cache_dir=tmp_path / "cache")

    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("with_xllamacpp")
async def test_a_log_folder_that_cannot_be_made(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")

    with pytest.raises(UsageError, match=r"The log folder .* cannot be used"):
        await start(model=model, log_dir=model / "logs", cache_dir=tmp_path / "cache")


async def test_without_llama_cpp_the_message_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(UsageError, match=r'pip install "widelane\[embedded\]"'):
        await start(log_dir=tmp_path / "logs", cache_dir=tmp_path / "cache")

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"slots": 1000}, {"threads": 0}, {"kv_type": "fp8"}])
def test_impossible_settings_are_refused_when_they_are_given(wrong: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        EmbeddedServer(log_dir=tmp_path, **wrong)  # type: ignore[arg-type]


def test_what_is_known_only_of_a_running_server_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="was not started"):
        _ = EmbeddedServer(log_dir=tmp_path).pid
