"""Which engine is installed here, in which version, and how to get one that is not."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

VERSION_LIMIT_S: Final = 20.0
_DISTRIBUTION: Final = (
    "import importlib.metadata as m, sys; names = m.packages_distributions().get(sys.argv[1]); "
    "print(m.version(names[0]) if names else '')"
)
"""Asks an interpreter for the version of what it would import, without importing it."""
INSTALL: Mapping[str, str] = {
    "llama.cpp": "it with `brew install llama.cpp` or from https://github.com/ggml-org/llama.cpp/releases; or take the "
    'embedded one, `python -m pip install "widelane[embedded]"`',
    "vllm": "it in an environment of its own with `pip install vllm`; then put its `vllm` on the PATH, or name it: "
    '--program "/path/to/that/bin/vllm serve"',
    "sglang": "it in an environment of its own with `pip install sglang`; then name its Python: "
    '--program "/path/to/that/bin/python -m sglang.launch_server"',
    "ollama": "it from https://ollama.com/download",
}
"""How to get an engine, as the end of a sentence that begins with "Install"."""


def program_path(words: Sequence[str]) -> str | None:
    """The absolute path of a command's program, None when it is not installed. `python3 -m x` must have x."""
    path = shutil.which(words[0])
    if path is None or (words[1:2] == ["-m"] and _module_version(path, words[2].partition(".")[0]) is None):
        return None
    return str(Path(path).absolute())


def installed_version(engine: str, words: Sequence[str]) -> str | None:
    """The version of an engine that is installed here, None when it does not tell.

    Args:
        words: the program with its own words, e.g. `["vllm", "serve"]`.
    """
    path = program_path(words)
    if path is None:
        return None
    if engine == "llama.cpp":
        found = re.search(r"version: (\d+)", _output([path, "--version"]))
        return f"b{found[1]}" if found else None
    if engine == "ollama":
        found = re.search(r"version is (\d+\.\d+\.\d+)", _output([path, "--version"]))
        return found[1] if found else None
    interpreter = path if words[1:2] == ["-m"] else _interpreter(Path(path))
    return _module_version(interpreter, engine) if interpreter is not None else None


def _interpreter(script: Path) -> str | None:
    """The Python that runs a script installed by pip: its first line says so."""
    try:
        with script.open("rb") as file:
            first = file.readline(512).decode(errors="replace").strip()
    except OSError:
        return None
    path = first.removeprefix("#!").strip()
    return path if first.startswith("#!") and "python" in path and Path(path).exists() else None


def _module_version(interpreter: str, module: str) -> str | None:
    return _output([interpreter, "-c", _DISTRIBUTION, module]).strip() or None


def _output(command: Sequence[str]) -> str:
    """What a command says, empty when it fails or takes too long."""
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=VERSION_LIMIT_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).decode(errors="replace") if done.returncode == 0 else ""
