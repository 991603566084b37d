"""What `widelane plan` shows in a terminal: what to do first, then what it rests on, what else would help, the command.

Rich renderables only. Colour is never the only carrier of a meaning, and no text is read as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from widelane.plan.report import Lever, MemoryPart, PlanReport, StepPoint
from widelane.report.fitting_table import GAP, Column, FittingTable
from widelane.report.key_figure_lines import KeyFigureLines
from widelane.report.memory_bar import drawn_bytes, memory_bar
from widelane.report.plan_words import (
    by_gain,
    device_text,
    engine_text,
    key_figures,
    largest_share,
    lever_change,
    loses,
    model_text,
    shown_parts,
    steps_note,
    unknown_figures,
)
from widelane.report.terminal_parts import command_line, dash_line, indent, labelled, sign_line
from widelane.report.text import (
    cell,
    figure_text,
    gain_text,
    interval_text,
    number_text,
    part_text,
    with_half_width,
)

_TAKEN, _LOSES, _POSSIBLE = ("✓", "green"), ("✗", "bold red"), ("·", "cyan")
_REASONS = "`widelane launch` with the same options tells the reason for each flag, and starts it with --run"
_BAR_MOST = 40
"""Longest bar of the memory, in characters."""


def plan_table(report: PlanReport, *, page_path: str | None = None) -> RenderableType:
    """Recommendation and main figures, steps, prefill, memory, levers, launch command, what is not known."""
    parts: list[RenderableType] = [
        labelled("Model", model_text(report.model)),
        labelled("Device", device_text(report.device)),
        labelled("Engine", engine_text(report)),
        labelled("Verdict", Text(report.recommendation.sentence, style="bold")),
        *(labelled("", text) for text in report.recommendation.why),
        "",
        indent(KeyFigureLines(key_figures(report))),
        "",
        labelled("Width", report.width.sentence),
    ]
    parts += _steps(report)
    parts += _prefill(report)
    parts += _memory(report)
    parts += _levers(report)
    parts += ["", command_line("Command", report.launch.command), labelled("", _REASONS)]
    parts += _doubts(report)
    return Group(*parts, *([labelled("Report", page_path)] if page_path else []))


def _steps(report: PlanReport) -> list[RenderableType]:
    if not report.steps:
        return []
    steps = report.steps

    def column(head: str, text: Callable[[StepPoint], str], drop: int = 0, style: str = "") -> Column:
        return Column(head, [text(step) for step in steps], drop, style)

    def part(of: Callable[[StepPoint], float]) -> Callable[[StepPoint], str]:
        return lambda step: part_text(of(step) * 1e3)

    # What fills a step goes before what comes of it when there is no room; the smallest parts go first.
    parts = shown_parts(steps)
    by_size = sorted(parts, key=lambda one: largest_share(one[2], steps))
    drops = {key: 20 - index for index, (key, _, _) in enumerate(by_size)}
    columns = [
        column("batch", lambda step: number_text(step.batch)),
        column("together\ntok/s", lambda step: with_half_width(step.output_tok_s), style="bold"),
        column("each\ntok/s", lambda step: cell(step.per_request_tok_s)),
        column("step\nms", lambda step: cell(step.step_s, 1e3)),
        *(column(f"{name.replace(' ', chr(10))}{'' if ' ' in name else chr(10) + 'ms'}", part(of), drops[key])
          for key, name, of in parts),
        column("pool\nholds it", lambda step: "yes" if step.fits else "no", 1),
    ]  # fmt: skip
    note = steps_note(report)
    return ["", indent(FittingTable(columns)), *([indent(Text(note, style="dim"))] if note else [])]


def _prefill(report: PlanReport) -> list[RenderableType]:
    known = [point for point in report.prefill if point.seconds.value is not None]
    if not known:
        return []
    columns = [
        Column("prompt\ntokens", [number_text(point.depth_tokens) for point in known]),
        Column("read in\ns", [cell(point.seconds) for point in known], 0, "bold"),
        Column("rate there\ntok/s", [with_half_width(point.tok_s) for point in known], 1),
    ]
    return ["", labelled("Prefill", "time to read a prompt of this length"), indent(FittingTable(columns))]


def _memory(report: PlanReport) -> list[RenderableType]:
    fit, pool = report.sequences_that_fit, report.kv_pool
    parts: list[RenderableType] = [""]
    if report.memory:
        parts += [labelled("Memory", "from the bottom up"), indent(_MemoryBars(report.memory))]
        bar = memory_bar(report.memory, report.device.memory_bytes)
        parts += [sign_line("✗", "bold red", bar.overflow)] if bar is not None and bar.overflow else []
        parts.append("")
    parts.append(labelled("KV pool", f"{figure_text(pool.tokens)}: {pool.meaning}"))
    if fit.typical.value is not None:
        longest = f", {figure_text(fit.worst_case)} of the longest" if fit.worst_case.value is not None else ""
        parts.append(labelled("", f"holds {figure_text(fit.typical)} of the typical length{longest}"))
    return parts


@dataclass(frozen=True, slots=True)
class _MemoryBars:
    """One line a part: name, size, and a bar as long as its share of all."""

    parts: Sequence[MemoryPart]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        whole = sum(drawn_bytes(part.bytes) for part in self.parts)
        names = max(len(part.name) for part in self.parts)
        sizes = max(len(figure_text(part.bytes)) for part in self.parts)
        room = min(_BAR_MOST, options.max_width - names - sizes - 2 * GAP)
        for part in self.parts:
            share = drawn_bytes(part.bytes) / whole if whole else 0.0
            length = round(share * room) if room > 3 else 0
            bar = "█" * max(length, 1 if share and room > 3 else 0)
            yield Text.assemble(
                (f"{part.name:<{names}}", "dim"), f"{'':{GAP}}{figure_text(part.bytes):>{sizes}}{'':{GAP}}",
                (bar, "cyan"), overflow="fold",
            )  # fmt: skip


def _levers(report: PlanReport) -> list[RenderableType]:
    if not report.levers:
        return []
    head = labelled("Levers", "in order of gain: ✓ in the command below, · possible, ✗ loses")
    return ["", head, *(_LeverLine(lever) for lever in by_gain(report.levers))]


@dataclass(frozen=True, slots=True)
class _LeverLine:
    """One lever: sign, gain, what it is and buys; its flag and price below."""

    lever: Lever

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lever = self.lever
        sign, style = _LOSES if loses(lever) else _TAKEN if lever.taken else _POSSIBLE
        grid = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
        grid.add_column(width=1)
        grid.add_column(width=6, justify="right", no_wrap=True)
        grid.add_column(ratio=1, overflow="fold")
        text = Text(lever.title, style="bold")
        text.append(f"  {lever.buys}", style="not bold")
        text.append(f" {self._change()}", style="not bold")
        if lever.flag:
            text.append(f"\n{lever.flag}", style="not bold cyan")
        text.append(f"\n{lever.price}", style="not bold dim")
        grid.add_row(Text(sign, style=style), Text(gain_text(lever.gain), style=style), text)
        yield indent(grid)

    def _change(self) -> str:
        interval = interval_text(self.lever.gain)
        if self.lever.gain.value is None:
            return f"not known: {self.lever.gain.reason}"
        return f"{lever_change(self.lever)}{f' (gain {interval})' if interval else ''}"


def _doubts(report: PlanReport) -> list[RenderableType]:
    lines = [sign_line("·", "cyan", text) for text in report.notes]
    lines += [sign_line("!", "bold yellow", text) for text in report.model.assumed]
    lines += [dash_line(what, reason) for what, reason in unknown_figures(report)]
    return ["", *lines] if lines else []
