"""The server of `widelane predict`: simulated from an argument or a profile, or swept first."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from widelane.cli.console import Terminal
from widelane.cli.event_loop import run_async
from widelane.cli.run_dirs import user_path
from widelane.cli.server import ServerChoice, check, chosen, is_simulated, open_server
from widelane.cli.sweep import measured
from widelane.errors import UsageError
from widelane.facts.files.hub_cache import hub_dirs
from widelane.measure.options import SweepOptions
from widelane.measure.profile import SweepReport, load_profile
from widelane.predict.open_server import of_profile, of_spec
from widelane.predict.server import PredictedServer
from widelane.predict.shape import Shape
from widelane.sim.spec import ProfiledServer, parse_sim

_LONGEST_SWEPT_PROMPT = 1024
"""Tokens of a prompt in the quick sweep: longer ones take its time and tell little more of prefill."""


def predicted_server(
    args: argparse.Namespace, env: Mapping[str, str], shape: Shape, terminal: Terminal
) -> PredictedServer:
    """The server to predict on.

    Raises:
        UsageError: it cannot be read, or does not answer.
        KeyboardInterrupt: the sweep was interrupted before it had measured anything.
    """
    text = args.server
    if text is not None and is_simulated(text):
        return _simulated(text, env)
    if text is not None and _is_profile(text):
        path = user_path(text)
        return of_profile(load_profile(path), path)
    choice = chosen(args, env, server=text)
    if is_simulated(choice.text):  # from the environment
        return _simulated(choice.text or "", env)
    check(choice, env)
    return of_profile(_swept(choice, args.seconds, shape, env, terminal))


def _simulated(text: str, env: Mapping[str, str]) -> PredictedServer:
    spec = parse_sim(text)
    if isinstance(spec.source, ProfiledServer):
        spec = replace(spec, source=ProfiledServer(path=user_path(str(spec.source.path))))
    return of_spec(spec, hub_dirs=hub_dirs(env, Path(env.get("HOME") or Path.home())))


def _is_profile(text: str) -> bool:
    """A file, or a name that can only be meant for one: no URL ends so."""
    return text.lower().endswith(".json") and "://" not in text


def _swept(
    choice: ServerChoice, seconds: float, shape: Shape, env: Mapping[str, str], terminal: Terminal
) -> SweepReport:
    """A quick sweep of a real server, up to as many lanes as the job can use."""
    options = SweepOptions(
        max_level=max(1, min(128, shape.calls)),
        prompt_tokens=max(1, min(_LONGEST_SWEPT_PROMPT, shape.item_prompt_tokens)),
        seconds=seconds,
        seed=0,
    )
    reports: list[SweepReport] = []

    async def main(stop: asyncio.Event) -> int:
        with tempfile.TemporaryDirectory(prefix="widelane-predict-") as folder:
            async with contextlib.AsyncExitStack() as stack:
                opened = open_server(choice, env, Path(folder), terminal, widest=options.max_level)
                server = await stack.enter_async_context(opened)
                reports.append(await measured(server, options, None, Path(folder), terminal, stop, "sweeping first"))
        return 0

    run_async(main)
    report = replace(reports[0], run_dir=None)
    if not report.levels:
        raise UsageError(f"Nothing could be measured of {report.server.url}, so there is nothing to predict from.")
    return report
