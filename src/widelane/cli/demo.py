"""`widelane demo`: a real server diagnosed, restarted as advised, and measured before and after."""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from rich.console import RenderableType

from widelane.cli.console import Terminal
from widelane.cli.event_loop import run_async, unless_stopped
from widelane.cli.run_dirs import check_writable_file, folder_made, new_run_dir
from widelane.cli.run_folder import kept_unless_refused
from widelane.cli.server import ServerChoice, check, chosen, open_server
from widelane.cli.sweep import measured
from widelane.engines.launch_line import parse_launch
from widelane.errors import WidelaneError
from widelane.figures import Finding, Severity
from widelane.measure.doctor import DoctorOptions, diagnose
from widelane.measure.options import SweepOptions
from widelane.measure.profile import DoctorReport, SweepReport, save_profile
from widelane.report.html import page
from widelane.report.json import to_json
from widelane.report.machine import machine_sentence
from widelane.report.terminal import before_after, doctor_view
from widelane.report.text import figure_text
from widelane.whole_file import write_whole

DOCTOR_S = 40.0
SWEEP_S = 52.0
BEFORE_LEVELS = (1, 4, 8, 16)
AFTER_LEVELS = (1, 4, 8, 16, 32)
"""The whole demo stays under three minutes on two cores: one diagnosis and two sweeps."""


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Diagnose, advise, restart, measure both, and say honestly what it bought."""
    args.weights = args.weights or "f32"
    choice = chosen(args, env, server="embedded")
    check(choice, env)
    html = check_writable_file(args.html, "--html")
    run_dir = new_run_dir("demo", args.run_dir, env)
    terminal = Terminal(quiet=args.quiet)

    async def main(stop: asyncio.Event) -> int:
        demo = _Demo(env, run_dir, terminal, as_json=args.json)
        return await unless_stopped(stop, demo.run(choice, html, stop))

    with kept_unless_refused(run_dir, fresh=True), folder_made(run_dir):
        return run_async(main)


class _Demo:
    """The steps of the demo, in order."""

    def __init__(self, env: Mapping[str, str], run_dir: Path, terminal: Terminal, *, as_json: bool) -> None:
        self._env, self._run_dir, self._terminal, self._as_json = env, run_dir, terminal, as_json

    async def run(self, choice: ServerChoice, html: Path | None, stop: asyncio.Event) -> int:
        self._note("1/3  A llama.cpp server as most people start it: no -np, and a question to it.")
        doctor, before = await self._diagnosed(choice, stop)
        self._print(doctor_view(doctor))
        advised = advised_restart(doctor.findings)
        if advised is None:
            self._note("The doctor advises no restart here, so there is no after to show.")
            self._keep(doctor, before, None, html)
            return 0
        self._note(f"\n2/3  The same server, restarted as advised: {advised.words}")
        after = await self._swept(advised.applied_to(choice), AFTER_LEVELS, stop, "sweeping the advised server")
        self._note("\n3/3  Before and after.")
        self._print(before_after(before, after))
        self._print(machine_sentence(before, after))
        self._print(prediction_words(doctor.findings, advised.slots, after))
        self._keep(doctor, before, after, html)
        return 0

    async def _diagnosed(self, choice: ServerChoice, stop: asyncio.Event) -> tuple[DoctorReport, SweepReport]:
        options = DoctorOptions(use=None, seconds=DOCTOR_S)
        async with open_server(choice, self._env, self._run_dir, self._terminal, widest=128) as server:
            with self._terminal.progress("diagnosing") as step:
                report = await diagnose(
                    server.backend,
                    server.engine,
                    server.facts,
                    options,
                    clock=server.clock,
                    rng=random.Random(0),
                    progress=lambda words: step.update(detail=words),
                )
            before = await measured(
                server, _options(BEFORE_LEVELS), None, self._run_dir, self._terminal, stop, "sweeping it as it is"
            )
        return report, before

    async def _swept(
        self, choice: ServerChoice, levels: tuple[int, ...], stop: asyncio.Event, title: str
    ) -> SweepReport:
        async with open_server(choice, self._env, self._run_dir, self._terminal, widest=128) as server:
            return await measured(server, _options(levels), None, self._run_dir, self._terminal, stop, title)

    def _keep(self, doctor: DoctorReport, before: SweepReport, after: SweepReport | None, html: Path | None) -> None:
        text = page(after or before, doctor, before if after else None)
        report = html or self._run_dir / "report.html"
        write_whole(self._run_dir / "doctor.json", to_json(doctor))
        save_profile(before, self._run_dir / "before.json")
        if after is not None:
            save_profile(after, self._run_dir / "after.json")
        write_whole(report, text.encode())
        if self._as_json:
            self._terminal.data(_document(doctor, before, after))
        else:
            self._print(f"\nReport   {report}")

    def _note(self, text: str) -> None:
        if not self._as_json:
            self._terminal.out.print(text, markup=False, style="bold")

    def _print(self, what: RenderableType) -> None:
        if not self._as_json:
            self._terminal.out.print(what, crop=False)


def _options(levels: tuple[int, ...]) -> SweepOptions:
    return SweepOptions(levels=levels, seconds=SWEEP_S, output_tokens=48, min_repeats=2, max_repeats=6, seed=0)


def _document(doctor: DoctorReport, before: SweepReport, after: SweepReport | None) -> bytes:
    """One JSON object: the three documents."""
    parts: dict[str, Any] = {
        "schema": {"name": "widelane.demo", "version": 1},
        "doctor": msgspec.Raw(to_json(doctor)),
        "before": msgspec.Raw(to_json(before)),
        "after": msgspec.Raw(to_json(after)) if after is not None else None,
    }
    return msgspec.json.encode(parts)


class Advice(msgspec.Struct, frozen=True):
    """Slots and context that the doctor advises, and its words for them."""

    slots: int
    context: int | None
    words: str

    def applied_to(self, choice: ServerChoice) -> ServerChoice:
        """The embedded server that the advice describes."""
        return replace(choice, text=f"embedded:{self.slots}", context=self.context)


def prediction_words(findings: Sequence[Finding], slots: int, after: SweepReport) -> str:
    """What the doctor predicted for the advised width, beside what was measured there; empty when one is missing."""
    gain = next((finding.gain for finding in findings if finding.code == "too-few-slots"), None)
    level = next((level for level in after.levels if level.concurrency == slots), None)
    if gain is None or gain.value is None or level is None or level.output_tok_s.value is None:
        return ""
    return (
        f"The doctor's prediction for {slots} lanes: {figure_text(gain)}. Measured: {figure_text(level.output_tok_s)}."
    )


def advised_restart(findings: Sequence[Finding]) -> Advice | None:
    """The restart that the finding `too-few-slots` advises, None when it is healthy.

    Raises:
        WidelaneError: the advice names no slots (a mistake of ours, not of the user's).
    """
    for finding in findings:
        if finding.code != "too-few-slots" or finding.severity not in (Severity.ERROR, Severity.WARNING):
            continue
        assert finding.fix is not None, "a warning of too few slots says what to do"
        settings = parse_launch(f"llama-server {finding.fix.flag}", engine="llama.cpp").settings
        slots, context = settings.get("parallel"), settings.get("ctx_size")
        if slots is None:
            raise WidelaneError(f"the advice {finding.fix.flag!r} names no slots")
        return Advice(int(slots), int(context) if context is not None else None, finding.fix.flag)
    return None
