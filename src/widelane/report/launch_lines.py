"""A launch command taken apart for reading: one flag a line, each with its reason. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from widelane.plan.report import Argument, LaunchPlan


@dataclass(frozen=True, slots=True)
class LaunchLine:
    """What is typed, as a shell takes it, and why."""

    text: str
    reason: str


def environ_lines(launch: LaunchPlan) -> list[LaunchLine]:
    """The variables to set: `OLLAMA_NUM_PARALLEL=24`."""
    return [LaunchLine(f"{one.flag}={shlex.quote(one.value or '')}", one.reason) for one in launch.environ]


def argv_lines(launch: LaunchPlan) -> list[LaunchLine]:
    """The command word by word; a word without flag and reason joins the line before it (`vllm serve`)."""
    lines: list[LaunchLine] = []
    for one in launch.argv:
        text = _typed(one)
        if lines and one.flag is None and not one.reason:
            lines[-1] = LaunchLine(f"{lines[-1].text} {text}", lines[-1].reason)
        else:
            lines.append(LaunchLine(text, one.reason))
    return lines


def left_out_lines(launch: LaunchPlan) -> list[LaunchLine]:
    """Flags that one might expect, and why they are not set."""
    return [LaunchLine(one.flag, one.reason) for one in launch.left_out]


def written_for(launch: LaunchPlan) -> str:
    """`vLLM 0.33.0, flags checked on 0.33.0`."""
    version = f" {launch.version}" if launch.version else ""
    return f"{engine_name(launch.engine)}{version}, flags checked on {launch.checked_on}"


def engine_name(engine: str) -> str:
    """As its makers write it."""
    return {"vllm": "vLLM", "sglang": "SGLang", "ollama": "Ollama"}.get(engine, engine)


def _typed(argument: Argument) -> str:
    """Quoted as a shell needs it."""
    words = (argument.flag, None if argument.value is None else shlex.quote(argument.value))
    return " ".join(word for word in words if word)
