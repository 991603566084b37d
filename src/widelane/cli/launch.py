"""`widelane launch MODEL`: the exact start command, every flag with its reason; a unit, a compose file, or a start."""

from __future__ import annotations

import argparse
import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from widelane.cli.console import Terminal
from widelane.cli.launch_run import ready_to_run, run_server
from widelane.cli.plan_options import request_of
from widelane.engines.embedded_launch import default_threads
from widelane.engines.installed import installed_version, program_path
from widelane.engines.shell_words import split
from widelane.engines.usable_cores import usable_cores
from widelane.errors import UsageError
from widelane.plan.launch.address import with_address
from widelane.plan.launch.builder import finished, words_of
from widelane.plan.launch.choice import PROGRAMS, Accelerator, accelerator_of
from widelane.plan.launch.command import with_arguments, with_program
from widelane.plan.launch.compose import compose_file
from widelane.plan.launch.llama_cpp import with_threads
from widelane.plan.launch.unit import systemd_unit
from widelane.plan.make import make_plan
from widelane.plan.report import LaunchPlan, LaunchReport
from widelane.plan.request import PlanRequest
from widelane.report.json import to_json
from widelane.report.launch_view import launch_view

MOST_PORTS = 65535


@dataclass(frozen=True, slots=True)
class Planned:
    """What was asked for, and the command it came to."""

    request: PlanRequest
    report: LaunchReport


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Print the command in the form that was asked for; with --run start it and stay until it ends."""
    if sum((args.run, args.systemd, args.docker)) > 1:
        raise UsageError("--run, --systemd and --docker are three ways to use the command; give one of them")
    if args.port is not None and not 1 <= args.port <= MOST_PORTS:
        raise UsageError(f"--port {args.port}: a port is a number from 1 to {MOST_PORTS}")
    terminal = Terminal(quiet=args.quiet)
    planned = _planned(args, env, terminal)
    ready = ready_to_run(args, env, planned.report.launch) if args.run else None
    if args.json:
        terminal.data(to_json(planned.report))
    elif args.systemd:
        terminal.data(_unit(planned.report.launch, args))
    elif args.docker:
        terminal.data(compose_file(planned.report.launch, accelerator=accelerator_of(planned.request.device)))
    else:
        terminal.out.print(launch_view(planned.report), crop=False)
    return run_server(ready, env, terminal) if ready is not None else 0


def _planned(args: argparse.Namespace, env: Mapping[str, str], terminal: Terminal) -> Planned:
    request = request_of(args, env, terminal)
    program = tuple(word.value for word in split(args.program)) if args.program else ()
    if args.program is not None and not program:
        raise UsageError("--program is empty: name what starts the engine")
    if request.engine_version is None and (args.run or args.device == "auto"):
        request = _for_the_installed(request, program or PROGRAMS[request.engine], terminal)
    plan = make_plan(request)
    launch = _whole_paths(plan.launch, args.model)
    if request.engine == "llama.cpp" and args.device == "auto" and accelerator_of(request.device) is Accelerator.CPU:
        launch = with_threads(launch, default_threads(usable_cores()))
    if program:
        launch = with_program(launch, program)
    if args.host != launch.host or args.port is not None:
        launch = with_address(launch, args.host, args.port or launch.port or 0)
    if more := getattr(args, "arguments", None):
        launch = with_arguments(launch, more)
    return Planned(request, LaunchReport(model=plan.model, device=plan.device, use=plan.use, launch=launch))


def _for_the_installed(request: PlanRequest, program: tuple[str, ...], terminal: Terminal) -> PlanRequest:
    """Flags are written for the version that is installed here, where there is one and it says which."""
    version = installed_version(request.engine, program)
    if version is None:
        return request
    terminal.note(f"for {request.engine} {version}, which is installed here")
    return replace(request, engine_version=version)


def _whole_paths(launch: LaunchPlan, model: str) -> LaunchPlan:
    """The model by its whole path: a unit or a container does not start in this folder. Links stay links."""
    path = Path(model).expanduser()
    if not path.exists():
        return launch

    def whole(word: str | None) -> str | None:
        named = Path(word).expanduser() if word else None
        return os.path.abspath(named) if named in (path, path.parent) and named is not None else word  # noqa: PTH100

    return finished(replace(launch, argv=tuple(replace(part, value=whole(part.value)) for part in launch.argv)))


def _unit(launch: LaunchPlan, args: argparse.Namespace) -> str:
    words = words_of(launch)
    program = program_path(words)
    return systemd_unit(
        launch,
        model=args.model,
        program=program or (None if os.sep in words[0] else f"/usr/local/bin/{words[0]}"),
        user=_user(),
    )


def _user() -> str | None:
    """Who runs the unit; None where the system has no name for this account."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's account without an entry
        return None
