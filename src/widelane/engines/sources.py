"""Facts from beside HTTP: the launch line, the process that owns the port, the start log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from widelane.engines.hints import Hints
from widelane.engines.launch_line import LaunchLine, Setting, of_process, parse_launch
from widelane.engines.start_log import StartLog, read_start_log
from widelane.figures import Figure, Origin, unknown
from widelane.printable import printable


@dataclass(frozen=True, slots=True)
class Sources:
    """What the hints say about one engine.

    Attributes:
        lines: launch lines with a word for where each comes from, the most trusted first.
        log: empty when there is none, or when it is another engine's.
        whole: a launch line is known with its environment, so that a setting which is not there has its default.
        foreign: engine that the pasted launch line starts, where it is another one.
    """

    lines: tuple[tuple[LaunchLine, str], ...]
    log: StartLog
    whole: bool
    foreign: str | None = None

    @property
    def launch(self) -> LaunchLine | None:
        """The launch line to show and to change."""
        return self.lines[0][0] if self.lines else None

    def setting(self, *names: str) -> tuple[Setting, str] | None:
        """The first of the settings that is made, and where."""
        for line, where in self.lines:
            for name in names:
                if name in line.settings:
                    return line.settings[name], where
        return None

    def read(self, name: str, unit: str = "", convert: Callable[[str], float | int | str] = str) -> Figure | None:
        """A setting as a figure, None when no launch line makes it or its value cannot be read."""
        found = self.setting(name)
        if found is None:
            return None
        value, where = found
        try:
            return Figure(
                value if isinstance(value, bool) else convert(value), unit, Origin.READ, reason=f"on the {where}"
            )
        except ValueError:
            return None

    def default(self, value: float | int | str | bool, unit: str, what: str) -> Figure | None:
        """The engine's default, where a launch line is known and does not say otherwise."""
        if not self.whole:
            return None
        return Figure(value, unit, Origin.INFERRED, reason=f"{what} is not on the {self.lines[0][1]}: the default")

    def launch_command(self) -> Figure:
        """The launch line as it may be shown."""
        if self.launch is None and self.foreign is not None:
            return unknown("", f"the pasted launch line starts {self.foreign}, which is not what answers")
        if self.launch is None:
            return unknown("", "not known: paste it with --launch, or run on the server's own machine")
        return Figure(self.launch.text, "", Origin.READ, reason=f"the {self.lines[0][1]}")


def read_sources(hints: Hints, engine: str) -> Sources:
    """What `hints` say about a server of this engine. A line or log of another engine is left aside.

    Raises:
        UsageError: the pasted launch line has a quote that never closes.
    """
    lines: list[tuple[LaunchLine, str]] = []
    whole: list[bool] = []
    if hints.launch is not None:
        lines.append((parse_launch(hints.launch, engine=engine), "launch line"))
        whole.append(True)
    if hints.process is not None:
        where = f"command line of process {hints.process.pid}"
        lines.append((of_process(hints.process.argv, hints.process.environ or {}), where))
        whole.append(hints.process.environ is not None)
    mine = [at for at, (line, _) in enumerate(lines) if line.engine == engine]
    log = read_start_log(hints.log) if hints.log is not None else StartLog()
    return Sources(
        lines=tuple(lines[at] for at in mine),
        log=log if log.engine == engine else StartLog(),
        whole=any(whole[at] for at in mine),
        foreign=lines[0][0].engine if hints.launch is not None and 0 not in mine else None,
    )


def first_known(*candidates: Figure | None, unit: str, otherwise: str) -> Figure:
    """The first figure with a value; an unknown one with the reason when there is none.

    Where a later figure that was read says otherwise, the first keeps its place and says so.
    """
    known = [figure for figure in candidates if figure is not None and figure.value is not None]
    if not known:
        return unknown(unit, otherwise)
    first = known[0]
    rivals = (
        figure for figure in known[1:] if figure.origin is Origin.READ and type(figure.value) is type(first.value)
    )
    other = next((figure for figure in rivals if figure.value != first.value), None)
    if other is None or first.origin is not Origin.READ:
        return first
    note = f"{first.reason or 'the server says so'}; but {other.value} {other.reason or 'elsewhere'}"
    return Figure(first.value, first.unit, first.origin, first.low, first.high, note)


def read_figure(value: object, unit: str, reason: str | None = None) -> Figure | None:
    """A figure that a source states, None when it does not."""
    if value is None or not isinstance(value, (bool, int, float, str)):
        return None
    shown = printable(value) if isinstance(value, str) else value
    return Figure(shown, unit, Origin.READ, reason=reason)


def positive(text: str) -> int:
    """A number from 1 up; 0 and -1 stand for "the server chooses" and are none.

    Raises:
        ValueError: it is not.
    """
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
