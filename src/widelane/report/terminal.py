"""What the commands show in a terminal: verdict first, then the evidence, then what to do. Rich renderables only.

Colour is never the only carrier of a meaning, and text from a server is never read as markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from widelane.figures import Finding, Severity
from widelane.measure.profile import DoctorReport, Knee, Level, Limit, SweepReport
from widelane.report.compare import compare
from widelane.report.facts import known_beside, unknown_by_reason
from widelane.report.level_table import LevelColumns, level_rows, pair_rows
from widelane.report.plot import plot
from widelane.report.terminal_parts import command_line, dash_line, indent, labelled, sign_line
from widelane.report.text import DASH, figure_text, list_text, server_text
from widelane.report.verdict import client_text, flag_lines, sweep_verdict, unknown_cells

__all__ = ["before_after", "doctor_view", "plot", "sweep_table"]

SIGNS = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.INFO: "·", Severity.OK: "✓", Severity.NOT_CHECKED: DASH}
_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "bold yellow",
    Severity.INFO: "cyan",
    Severity.OK: "green",
    Severity.NOT_CHECKED: "dim",
}
_WIDE = 116
"""From this many columns a fix stands to the right of its finding, else below it."""


def sweep_table(report: SweepReport, *, report_path: str | None = None) -> RenderableType:
    """Server, verdict, the levels, the plot, the client's own share, doubts, and where the run lies."""
    parts: list[RenderableType] = [
        labelled("Server", server_text(report.server.url, report.server.facts)),
        labelled("Verdict", Text(sweep_verdict(report), style="bold")),
    ]
    if report.limit_evidence:
        parts.append(labelled("", report.limit_evidence))
    if report.levels:
        parts += ["", indent(level_rows(report.levels, _knee_at(report.knee)))]
        parts += [*_plot_block(report.levels, report.knee, report.limit), ""]
    parts.append(labelled("Client", client_text(report.levels)))
    parts += [sign_line("·", "cyan", note) for note in report.notes]
    parts += _doubts(report.levels)
    parts += _where(report.run_dir, report_path)
    return Group(*parts)


def doctor_view(report: DoctorReport, *, report_path: str | None = None) -> RenderableType:
    """Server, verdict, the quick sweep, the findings with their fixes, and the next step."""
    parts: list[RenderableType] = [
        labelled("Server", server_text(report.server, report.facts)),
        labelled("Verdict", Text(report.verdict, style="bold")),
    ]
    facts = known_beside(report.facts)
    if facts:
        parts.append(labelled("Facts", " · ".join(facts)))
    if report.levels:
        parts += ["", indent(LevelColumns(report.levels)), indent(_limit_line(report))]
    shown = (_without_limit(finding, report.limit_evidence) for finding in by_severity(report.findings))
    parts += ["", *(FindingLine(finding) for finding in shown), ""]
    parts += _unknown_facts(report)
    parts += _doubts(report.levels)
    parts.append(command_line("Next", next_step(report.findings)))
    parts += _where(None, report_path)
    return Group(*parts)


def before_after(before: SweepReport, after: SweepReport) -> RenderableType:
    """Both sweeps level by level, and the ratio of their bests with its interval."""
    result = compare(before, after)
    parts: list[RenderableType] = [
        labelled("Before", server_text(before.server.url, before.server.facts)),
        labelled("After", server_text(after.server.url, after.server.facts)),
        labelled("Verdict", Text(result.verdict, style="bold")),
    ]
    if result.detail:
        parts.append(labelled("", result.detail))
    if result.pairs:
        parts += ["", indent(pair_rows(result.pairs))]
        parts += [dash_line(what, reason) for what, reason in _missing_ratios(before, after)]
    parts += ["", labelled("Limit", f"before: {before.limit}, after: {after.limit}")]
    return Group(*parts)


def by_severity(findings: Sequence[Finding]) -> list[Finding]:
    """What matters most first; the order within a severity is kept."""
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def next_step(findings: Sequence[Finding]) -> str:
    """The first command that mends something, else the first flag, else that there is nothing to do."""
    broken = [f for f in by_severity(findings) if f.severity in (Severity.ERROR, Severity.WARNING)]
    fixes = [finding.fix for finding in broken if finding.fix is not None]
    command = next((fix.command for fix in fixes if fix.command), None)
    if command:
        return command
    if fixes:
        return f"restart the server with {fixes[0].flag}"
    return "see the findings above" if broken else "nothing to change"


