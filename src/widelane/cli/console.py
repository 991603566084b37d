"""The terminal: data on stdout, everything else on stderr, and one progress line."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment

from widelane.printable import printable


class SafeConsole(Console):
    """A console on which text of strangers (a model's name, a line of a log) can only be read."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of `renderable`; what their text would do to the terminal is replaced."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


class Terminal:
    """Where a command prints. `quiet` leaves out progress, never errors or data."""

    def __init__(self, *, quiet: bool = False) -> None:
        for stream in (sys.stdout, sys.stderr):
            # A terminal without UTF-8 (LANG=C) gets "?" for a sign it lacks, not a traceback.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        self.out = SafeConsole(highlight=False, soft_wrap=False)
        self.err = SafeConsole(stderr=True, highlight=False)
        self._quiet = quiet

    def data(self, text: str | bytes) -> None:
        """Print one document to stdout, byte for byte; nothing where that was closed (`>&-`)."""
        stdout: TextIO | None = sys.stdout
        if stdout is None:
            return
        raw = text.encode() if isinstance(text, str) else text
        stdout.flush()
        stdout.buffer.write(raw if raw.endswith(b"\n") else raw + b"\n")
        stdout.buffer.flush()

    def note(self, text: str) -> None:
        """Say something that is not data."""
        if not self._quiet:
            self.err.print(text, markup=False, soft_wrap=True)  # a path is copied whole

    @contextlib.contextmanager
    def progress(self, title: str) -> Iterator[Step]:
        """A progress line on stderr while the block runs; plain lines where stderr is no terminal."""
        if self._quiet or not self.err.is_terminal:
            self.note(title)
            yield Step(None)
            return
        bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[detail]}", markup=False),
            TimeElapsedColumn(),
            console=self.err,
            transient=True,
        )
        with bar:
            yield Step(bar, title)


class Step:
    """One running progress line."""

    def __init__(self, bar: Progress | None, title: str = "") -> None:
        self._bar = bar
        self._task = bar.add_task(title, total=None, detail="") if bar else None

    def update(self, fraction: float | None = None, detail: str = "", title: str | None = None) -> None:
        """Show how far it is (0 … 1, None: unknown) and a few words."""
        if self._bar is None or self._task is None:
            return
        self._bar.update(self._task, detail=detail)
        if title is not None:
            self._bar.update(self._task, description=title)
        if fraction is not None:
            self._bar.update(self._task, total=1.0, completed=min(1.0, fraction))
