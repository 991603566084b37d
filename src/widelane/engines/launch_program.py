"""Which engine a command starts, and where its own arguments begin: directly, as a module, or in a container."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_DOCKER_SWITCH = re.compile(r"-[ditP]+|--(?:rm|detach|interactive|tty|init|privileged|read-only)(?:=\w+)?")
_IMAGES = (
    ("llama-cpp-python", "llama-cpp-python"),
    ("llama.cpp", "llama.cpp"),
    ("llama-cpp", "llama.cpp"),
    ("vllm", "vllm"),
    ("sglang", "sglang"),
    ("ollama", "ollama"),
    ("tensorrt-llm", "tensorrt-llm"),
)
_MODULES = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "sglang.launch_server": "sglang",
    "mlx_lm.server": "mlx-lm",
    "llama_cpp.server": "llama-cpp-python",
}
_PROGRAMS = {
    ("llama-server", ""): "llama.cpp",
    ("vllm", "serve"): "vllm",
    ("sglang", "serve"): "sglang",
    ("ollama", "serve"): "ollama",
    ("ollama", "runner"): "ollama",
    ("mlx_lm.server", ""): "mlx-lm",
    ("mlx_lm", "server"): "mlx-lm",
    ("trtllm-serve", ""): "tensorrt-llm",
    ("ramalama", "serve"): "llama.cpp",
    ("lms", "load"): "lm-studio",
}


class Program(NamedTuple):
    """What a command starts.

    Attributes:
        engine: None when the program is not known.
        wrapper: program that starts the engine for its user, None when it is started directly.
        at, arguments: index of the program's word (of `run` for a container), and of its first argument.
    """

    engine: str | None
    wrapper: str | None
    at: int
    arguments: int


def find_program(values: Sequence[str]) -> Program:
    """The program that a command starts; all words count as arguments where none is known."""
    for at, value in enumerate(values):
        base = _base(value)
        following = values[at + 1] if at + 1 < len(values) else ""
        if base in ("docker", "podman", "nerdctl") and "run" in values[at + 1 : at + 3]:
            return _find_image(values, at)
        if value == "-m" and following in _MODULES:
            return Program(_MODULES[following], None, at, at + 2)
        if value == "-m" and (following, values[at + 2 : at + 3]) == ("mlx_lm", ["server"]):
            return Program("mlx-lm", None, at, at + 3)
        for (program, verb), engine in _PROGRAMS.items():
            if base == program and (not verb or following == verb):
                wrapper = "ramalama" if program == "ramalama" else None
                return Program(engine, wrapper, at, at + (2 if verb else 1))
    return Program(None, None, 0, 0)


def _find_image(values: Sequence[str], docker: int) -> Program:
    """As `find_program`, for `docker run … IMAGE …`: the image's own arguments come after its name."""
    run = values.index("run", docker)
    at = run + 1
    while at < len(values) and values[at].startswith("-"):
        option = values[at]
        at += 1 if _DOCKER_SWITCH.fullmatch(option) or "=" in option else 2
    if at >= len(values):
        return Program(None, "docker", run, len(values))
    image = values[at].lower()
    engine = next((name for part, name in _IMAGES if part in image), None)
    inner = find_program(values[at + 1 :])
    return Program(inner.engine or engine, "docker", run, at + 1 + (inner.arguments if inner.engine else 0))


def _base(value: str) -> str:
    return re.split(r"[/\\]", value)[-1].removesuffix(".exe")
