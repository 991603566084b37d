"""The key figures in a terminal: one line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from widelane.report.fitting_table import GAP
from widelane.report.key_figure import KeyFigure


@dataclass(frozen=True, slots=True)
class KeyFigureLines:
    """One line a figure: its name, the value, small print."""

    figures: Sequence[KeyFigure]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        grid = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
        grid.add_column()
        grid.add_column(justify="right", no_wrap=True)
        grid.add_column(no_wrap=True)
        grid.add_column(ratio=1, overflow="fold")
        for figure in self.figures:
            grid.add_row(
                Text(figure.name, style="dim"), Text(figure.value, style="bold"), Text(figure.unit),
                Text(figure.note, style="dim"),
            )  # fmt: skip
        yield grid
