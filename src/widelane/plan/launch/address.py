"""Where a server listens, and what stands between it and others: the same words for every engine."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from widelane.plan.launch.builder import CommandBuilder, argument, finished
from widelane.plan.launch.choice import LOOPBACKS
from widelane.plan.report import Argument, LaunchPlan, LeftOut

_KEY_VARIABLES = {"llama.cpp": "LLAMA_API_KEY", "vllm": "VLLM_API_KEY"}
"""Environment names from which an engine takes its API key."""
_HOST, _PORT, _KEY, _OLLAMA = "--host", "--port", "--api-key", "OLLAMA_HOST"


def is_ip_address(host: str) -> bool:
    """Whether it is an IP address, rather than a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def bracketed(host: str) -> str:
    """As it stands before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


class Listening(NamedTuple):
    """What an address comes to: flags, variables, and what is left out."""

    argv: Sequence[Argument] = ()
    environ: Sequence[Argument] = ()
    left_out: Sequence[LeftOut] = ()


def listening(engine: str, host: str, port: int) -> Listening:
    """The parts of a command that say where it listens."""
    local = host in LOOPBACKS
    if engine == "ollama":
        reason = "Only this machine can reach it: Ollama knows no key."
        if not local:
            reason = "Other machines can reach it, and Ollama knows no key: let a firewall stand before the port."
        return Listening(environ=(argument(_OLLAMA, f"{bracketed(host)}:{port}", reason),))
    reason = "Only this machine can reach it: there is no key, and none is needed."
    return Listening(
        argv=(
            argument(_HOST, host, reason if local else "Other machines can reach it."),
            argument(_PORT, str(port), "Where clients find it."),
        ),
        left_out=(LeftOut(flag=_KEY, reason=_key_reason(engine, local=local)),),
    )


def listen(command: CommandBuilder, engine: str, host: str, port: int) -> None:
    """Add an address to a command that is being made."""
    parts = listening(engine, host, port)
    for part in parts.argv:
        command.argument(part)
    for part in parts.environ:
        command.environ(part.flag or "", part.value or "", part.reason)
    for left in parts.left_out:
        command.leave_out(left.flag, left.reason)


def with_address(plan: LaunchPlan, host: str, port: int) -> LaunchPlan:
    """The same command listening elsewhere."""
    parts = listening(plan.engine, host, port)
    new = {part.flag: part for part in (*parts.argv, *parts.environ)}
    keys = {left.flag: left for left in parts.left_out}
    return finished(
        replace(
            plan,
            host=host,
            port=port,
            argv=tuple(new.get(part.flag, part) if part.flag else part for part in plan.argv),
            environ=tuple(new.get(part.flag, part) for part in plan.environ),
            left_out=tuple(keys.get(left.flag, left) for left in plan.left_out),
        )
    )


def _key_reason(engine: str, *, local: bool) -> str:
    if local:
        return "Nobody else can reach the server; set a key before --host is widened."
    variable = _KEY_VARIABLES.get(engine)
    how = (
        f"set {variable} in the server's environment"
        if variable
        else "keep the file that starts it unreadable to others"
    )
    return (
        f"A key on the command line is seen by every user of the machine: {how}. /health and /metrics ask for none, so "
        "let a firewall stand before the port."
    )
