"""The text plot, read as a picture."""

from __future__ import annotations

import pytest

from tests.report import samples
from tests.report.samples import level, measured
from widelane.figures import Origin, unknown
from widelane.measure.profile import Knee, Limit
from widelane.report.plot import plot


def knee(at: int, tok_s: float = 40) -> Knee:
    return Knee(concurrency=measured(at, "requests"), output_tok_s=measured(tok_s, "tok/s"))


def test_bars_knee_and_limit() -> None:
    """10, 20, 40, 30 of 40 on four rows: a quarter, a half, all, three quarters."""
    levels = [level(1, 10), level(2, 20), level(4, 40), level(8, 30)]
    assert plot(levels, knee(4), Limit.SLOTS, width=33, height=4).split("\n") == [
        "tok/s",
        "   40 ┤             ████ ┄┄┄┄┄┄",
        "      ┤             ████  ████",
        "   20 ┤       ████  ████  ████",
        "      ┤ ████  ████  ████  ████",
        "    0 └────────────────────────",
        "         1     2     4     8",
        "knee ┄┄ limit: slots ▲",
    ]


def test_eighths_of_a_row_are_drawn() -> None:
    picture = plot([level(1, 8), level(2, 1)], width=20, height=1)
    assert "█" in picture
    assert "▁" in picture


def test_a_level_without_a_figure_is_a_dash_and_not_a_zero() -> None:
    unmeasured = samples.level(2, 1, output_tok_s=unknown("tok/s", "all failed", Origin.MEASURED))
    rows = plot([level(1, 10), unmeasured], width=30, height=3).split("\n")
    assert "–" in rows[3]


def test_no_figures_no_plot() -> None:
    assert plot([]) == ""
    assert plot([level(1, 0)]) == ""


@pytest.mark.parametrize("width", [24, 40, 80])
@pytest.mark.parametrize("at", [1, 8, 128])
def test_no_line_is_wider_than_asked(width: int, at: int) -> None:
    levels = [level(n, 10 * n) for n in (1, 2, 4, 8, 16, 32, 64, 128)]
    for limit in (Limit.SLOTS, Limit.NOT_REACHED):
        assert "▲" in plot(levels, knee(at), limit, width=width)
        assert max(map(len, plot(levels, knee(at), limit, width=width).split("\n"))) <= width


def test_levels_that_do_not_fit_are_counted() -> None:
    levels = [level(n, n) for n in range(1, 41)]
    picture = plot(levels, width=60)
    assert "levels left out" in picture
    assert f"{'1':^3}" in picture and "40" in picture
