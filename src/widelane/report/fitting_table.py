"""A table for a terminal that leaves out whole columns where there is no room, and never wraps or cuts a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from widelane.report.text import list_text

GAP = 2
"""Spaces between columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head (one or two lines), its cells, and how soon it goes when there is no room (0 stays)."""

    head: str
    cells: Sequence[str]
    drop: int = 0
    style: str = ""

    @property
    def width(self) -> int:
        return max(len(line) for line in [*self.head.split("\n"), *self.cells])


@dataclass(frozen=True, slots=True)
class FittingTable:
    """Right-aligned columns; those that do not fit are left out whole, least important first, and named below."""

    columns: Sequence[Column]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = columns_that_fit(self.columns, options.max_width)
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
        for column in shown:
            table.add_column(Text(column.head, justify="right"), justify="right", style=column.style, no_wrap=True)
        for row in zip(*(column.cells for column in shown), strict=True):
            table.add_row(*(Text(value) for value in row))
        yield table
        left_out = [column.head.replace("\n", " ") for column in self.columns if column not in shown]
        if left_out:
            yield Text(f"Too narrow for {list_text(left_out)}.", style="dim")


def columns_that_fit(columns: Sequence[Column], width: int) -> list[Column]:
    """The columns in order, without the least important ones that are too many for `width` characters."""
    shown = list(columns)
    while _total(shown) > width and any(column.drop for column in shown):
        shown.remove(max(shown, key=lambda column: column.drop))
    return shown


def _total(columns: Sequence[Column]) -> int:
    return sum(column.width + GAP for column in columns)
