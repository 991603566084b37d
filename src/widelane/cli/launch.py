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
from widelane.cli.plan_checks import check_address
from widelane.cli.plan_options import request_of
from widelane.engines.installed import installed_version, program_path
from widelane.engines.shell_words import split
from widelane.errors import UsageError
from widelane.plan.launch.address import with_address
from widelane.plan.launch.builder import words_of
from widelane.plan.launch.choice import PROGRAMS, accelerator_of
from widelane.plan.launch.command import missing_model, with_arguments, with_program
from widelane.plan.launch.compose import compose_file
from widelane.plan.launch.unit import systemd_unit
from widelane.plan.make import make_plan
from widelane.plan.report import LaunchPlan, LaunchReport
from widelane.plan.request import PlanRequest
from widelane.report.json import to_json
from widelane.report.launch_view import launch_view


@dataclass(frozen=True, slots=True)
class Planned:
    """What was asked for, and the command it came to."""

    request: PlanRequest
    report: LaunchReport


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Print the command in the form that was asked for; with --run start it and stay until it ends."""
    if sum((args.run, args.systemd, args.docker)) > 1:
        raise UsageError("--run, --systemd and --docker are three ways to use the command; give one of them")
    check_address(args)
    terminal = Terminal(quiet=args.quiet)
    planned = _planned(args, env, terminal)
    ready = ready_to_run(args, env, planned.report.launch) if args.run else None
    if args.json:
        terminal.data(to_json(planned.report))
    elif args.systemd or args.docker:
        for doubt in (*planned.report.launch.notes, *_unfinished(planned.report.launch)):
            terminal.note(f"note: {doubt}")
        terminal.data(_as_file(planned, args))
    else:
        terminal.out.print(launch_view(planned.report), crop=False)
    return run_server(ready, env, terminal) if ready is not None else 0


def _as_file(planned: Planned, args: argparse.Namespace) -> str:
    launch = planned.report.launch
    if args.systemd:
        return _unit(launch, args)
    return compose_file(launch, accelerator=accelerator_of(planned.request.device))


def _unfinished(launch: LaunchPlan) -> list[str]:
    """What must still be filled in by hand."""
    left = missing_model(launch)
    return [] if left is None else [f"name your model where {left} stands: this was made from a shape alone"]


def _planned(args: argparse.Namespace, env: Mapping[str, str], terminal: Terminal) -> Planned:
    request = request_of(args, env, terminal)
    program = tuple(word.value for word in split(args.program)) if args.program else ()
    if args.program is not None and not program:
        raise UsageError("--program is empty: name what starts the engine")
    if request.engine_version is None and (args.run or args.device == "auto"):
        request = _for_the_installed(request, program or PROGRAMS[request.engine], terminal)
    request = replace(request, weights_at=_whole_path(request.weights_at), draft_model=_whole_path(request.draft_model))
    plan = make_plan(request)
    launch = plan.launch
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


def _whole_path(word: str | None) -> str | None:
    """A file or folder by its whole path: a unit or a container does not start in this folder. Links stay links."""
    return os.path.abspath(word) if word is not None and Path(word).exists() else word  # noqa: PTH100


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
