"""Which engine is installed, and in which version, with stand-in programs on the PATH."""

import sys
from pathlib import Path

import pytest

from widelane.engines.installed import INSTALL, installed_version, program_path


def program(folder: Path, name: str, says: str, *, status: int = 0) -> None:
    """A program that says something and ends."""
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n")
    path.chmod(0o755)


@pytest.fixture
def bin_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_what_is_not_installed_has_no_path_and_no_version(bin_dir: Path) -> None:
    assert program_path(["llama-server"]) is None
    assert installed_version("llama.cpp", ["llama-server"]) is None


def test_llama_cpp_tells_its_build(bin_dir: Path) -> None:
    program(bin_dir, "llama-server", "version: 11549 (0b5a9c1)\nbuilt with cc for x86_64")
    assert program_path(["llama-server"]) == str(bin_dir / "llama-server")
    assert installed_version("llama.cpp", ["llama-server"]) == "b11549"


def test_ollama_tells_its_version_with_or_without_a_server(bin_dir: Path) -> None:
    program(bin_dir, "ollama", "Warning: could not connect\nWarning: client version is 0.12.3")
    assert installed_version("ollama", ["ollama", "serve"]) == "0.12.3"


def test_a_program_that_fails_tells_nothing(bin_dir: Path) -> None:
    program(bin_dir, "llama-server", "version: 1 (x)", status=1)
    assert installed_version("llama.cpp", ["llama-server"]) is None


def test_a_python_program_is_asked_by_its_own_interpreter(bin_dir: Path) -> None:
    script = bin_dir / "psutil"
    script.write_text(f"#!{sys.executable}\nprint('never run')\n")
    script.chmod(0o755)
    import psutil

    assert installed_version("psutil", ["psutil", "serve"]) == psutil.__version__


def test_a_module_must_be_there_too() -> None:
    assert program_path([sys.executable, "-m", "psutil.x"]) == sys.executable
    assert program_path([sys.executable, "-m", "sglang.launch_server"]) is None


def test_every_engine_says_how_to_get_it() -> None:
    assert set(INSTALL) == {"llama.cpp", "vllm", "sglang", "ollama"}