class FindingLine:
    """One finding: sign, code, what was seen; its fix to the right where there is room, else on the next line."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        finding = self.finding
        style = _STYLES[finding.severity]
        grid = Table.grid(padding=(0, _GAP_FINDING, 0, 0), pad_edge=False)
        grid.add_column(width=1)
        grid.add_column(width=min(_CODE_WIDTH, options.max_width // 3), overflow="fold")
        grid.add_column(ratio=1)
        fix = _fix_text(finding)
        seen = _seen_text(finding)
        head = (Text(SIGNS[finding.severity], style=style), Text(finding.code, style=style))
        if options.max_width >= _WIDE and fix:
            grid.add_column(width=options.max_width * 2 // 5)
            grid.expand = True
            grid.add_row(*head, seen, fix)
        else:
            grid.add_row(*head, Group(seen, fix) if fix else seen)
        yield Padding(grid, (0, 0, 0, 2))


_GAP_FINDING = 2
_CODE_WIDTH = 23
"""Longest code of a finding, in characters."""


def _seen_text(finding: Finding) -> Text:
    lead = "not checked: " if finding.severity is Severity.NOT_CHECKED else ""
    text = Text(f"{lead}{finding.title.rstrip('.')}.")
    if finding.severity is Severity.OK:
        return text  # a healthy thing is one line; its evidence stands in the page and the document
    if finding.evidence and finding.evidence.strip(". ") != finding.title.strip(". "):
        text.append(f" {finding.evidence}", style="dim")
    return text


def _fix_text(finding: Finding) -> Text | None:
    if finding.fix is None and finding.gain is None:
        return None
    text = Text()
    if finding.fix is not None:
        text.append(finding.fix.flag, style="bold cyan")
    if finding.gain is not None:
        gain = figure_text(finding.gain) if finding.gain.value is not None else f"gain not known: {finding.gain.reason}"
        text.append(f"{'   ' if text else ''}{gain}")
    return text


class _PlotBlock:
    """The plot, as wide as the terminal allows."""

    def __init__(self, levels: Sequence[Level], knee: Knee | None, limit: Limit) -> None:
        self.levels, self.knee, self.limit = levels, knee, limit

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(plot(self.levels, self.knee, self.limit, width=options.max_width), no_wrap=True)


def _plot_block(levels: Sequence[Level], knee: Knee | None, limit: Limit) -> list[RenderableType]:
    measured = [level for level in levels if level.output_tok_s.number]
    return ["", indent(_PlotBlock(levels, knee, limit))] if len(measured) > 1 else []


def _without_limit(finding: Finding, limit_evidence: str) -> Finding:
    """The finding without the evidence that the limit line above says already."""
    rest = finding.evidence.removeprefix(limit_evidence).strip() if limit_evidence else finding.evidence
    return replace(finding, evidence=rest)


def _limit_line(report: DoctorReport) -> Text:
    text = Text.assemble(("limit: ", "dim"), (str(report.limit), "bold"))
    if report.limit_evidence:
        text.append(f" ({report.limit_evidence.rstrip('.')})", style="dim")
    text.append(f"\nclient: {client_text(report.levels)}", style="dim")
    return text


def _doubts(levels: Sequence[Level]) -> list[RenderableType]:
    lines = [sign_line("!", "bold yellow", text) for text in flag_lines(levels)]
    return [*lines, *(dash_line(cell.what, cell.reason) for cell in unknown_cells(levels))]


def _unknown_facts(report: DoctorReport) -> list[RenderableType]:
    return [dash_line(list_text(names), reason) for reason, names in unknown_by_reason(report.facts).items()]


def _missing_ratios(before: SweepReport, after: SweepReport) -> list[tuple[str, str]]:
    found: dict[str, list[int]] = {}
    for pair in compare(before, after).pairs:
        if pair.ratio.value is None:
            found.setdefault(pair.ratio.reason or "no reason given", []).append(pair.concurrency)
    return [(f"ratio at {list_text(widths)}", reason) for reason, widths in found.items()]


def _where(run_dir: str | None, report_path: str | None) -> list[RenderableType]:
    rows = (("Run", run_dir), ("Report", report_path))
    return [labelled(label, path) for label, path in rows if path]


def _knee_at(knee: Knee | None) -> int | None:
    return None if knee is None or knee.concurrency.number is None else int(knee.concurrency.number)
