"""`widelane simulate`: a simulated server behind a real port, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import math
from collections.abc import Mapping

from widelane.cli.console import Terminal
from widelane.cli.event_loop import run_async
from widelane.cli.run_dirs import user_path
from widelane.cli.server import simulated_server
from widelane.errors import UsageError
from widelane.sim.answers.answer import Answerer
from widelane.sim.answers.script_file import parse_script
from widelane.sim.faults.catalogue import FAULTS
from widelane.sim.http_front import HttpFront
from widelane.sim.misconfigurations import MISCONFIGURATIONS
from widelane.sim.open_server import Assembled
from widelane.sim.server import DEFAULT_ANSWERS
from widelane.sim.spec import PREFIX

_SETTINGS = (
    *("slots", "quant", "weights_gb", "kv_dtype", "state_dtype", "context", "draft_depth", "acceptance", "seed"),
    *("noise", "fault", "misconfigured"),
)
"""Options that are settings of the `sim:…` grammar under the same names."""
_SOURCES = ("device", "model", "engine", "profile")
_HIGHEST_PORT = 65535


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Start, print the URL, serve until a signal."""
    terminal = Terminal(quiet=args.quiet)
    if args.list:
        terminal.out.print(listing(), markup=False, crop=False, soft_wrap=True)
        return 0
    speed = speed_of(args.speed)
    if not 0 <= args.port <= _HIGHEST_PORT:
        raise UsageError(f"--port {args.port}: give a port from 1 to {_HIGHEST_PORT}, or 0 for a free one")
    answerer = _answers(args.answers)
    assembled = simulated_server(server_text(args), env)

    async def main(stop: asyncio.Event) -> int:
        async with (
            assembled.server(answerer=answerer, speed=speed) as server,
            HttpFront(server.app, host=args.host, port=args.port) as front,
        ):
            terminal.data(front.url)
            for line in words(assembled, speed):
                terminal.note(line)
            await stop.wait()
        terminal.note("stopped")
        return 0

    return run_async(main)


def server_text(args: argparse.Namespace) -> str:
    """The `sim:…` argument that the options stand for.

    Raises:
        UsageError: the server is named twice, or not at all.
    """
    stated = {name: value for name in _SETTINGS if (value := getattr(args, name)) is not None}
    if args.server is not None:
        named = [f"--{name.replace('_', '-')}" for name in _SOURCES if getattr(args, name) is not None]
        if named:
            raise UsageError(f"{args.server} says what to simulate already: leave {' and '.join(named)} out")
        text = str(args.server).strip()
        text = text if text.startswith(PREFIX) else f"{PREFIX}{text}"
    elif args.profile is not None:
        if args.device or args.model or args.engine:
            raise UsageError("give a profile, or a device, a model and an engine: not both")
        text = f"{PREFIX}{args.profile}"
    elif args.device and args.model:
        text = f"{PREFIX}{args.device}/{args.model}/{args.engine or 'vllm'}"
    else:
        raise UsageError("say what to simulate: --device and --model, --profile, or sim:DEVICE/MODEL/ENGINE")
    settings = "&".join(f"{name}={value}" for name, value in stated.items())
    return text if not settings else f"{text}{'&' if '?' in text else '?'}{settings}"


def speed_of(text: str) -> float | None:
    """Simulated seconds in a real one; None for `max`.

    Raises:
        UsageError: it is neither.
    """
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf:
        raise UsageError(f"--speed {text}: give a number above 0, or max")
    return speed


def words(assembled: Assembled, speed: float | None) -> list[str]:
    """What a person should know of the server."""
    settings = assembled.settings
    lines = [
        f"{settings.model} as {settings.engine}: {settings.slots} slots, {settings.context_tokens:,} tokens a request",
        f"step times {assembled.words}",
    ]
    if assembled.launch_line is not None:
        lines.append(f"like: {assembled.launch_line}")
    if speed is None:
        lines.append(
            "speed max: answers come as fast as this machine makes them; rates that a client sees mean nothing"
        )
    elif speed != 1:
        lines.append(
            f"speed {speed:g}: rates that a client sees are {speed:g} times the server's, and times 1/{speed:g}"
        )
    return [*lines, "Ctrl-C ends it"]


def listing() -> str:
    """All faults and misconfigurations, one a line."""
    width = max(len(name) for name in (*FAULTS, *MISCONFIGURATIONS))
    faults = [
        f"  {name:{width}}  {fault.what}{' (the client must cope; the server answers well)' if fault.ours else ''}"
        for name, fault in sorted(FAULTS.items())
    ]
    planted = [
        f"  {code:{width}}  {one.what}{f' ({one.engine})' if one.engine else ''}"
        for code, one in sorted(MISCONFIGURATIONS.items())
    ]
    return "\n".join(["faults (`none` between them is a call that is answered well):", *faults, "",
                      "misconfigurations:", *planted])  # fmt: skip


def _answers(file: str | None) -> Answerer:
    if file is None:
        return DEFAULT_ANSWERS
    path = user_path(file)
    try:
        return parse_script(path.read_bytes(), file)
    except OSError as error:
        raise UsageError(f"--answers {file}: {error.strerror or error}") from None
