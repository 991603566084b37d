"""Where the points of the charts stand."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report import samples
from tests.report.samples import level, measured, percentiles
from widelane.figures import Origin, unknown
from widelane.measure.profile import Knee, Limit
from widelane.report.axis import linear_ticks, log_ticks
from widelane.report.chart import Curve, latency_chart, throughput_chart


def curve(*tok_s: float, at: int | None = None, limit: Limit = Limit.SLOTS) -> Curve:
    levels = [level(2**index, value, value / 20) for index, value in enumerate(tok_s)]
    knee = None if at is None else Knee(concurrency=measured(at, "requests"), output_tok_s=measured(40, "tok/s"))
    return Curve(levels, knee, limit)


def test_every_doubling_is_one_step_to_the_right_and_zero_is_at_the_bottom() -> None:
    chart = throughput_chart(curve(10, 20, 40, 40))
    assert chart is not None
    xs = [point.x for point in chart.series[0].points]
    assert xs[0] == chart.frame.left and xs[-1] == chart.frame.right
    assert [b - a for a, b in itertools.pairwise(xs)] == pytest.approx([xs[1] - xs[0]] * 3)
    ys = [chart.frame.bottom - point.y for point in chart.series[0].points]
    assert ys == pytest.approx([ys[0], 2 * ys[0], 4 * ys[0], 4 * ys[0]])
    assert chart.y_ticks[0].at == chart.frame.bottom and chart.y_ticks[0].label == "0"


def test_knee_and_limit_stand_at_the_knees_level() -> None:
    chart = throughput_chart(curve(10, 20, 40, 40, at=4))
    assert chart is not None and chart.knee is not None and chart.plateau is not None
    third = chart.series[0].points[2]
    assert (chart.knee.at, chart.knee.label) == (third.x, "knee: 4")
    assert (chart.plateau.at, chart.plateau.label) == (third.y, "limit: slots")


def test_a_limit_that_was_not_reached_has_no_plateau() -> None:
    chart = throughput_chart(curve(10, 20, 40, at=4, limit=Limit.NOT_REACHED))
    assert chart is not None and chart.knee is not None
    assert chart.plateau is None
    assert chart.knee.label == "limit not reached"


def test_the_ideal_line_starts_at_the_first_point_and_meets_proportional_throughput() -> None:
    chart = throughput_chart(curve(10, 20, 40))
    assert chart is not None
    numbers = [float(text) for text in re.findall(r"[\d.]+", chart.ideal)]
    first, last = chart.series[0].points[0], chart.series[0].points[-1]
    assert numbers[:2] == pytest.approx([first.x, first.y], abs=0.1)
    assert numbers[-2:] == pytest.approx([last.x, last.y], abs=0.1)


def test_levels_without_a_figure_have_no_point() -> None:
    levels = [level(1, 10), level(2, 1, output_tok_s=unknown("tok/s", "all failed", Origin.MEASURED)), level(4, 20)]
    chart = throughput_chart(Curve(levels, None, Limit.SLOTS))
    assert chart is not None
    assert len(chart.series[0].points) == 2
    assert throughput_chart(Curve(levels[1:2], None, Limit.SLOTS)) is None


def test_before_and_after_share_their_axes() -> None:
    chart = throughput_chart(curve(10, 20, 40, 80), curve(10, 20))
    assert chart is not None
    before, after = chart.series
    assert (before.css, after.css) == ("before", "after")
    assert before.points[1].x == after.points[1].x and before.points[1].y == after.points[1].y


def test_only_powers_of_two_are_numbered_between_the_others() -> None:
    levels = [level(n, n) for n in (1, 2, 3, 4, 5, 6, 8)]
    chart = throughput_chart(Curve(levels, None, Limit.SLOTS))
    assert chart is not None
    assert [tick.label for tick in chart.x_ticks] == ["1", "2", "", "4", "", "", "8"]


def test_a_single_level_stands_in_the_middle() -> None:
    chart = throughput_chart(curve(10))
    assert chart is not None
    assert chart.series[0].points[0].x == (chart.frame.left + chart.frame.right) / 2


def test_latencies_on_a_logarithmic_axis() -> None:
    levels = [
        level(1, 1, ttft_s=percentiles(0.1)),
        level(2, 1, ttft_s=percentiles(1)),
        level(4, 1, ttft_s=percentiles(10)),
    ]
    chart = latency_chart("ttft", "TTFT, s", levels, lambda one: one.ttft_s)
    assert chart is not None
    ys = [point.y for point in chart.series[-1].points]
    assert ys[0] - ys[1] == pytest.approx(ys[1] - ys[2])
    assert [tick.label for tick in chart.y_ticks] == ["0.1", "1", "10"]


def test_labels_at_the_right_edge_never_lie_on_each_other() -> None:
    chart = latency_chart(
        "ttft", "TTFT, s", [level(1, 1), level(2, 1, ttft_s=percentiles(0.4))], lambda one: one.ttft_s
    )
    assert chart is not None
    places = [one.label_y or 0 for one in chart.series]
    assert all(lower - upper >= 15 for upper, lower in itertools.pairwise(places))


def test_no_latencies_no_chart() -> None:
    levels = [level(1, 1, ttft_s=samples.no_percentiles("not streamed"))]
    assert latency_chart("ttft", "TTFT, s", levels, lambda one: one.ttft_s) is None


def test_linear_ticks() -> None:
    assert linear_ticks(56) == [0, 20, 40]
    assert linear_ticks(0.9) == [0, 0.2, 0.4, 0.6, 0.8]


@given(st.floats(1e-6, 1e6), st.floats(1, 1e6))
def test_log_ticks_are_few_rising_and_at_least_two(low: float, factor: float) -> None:
    ticks = log_ticks(low, low * factor)
    assert 2 <= len(ticks) <= 14
    assert ticks == sorted(set(ticks))
    assert ticks[-1] >= low * factor * 0.99 or len(ticks) > 1
