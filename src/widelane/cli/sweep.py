"""`widelane sweep [SERVER]`: how wide is the road?"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from widelane.cli.console import Step, Terminal
from widelane.cli.event_loop import run_async
from widelane.cli.main import INTERRUPTED
from widelane.cli.run_dirs import check_writable_file, new_run_dir, newest_unfinished, user_path
from widelane.cli.run_folder import kept_unless_refused
from widelane.cli.server import OpenServer, ServerChoice, check, chosen, is_simulated, open_server
from widelane.cli.sweep_settings import asked, config_of, new_options, resumed
from widelane.errors import CallError, UsageError, WidelaneError
from widelane.lanes.store import RunStore
from widelane.measure.options import SweepOptions
from widelane.measure.profile import SweepReport, save_profile
from widelane.measure.sweep import Progress, sweep
from widelane.report.html import page
from widelane.report.json import to_json
from widelane.report.terminal import sweep_table
from widelane.whole_file import write_whole


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Measure, print, keep the run."""
    choice = chosen(args, env, server=args.server)
    stated = asked(args)
    html = check_writable_file(args.html, "--html")
    profile = check_writable_file(args.profile, "--profile")
    terminal = Terminal(quiet=args.quiet)
    run_dir = _run_dir(args, env)
    with kept_unless_refused(run_dir, fresh=not args.resume), contextlib.ExitStack() as stack:
        if args.resume:
            store = stack.enter_context(RunStore.open(run_dir))
            if store.complete:
                raise UsageError(f"nothing to resume: the sweep in {run_dir} is finished; start one without --resume")
            choice, options = resumed(store.config, choice, stated, server_stated=args.server is not None)
            terminal.note(f"going on with {run_dir}")
        else:
            options = new_options(stated)
            check(choice, env)
            store = stack.enter_context(RunStore.create(run_dir, config_of(choice, options)))
        command = _Sweep(choice, options, store, run_dir, env, terminal, args.json, html, profile)
        return run_async(command.main, virtual=is_simulated(choice.text))


def _run_dir(args: argparse.Namespace, env: Mapping[str, str]) -> Path:
    if not args.resume:
        return new_run_dir("sweep", args.run_dir, env)
    return user_path(args.run_dir) if args.run_dir else newest_unfinished("sweep", env)


@dataclass(frozen=True, slots=True)
class _Sweep:
    """One run of the command, settings resolved."""

    choice: ServerChoice
    options: SweepOptions
    store: RunStore
    run_dir: Path
    env: Mapping[str, str]
    terminal: Terminal
    as_json: bool
    html: Path | None
    profile: Path | None

    async def main(self, stop: asyncio.Event) -> int:
        """Measure; the exit status. What fails once something was measured is no bad input, and takes nothing away.

        Raises:
            UsageError: nothing could be measured.
            WidelaneError: the sweep, or what is to be written at its end, failed; what was measured is kept.
        """
        try:
            return await self._run(stop)
        except (CallError, UsageError) as error:
            if self.store.items("repeat"):
                raise WidelaneError(f"{error}\nWhat was measured is kept in {self.run_dir}.") from None
            raise UsageError(str(error)) from None

    async def _run(self, stop: asyncio.Event) -> int:
        widest = max(self.options.levels) if self.options.levels else self.options.max_level
        async with open_server(self.choice, self.env, self.run_dir, self.terminal, widest=widest) as server:
            report = await measured(server, self.options, self.store, self.run_dir, self.terminal, stop)
        self._keep(report)
        if report.complete:
            await self.store.mark_complete()
        if self.as_json:
            self.terminal.data(to_json(report))
        else:
            page_path = self.html or self.run_dir / "report.html"
            self.terminal.out.print(sweep_table(report, report_path=str(page_path)))
        if not report.complete:
            self.terminal.note(f"not complete; go on with: widelane sweep --resume --run-dir {self.run_dir}")
        if report.server_gone:
            raise WidelaneError(f"the server stopped answering; its log, if it was ours, is in {self.run_dir}")
        return INTERRUPTED if stop.is_set() else 0

    def _keep(self, report: SweepReport) -> None:
        text = page(report, None)
        save_profile(report, self.run_dir / "sweep.json")
        write_whole(self.run_dir / "report.html", text.encode())
        if self.html is not None:
            write_whole(self.html, text.encode())
        if self.profile is not None:
            save_profile(report, self.profile)


async def measured(
    server: OpenServer,
    options: SweepOptions,
    store: RunStore | None,
    run_dir: Path,
    terminal: Terminal,
    stop: asyncio.Event,
    title: str = "sweeping",
) -> SweepReport:
    """One sweep with its progress line."""
    with terminal.progress(title) as step:
        report = await sweep(
            server.backend,
            server.engine,
            server.facts,
            options,
            clock=server.clock,
            rng=random.Random(options.seed),
            store=store,
            progress=teller(step),
            stop=stop,
        )
    return replace(report, run_dir=str(run_dir))


def teller(step: Step) -> Callable[[Progress], None]:
    """What turns a sweep's progress into words."""

    def tell(now: Progress) -> None:
        rate = "" if now.tok_s is None else f"  {now.tok_s:.0f} tok/s"
        what = "warming up" if now.level == 0 else f"{now.level} at once{rate}"
        step.update(now.fraction, f"{what}  at most {now.eta_s:.0f} s more")

    return tell
