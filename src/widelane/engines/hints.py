"""What an adapter may be told of a server beside what it answers. Plain values; others read files and processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalProcess:
    """A process of this machine.

    Attributes:
        argv: command line, keys and tokens taken out.
        environ: settings of engines in its environment, None when it could not be read.
        children: command lines of its child processes (a new Ollama starts a llama.cpp server).
    """

    pid: int
    argv: tuple[str, ...]
    environ: Mapping[str, str] | None = None
    children: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What is known of a server beside what it answers.

    Attributes:
        launch: the command that started it, as pasted.
        log: the text of its start log.
        process: the process that owns its port, on this machine.
    """

    launch: str | None = None
    log: str | None = None
    process: LocalProcess | None = None


NO_HINTS = Hints()
