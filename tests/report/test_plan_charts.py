"""The geometry of a plan's charts: log2 of the batch, the stack adds up, marks stand where the numbers are."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report import plan_samples as samples
from widelane.figures import Figure, Origin, unknown
from widelane.plan.report import PlanReport, PrefillPoint
from widelane.report.plan_chart import PlanChart
from widelane.report.plan_charts import step_chart, throughput_chart
from widelane.report.prefill_charts import prefill_charts


def throughput(report: PlanReport) -> PlanChart:
    chart = throughput_chart(report)
    assert chart is not None
    return chart


def step(report: PlanReport) -> PlanChart:
    chart = step_chart(report)
    assert chart is not None
    return chart


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", path)]


def test_every_doubling_of_the_batch_is_one_equal_step_to_the_right() -> None:
    places = [point.x for point in throughput(samples.moe()).series[0].points]
    steps = [b - a for a, b in itertools.pairwise(places)]
    assert steps == pytest.approx([steps[0]] * len(steps))


def test_the_line_rises_and_its_interval_lies_around_it() -> None:
    chart = throughput(samples.dense())
    line = chart.series[0]
    assert [point.y for point in line.points] == sorted((point.y for point in line.points), reverse=True)
    band = points(line.band)
    upper, lower = band[: len(line.points)], band[len(line.points) :][::-1]
    for point, (_, high), (_, low) in zip(line.points, upper, lower, strict=True):
        assert high < point.y < low


def test_the_doubling_batch_the_lanes_and_the_pools_end_are_marked_each_on_its_own_line_of_text() -> None:
    chart = throughput(samples.dense())
    assert [(mark.css, mark.label) for mark in chart.marks] == [
        ("pool", "pool full at 51"), ("doubling", "step doubled at 39"), ("lanes", "recommended: 24"),
    ]  # fmt: skip
    assert len({mark.row for mark in chart.marks}) == 3
    by_name = {mark.css: mark.at for mark in chart.marks}
    assert by_name["lanes"] < by_name["doubling"] < by_name["pool"] == chart.pool_ends
    assert chart.frame.x(32) < by_name["doubling"] < chart.frame.x(64)


def test_what_the_pool_holds_within_the_drawing_has_no_end_marked() -> None:
    """412 fit and 128 are drawn."""
    chart = throughput(samples.moe())
    assert chart.pool_ends is None
    assert "pool" not in [mark.css for mark in chart.marks]


def test_where_nothing_fits_everything_lies_beyond_the_pool() -> None:
    chart = throughput(samples.too_large())
    assert [mark.label for mark in chart.marks] == ["the pool holds none"]
    assert chart.pool_ends is not None and chart.pool_ends < chart.frame.left


def test_steps_far_beyond_all_that_matters_are_not_drawn() -> None:
    """The widest that matters is 51, so 128 is drawn and 256 is not; the table has them all."""
    assert throughput(samples.dense()).frame.widest == 128


def test_the_parts_lie_upon_each_other_without_gaps_and_end_at_the_step() -> None:
    """At 32: 117 + 70.4 + 22.72 + 8.32 + 4.2 = 222.64 ms, the sixth of eight points."""
    chart = step(samples.dense())
    assert [layer.name for layer in chart.layers] == [
        "weights", "KV cache", "recurrent state", "arithmetic", "overhead",
    ]  # fmt: skip
    floor = [chart.frame.bottom] * 8
    for layer in chart.layers:
        outline = [y for _, y in points(layer.path)]
        upper, lower = outline[:8], outline[8:][::-1]
        assert lower == pytest.approx(floor, abs=0.11)
        floor = upper
    tick = next(tick for tick in chart.y_ticks if tick.label == "200")
    per_ms = (chart.frame.bottom - tick.at) / 200
    assert floor[5] == pytest.approx(chart.frame.bottom - 222.64 * per_ms, abs=0.11)


def test_twice_the_step_of_one_request_is_marked_up_to_where_it_is_reached() -> None:
    """One request takes 124.37 ms."""
    chart = step(samples.dense())
    tick = next(tick for tick in chart.y_ticks if tick.label == "200")
    per_ms = (chart.frame.bottom - tick.at) / 200
    assert chart.level == pytest.approx(chart.frame.bottom - 248.74 * per_ms)
    assert chart.level_until == next(mark.at for mark in chart.marks if mark.css == "doubling")


def test_a_doubling_beyond_the_drawing_is_not_marked() -> None:
    width = replace(samples.dense().width, doubling_batch=unknown("requests", "not below 65,536"))
    chart = step(samples.dense(width=width))
    assert chart.level is None and "doubling" not in [mark.css for mark in chart.marks]


def test_pointing_anywhere_at_the_plot_tells_the_nearest_batch() -> None:
    chart = step(samples.dense())
    assert chart.hovers[0].x == chart.frame.left
    assert chart.hovers[-1].x + chart.hovers[-1].width == pytest.approx(chart.frame.right)
    for left, right in zip(chart.hovers, chart.hovers[1:], strict=False):
        assert left.x + left.width == pytest.approx(right.x)
    assert chart.hovers[0].label == (
        "batch 1: 124 ms (112–137, predicted) = weights 117 ms + KV cache 2.20 ms + recurrent state 0.710 ms "
        "+ arithmetic 0.260 ms + overhead 4.20 ms"
    )
    assert throughput(samples.dense()).hovers[6].label.endswith("; the pool does not hold that many")


def test_the_free_line_begins_where_the_curve_does_and_never_leaves_the_plot() -> None:
    chart = throughput(samples.dense())
    ideal = points(chart.ideal)
    assert ideal[0] == pytest.approx((chart.series[0].points[0].x, chart.series[0].points[0].y), abs=0.06)
    assert min(y for _, y in ideal) >= chart.frame.top - 0.06


def test_no_chart_of_fewer_than_two_batches_or_of_unknown_ones() -> None:
    assert throughput_chart(samples.not_known()) is None and step_chart(samples.not_known()) is None
    assert throughput_chart(samples.dense(steps=samples.dense_steps()[:1])) is None
    nothing = unknown("tok/s", "no bandwidth")
    steps = [replace(one, output_tok_s=nothing) for one in samples.dense_steps()]
    assert throughput_chart(samples.dense(steps=steps)) is None


def test_the_order_of_the_steps_does_not_matter() -> None:
    backwards = samples.dense(steps=samples.dense_steps()[::-1])
    assert step(backwards) == step(samples.dense())


def test_prefill_is_drawn_against_depth_on_a_linear_axis() -> None:
    seconds, rate = prefill_charts(samples.dense().prefill)
    places = [point.x for point in seconds.series[0].points]
    share = (places[-2] - seconds.frame.left) / (places[-1] - seconds.frame.left)
    assert share == pytest.approx(65_536 / 131_072)
    assert [tick.label for tick in seconds.x_ticks] == ["0", "50k", "100k"]
    assert rate.series[0].points[0].label == "at 1,024 tokens: 1,912 tok/s (1,721–2,103, predicted)"


def test_prefill_that_is_not_known_is_not_drawn() -> None:
    nobody = [
        PrefillPoint(depth_tokens=depth, tok_s=unknown("tok/s", "?"), seconds=unknown("s", "?")) for depth in (1, 2)
    ]
    assert prefill_charts(nobody) == prefill_charts([]) == []


@given(
    st.lists(st.integers(1, 100_000), min_size=2, max_size=12, unique=True),
    st.tuples(*[st.floats(0, 1e6) for _ in range(6)]).filter(lambda parts: sum(parts) > 1e-3),
    st.one_of(st.none(), st.floats(0, 1e6)),
)
def test_nothing_is_ever_drawn_outside_the_drawing(
    batches: Sequence[int], parts: tuple[float, float, float, float, float, float], fit: float | None
) -> None:
    steps = [samples.step(batch, parts, fits=True) for batch in sorted(batches)]
    typical = unknown("sequences", "?") if fit is None else Figure(fit, "sequences", Origin.PREDICTED)
    report = samples.dense(steps=steps, sequences_that_fit=samples.sequences(typical=typical))
    for chart in (throughput(report), step(report)):
        drawn = [*(one.line for one in chart.series), *(one.band for one in chart.series), chart.ideal]
        for path in (*drawn, *(layer.path for layer in chart.layers)):
            for x, y in points(path):
                assert chart.frame.left - 0.1 <= x <= chart.frame.right + 0.1
                assert chart.frame.top - 0.1 <= y <= chart.frame.bottom + 0.1
        assert all(math.isfinite(mark.at) for mark in chart.marks)
