"""Throughput against concurrency in block characters, for a terminal. A pure function from levels to text."""

from __future__ import annotations

from collections.abc import Sequence

from widelane.measure.profile import Knee, Level, Limit
from widelane.report.text import DASH, number_text

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_LINE = "┄"
_MAX_COLUMN = 9
"""Widest column of one level, in characters; wider plots are not easier to read."""
_MIN_COLUMN = 3


def plot(
    levels: Sequence[Level], knee: Knee | None = None, limit: Limit | None = None, *, width: int = 76, height: int = 8
) -> str:
    """A bar a level, the tallest filling `height` rows; knee and limit are named under and beside the bars.

    Empty when no level has a throughput. Levels that do not fit in `width` characters are left out from the middle,
    and a last line says so.
    """
    known = [level for level in levels if level.output_tok_s.number is not None]
    top = max((level.output_tok_s.number or 0.0 for level in known), default=0.0)
    if top <= 0:
        return ""
    axis = max(len(number_text(top)), len("tok/s"))
    shown = _that_fit(levels, _knee_index(levels, knee), (width - axis - 3) // _MIN_COLUMN)
    column = max(_MIN_COLUMN, min(_MAX_COLUMN, (width - axis - 3) // len(shown)))
    knee_at = _knee_index(shown, knee)
    plateau = None if knee_at is None or limit in (None, Limit.NOT_REACHED) else _eighths(shown[knee_at], top, height)
    lines = [f"{'tok/s':>{axis}}"]
    for row in range(height, 0, -1):
        cells = "".join(
            _cell(level, row, top, height, column, plateau if _beyond(index, knee_at) else None)
            for index, level in enumerate(shown)
        )
        lines.append(f"{_tick(row, height, top):>{axis}} ┤{cells}".rstrip())
    lines.append(f"{'0':>{axis}} └{'─' * (column * len(shown))}")
    lines.append(" " * (axis + 2) + "".join(f"{level.concurrency:^{column}}" for level in shown).rstrip())
    if knee_at is not None:
        lines.append(_mark(axis + 2 + knee_at * column + (column - 1) // 2, limit, width))
    if len(shown) < len(levels):
        lines.append(f"{len(levels) - len(shown)} of {len(levels)} levels left out")
    return "\n".join(lines)


def _that_fit(levels: Sequence[Level], knee_at: int | None, room: int) -> list[Level]:
    """All, or `room` of them evenly chosen, the first, the last and the knee among them."""
    if len(levels) <= room:
        return list(levels)
    room = max(3, room)
    chosen = [round(index * (len(levels) - 1) / (room - 1)) for index in range(room)]
    if knee_at is not None and knee_at not in chosen:
        nearest = min(range(1, room - 1), key=lambda index: abs(chosen[index] - knee_at))
        chosen[nearest] = knee_at
    return [levels[index] for index in chosen]


def _knee_index(levels: Sequence[Level], knee: Knee | None) -> int | None:
    if knee is None or knee.concurrency.number is None:
        return None
    at = int(knee.concurrency.number)
    return next((index for index, level in enumerate(levels) if level.concurrency == at), None)


def _beyond(index: int, knee_at: int | None) -> bool:
    return knee_at is not None and index > knee_at


def _eighths(level: Level, top: float, height: int) -> int:
    return round((level.output_tok_s.number or 0.0) / top * height * 8)


def _cell(level: Level, row: int, top: float, height: int, column: int, plateau: int | None) -> str:
    """One row of one bar; beyond the knee, the plateau's line shows where the bar does not."""
    bar = max(1, column - 2)
    on_line = plateau is not None and (plateau + 7) // 8 == row
    blank = _LINE if on_line else " "
    if level.output_tok_s.number is None:
        return f"{DASH if row == 1 else blank:{blank}^{column}}"
    filled = _eighths(level, top, height) - (row - 1) * 8
    block = _EIGHTHS[max(0, min(8, filled))]
    return f"{(blank if block == ' ' else block) * bar:{blank}^{column}}"


def _tick(row: int, height: int, top: float) -> str:
    """The top value on the first row, half of it in the middle: two figures are enough to read the bars."""
    if row == height:
        return number_text(top)
    return number_text(top / 2) if row == height // 2 else ""


def _mark(at: int, limit: Limit | None, width: int) -> str:
    """The line that names knee and limit, its arrow under the bar; written leftwards where the right has no room.

    Where neither side has room, the arrow stands alone: the verdict names both.
    """
    words = "limit not reached" if limit is Limit.NOT_REACHED else "knee"
    if limit not in (None, Limit.NOT_REACHED):
        words += f" {_LINE}{_LINE} limit: {limit}"
    if at + 2 + len(words) <= width:
        return f"{' ' * at}▲ {words}"
    return f"{words:>{at - 1}} ▲" if len(words) < at else f"{' ' * at}▲"
