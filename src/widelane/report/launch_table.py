"""The launch command in a terminal: one flag a line with its reason, what was left out, and the lines to copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from widelane.plan.report import LaunchPlan
from widelane.report.fitting_table import GAP
from widelane.report.launch_lines import LaunchLine, argv_lines, environ_lines, left_out_lines, written_for
from widelane.report.terminal_parts import command_line, indent, labelled, sign_line

_FLAG_SHARE = 0.45
"""Most of the width that the column of flags takes; longer ones get a line of their own."""


def launch_table(launch: LaunchPlan) -> RenderableType:
    """The command for reading and, on one line however long, for copying (print it uncropped)."""
    lines = [*environ_lines(launch), *argv_lines(launch)]
    out = left_out_lines(launch)
    parts: list[RenderableType] = [labelled("Launch", written_for(launch))]
    parts += [*(sign_line("!", "bold yellow", text) for text in launch.notes), ""] if launch.notes else []
    parts += [indent(_Flags(lines, "bold cyan"))]
    if out:
        parts += ["", labelled("Left out", "on purpose:"), indent(_Flags(out, ""))]
    parts += ["", command_line("Command", launch.command)]
    parts += [command_line("" if index else "Then", command) for index, command in enumerate(launch.afterwards)]
    return Group(*parts)


@dataclass(frozen=True, slots=True)
class _Flags:
    """Flags and reasons in two columns; a flag too long for its column stands above its reason."""

    lines: Sequence[LaunchLine]
    style: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = int(options.max_width * _FLAG_SHARE)
        column = max((len(line.text) for line in self.lines if len(line.text) <= room), default=room)
        for line in self.lines:
            text = Text(line.text, style=self.style, overflow="fold")
            if len(line.text) > column:
                yield text
                text = Text("")
                if not line.reason:
                    continue
            grid = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
            grid.add_column(width=column)
            grid.add_column(ratio=1, overflow="fold")
            grid.add_row(text, Text(line.reason, style="dim"))
            yield grid
