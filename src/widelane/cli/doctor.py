"""`widelane doctor [SERVER]`: what this server's configuration wastes."""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from widelane.cli.console import Terminal
from widelane.cli.event_loop import run_async, unless_stopped
from widelane.cli.run_dirs import check_writable_file, folder_made, new_run_dir
from widelane.cli.run_folder import kept_unless_refused
from widelane.cli.server import ServerChoice, check, chosen, is_simulated, open_server
from widelane.errors import CallError, UsageError, WidelaneError
from widelane.measure.doctor import DoctorOptions, diagnose, unreachable_report
from widelane.measure.profile import DoctorReport
from widelane.report.html import page
from widelane.report.json import to_json
from widelane.report.terminal import doctor_view
from widelane.whole_file import write_whole

WIDEST = 128
"""Room for this many connections; the quick sweep stays below."""
SIMULATED_S = 600.0
"""For a simulated server, whose time costs nothing: no probe is left out for want of it."""


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Diagnose, print, keep the report. 0 also when there are findings: finding them is the job."""
    choice = chosen(args, env, server=args.server)
    check(choice, env)
    options = DoctorOptions(
        use=args.use,
        context_needed=args.context,
        quick_sweep=not args.no_sweep,
        intrusive=args.intrusive,
        model=None,
    )
    if is_simulated(choice.text):
        options = replace(options, seconds=SIMULATED_S)
    html = check_writable_file(args.html, "--html")
    run_dir = new_run_dir("doctor", args.run_dir, env)
    terminal = Terminal(quiet=args.quiet)

    async def main(stop: asyncio.Event) -> int:
        return await unless_stopped(stop, _doctor(args, env, choice, options, run_dir, html, terminal))

    with kept_unless_refused(run_dir, fresh=True), folder_made(run_dir):
        return run_async(main, virtual=is_simulated(choice.text))


async def _doctor(
    args: argparse.Namespace,
    env: Mapping[str, str],
    choice: ServerChoice,
    options: DoctorOptions,
    run_dir: Path,
    html: Path | None,
    terminal: Terminal,
) -> int:
    try:
        async with open_server(choice, env, run_dir, terminal, widest=WIDEST) as server:
            with terminal.progress("diagnosing") as step:
                report = await diagnose(
                    server.backend,
                    server.engine,
                    server.facts,
                    options,
                    clock=server.clock,
                    rng=random.Random(args.seed),
                    progress=lambda words: step.update(detail=words),
                )
    except CallError as error:
        if args.json:
            terminal.data(to_json(unreachable_report(choice.text or "", error)))
        raise UsageError(str(error)) from None
    if args.json:
        terminal.data(to_json(report))
    else:
        terminal.out.print(doctor_view(report, report_path=str(html or run_dir / "report.html")), crop=False)
    try:
        keep(report, run_dir, html)
    except UsageError as error:
        raise WidelaneError(str(error)) from None  # the diagnosis is made and shown: nothing is taken away
    return 0


def keep(report: DoctorReport, run_dir: Path, html: Path | None) -> None:
    """Save the document and the page in the run's folder, and the page where it was asked for."""
    text = page(None, report)
    write_whole(run_dir / "doctor.json", to_json(report))
    write_whole(run_dir / "report.html", text.encode())
    if html is not None:
        write_whole(html, text.encode())
