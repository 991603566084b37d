"""The pieces that every terminal view is laid out with: labelled lines, signs, indents, commands to copy."""

from __future__ import annotations

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from widelane.report.text import DASH

LABEL_WIDTH = 9
"""Width of the left column of labels, its gap included."""


def labelled(label: str, body: str | Text) -> Table:
    """A word in the left column and what it names beside it, wrapped between words."""
    grid = Table.grid(padding=(0, 0), pad_edge=False)
    grid.add_column(width=LABEL_WIDTH)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, style="dim"), Text(body) if isinstance(body, str) else body)
    return grid


def command_line(label: str, command: str) -> Text:
    """A command on one line, however long: it is there to be copied (print it uncropped)."""
    return Text.assemble((label.ljust(LABEL_WIDTH), "dim"), command, no_wrap=True, overflow="ignore")


def indent(body: RenderableType) -> Padding:
    """The body two columns to the right."""
    return Padding(body, (0, 0, 0, 2))


def dash_line(what: str, reason: str) -> RenderableType:
    """What is not known, and why."""
    return sign_line(DASH, "dim", f"{what}: {reason}", dim=True)


def sign_line(sign: str, style: str, text: str, *, dim: bool = False) -> RenderableType:
    """A sign in its colour and a text beside it."""
    grid = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    grid.add_row(Text(sign, style=style), Text(text, style="dim" if dim else ""))
    return indent(grid)
