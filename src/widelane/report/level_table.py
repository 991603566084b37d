"""The tables of levels for a terminal: one row a level, or one column a level. No number is ever wrapped or cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from widelane.measure.profile import Level
from widelane.report.compare import LevelPair, ratio_text
from widelane.report.fitting_table import GAP, Column, FittingTable
from widelane.report.text import DASH, cell, number_text, with_half_width


def level_rows(levels: Sequence[Level], knee_at: int | None) -> FittingTable:
    """One row a level; the knee's row carries a mark."""

    def column(head: str, text: Callable[[Level], str], drop: int = 0, style: str = "") -> Column:
        return Column(head, [text(level) for level in levels], drop, style)

    def width_text(level: Level) -> str:
        return f"{'▸ ' if level.concurrency == knee_at else ''}{number_text(level.concurrency)}"

    return FittingTable(
        [
            column("concur-\nrency", width_text),
            column("output\ntok/s", lambda level: with_half_width(level.output_tok_s), style="bold"),
            column("TTFT p50\ns", lambda level: cell(level.ttft_s.p50)),
            column("TTFT p99\ns", lambda level: cell(level.ttft_s.p99), 3),
            column("TPOT p50\nms", lambda level: cell(level.tpot_s.p50, 1e3), 1),
            column("E2E p50\ns", lambda level: cell(level.e2e_s.p50), 2),
            column("failed\ncalls", lambda level: number_text(sum(level.failures.values())), 4),
        ]
    )


def pair_rows(pairs: Sequence[LevelPair]) -> FittingTable:
    """Before and after, one row a level."""

    def side(head: str, text: Callable[[Level], str], drop: int, *, after: bool) -> Column:
        levels = [pair.after if after else pair.before for pair in pairs]
        return Column(head, [DASH if level is None else text(level) for level in levels], drop)

    def tok_s(level: Level) -> str:
        return with_half_width(level.output_tok_s)

    def ttft(level: Level) -> str:
        return cell(level.ttft_s.p50)

    return FittingTable(
        [
            Column("concur-\nrency", [number_text(pair.concurrency) for pair in pairs]),
            side("before\ntok/s", tok_s, 0, after=False),
            side("after\ntok/s", tok_s, 0, after=True),
            Column("after ÷ before\n(95 %)", [ratio_text(pair.ratio) for pair in pairs], 2, "bold"),
            side("before TTFT\np50 s", ttft, 3, after=False),
            side("after TTFT\np50 s", ttft, 3, after=True),
        ]
    )


@dataclass(frozen=True, slots=True)
class LevelColumns:
    """One column a level, as many beside each other as fit, the rest in further blocks below."""

    levels: Sequence[Level]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = list(self._rows())
        label = max(len(name) for name, _ in rows)
        widths = [max(len(values[index]) for _, values in rows) + GAP for index in range(len(self.levels))]
        for block in _blocks(widths, options.max_width - label):
            for row, (name, values) in enumerate(rows):
                numbers = "".join(f"{values[index]:>{widths[index]}}" for index in block)
                yield Text.assemble((f"{name:<{label}}", "dim"), (numbers, "bold" if row == 1 else ""), no_wrap=True)

    def _rows(self) -> Iterable[tuple[str, list[str]]]:
        yield "concurrency", [number_text(level.concurrency) for level in self.levels]
        yield "output tok/s", [cell(level.output_tok_s) for level in self.levels]
        yield "TTFT p50 s", [cell(level.ttft_s.p50) for level in self.levels]
        yield "TPOT p50 ms", [cell(level.tpot_s.p50, 1e3) for level in self.levels]


def _blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    blocks: list[list[int]] = [[]]
    for index, width in enumerate(widths):
        if blocks[-1] and sum(widths[other] for other in blocks[-1]) + width > room:
            blocks.append([])
        blocks[-1].append(index)
    return blocks
