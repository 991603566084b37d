"""Before and after: a ratio with its interval, or the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.report import samples
from tests.report.samples import client, level, measured, sweep
from widelane.figures import Origin, unknown
from widelane.measure.profile import Limit, Workload
from widelane.report.compare import best_level, compare, ratio, ratio_text


def test_relative_half_widths_add_as_squares() -> None:
    """3 % and 4 % make 5 %: 200/100 lies between 2·e^-0.05 and 2·e^0.05."""
    found = ratio(measured(100, "tok/s", 97, 103), measured(200, "tok/s", 192, 208))
    assert found.value == pytest.approx(2)
    assert found.low == pytest.approx(1.9025, abs=1e-4)
    assert found.high == pytest.approx(2.1025, abs=1e-4)


def test_without_an_interval_on_either_side_the_ratio_has_none_and_says_so() -> None:
    found = ratio(measured(100, "tok/s"), measured(200, "tok/s", 192, 208))
    assert (found.value, found.low, found.high) == (2, None, None)
    assert found.reason is not None and "once" in found.reason


def test_an_unknown_side_or_nothing_before_has_no_ratio() -> None:
    assert ratio(unknown("tok/s", "all calls failed"), measured(2, "tok/s")).reason == "all calls failed"
    assert ratio(measured(0, "tok/s"), measured(2, "tok/s")).value is None


def test_best_is_held_against_best_not_level_against_level() -> None:
    """At 8 lanes the gain looks like ×10; what the change is worth is ×2."""
    before = sweep([level(1, 40, 1), level(4, 100, 2), level(8, 20, 1)])
    after = sweep([level(1, 30, 1), level(4, 120, 2), level(8, 200, 4)])
    result = compare(before, after)
    assert result.ratio.value == pytest.approx(2)
    assert (result.best_before, result.best_after) == (before.levels[1], after.levels[2])
    assert result.verdict.startswith("×2.00 the output tokens per second of before (95 %: ")
    assert result.detail == "Best against best: before at 4 lanes, after at 8. Slower than before at 1 lane."


def test_an_interval_that_includes_one_shows_no_difference() -> None:
    result = compare(sweep([level(4, 100, 5)]), sweep([level(4, 103, 5)]))
    assert result.verdict.startswith("No difference shown: ×1.03")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"workload": Workload(prompt_tokens=512, output_tokens=24, endpoint="chat", seed=7)}, "the workloads differ"),
        ({"workload": Workload(prompt_tokens=40, output_tokens=24, endpoint="completions", seed=7)}, "endpoints"),
        ({"limit": Limit.CLIENT}, "the client could not keep up"),
        ({"levels": []}, "not measured on both sides"),
    ],
)
def test_what_cannot_be_compared_gets_no_ratio(change: dict[str, object], reason: str) -> None:
    result = compare(samples.np4(), replace(samples.np4(), **change))
    assert result.ratio.value is None
    assert reason in (result.ratio.reason or "")
    assert result.verdict == f"No comparison: {result.ratio.reason}."


def test_a_level_of_one_side_only_has_a_row_and_no_ratio() -> None:
    result = compare(sweep([level(1, 10, 1), level(2, 20, 1)]), sweep([level(2, 30, 1), level(64, 90, 1)]))
    assert [pair.concurrency for pair in result.pairs] == [1, 2, 64]
    assert [pair.ratio.value is None for pair in result.pairs] == [True, False, True]


def test_a_spoiled_level_is_never_the_best() -> None:
    spoiled = level(8, 500, client=client(0.9, spoiled=True))
    assert best_level([level(4, 100), spoiled]) == level(4, 100)
    assert best_level([spoiled]) is None


def test_how_a_ratio_is_written() -> None:
    assert ratio_text(replace(measured(2.584, "×"), low=2.481, high=2.692)) == "×2.58 (2.48–2.69)"
    assert ratio_text(unknown("×", "why", Origin.MEASURED)) == "–"
    assert math.isclose(float(ratio_text(measured(0.5, "×")).removeprefix("×")), 0.5)
