"""What `widelane predict` shows in a terminal: the verdict first, readable at 80 columns, nothing cut, no markup."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from tests.report import predict_samples as samples
from widelane.predict.report import PredictReport
from widelane.report.predict_table import predict_table


def show(report: PredictReport, width: int = 100, **options: str) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(predict_table(report, **options))
    return out.getvalue()


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("parallelise", "Parallelise it: "),
        ("do-not", "Do not split it: "),
        ("too-close", "Too close to call: "),
        ("one lane", "Do not split it: no number of lanes makes it faster"),
    ],
)
def test_the_verdict_is_said_in_words(name, sentence):
    assert f"Verdict {sentence}" in words(show(samples.ALL[name]()))


def test_every_width_has_a_row_and_the_lanes_worth_using_are_marked():
    report = samples.parallelise()
    text = show(report)
    rows = re.findall(r"^ +(→ )?(\d+)  +[\d.,]+  +×", text, re.MULTILINE)
    assert [int(lanes) for _, lanes in rows] == [point.lanes for point in report.widths]
    assert [int(lanes) for mark, lanes in rows if mark] == [8]
    assert "of 24 lanes the others only wait" in words(text)


def test_phases_tell_where_the_time_went():
    text = show(samples.parallelise())
    assert re.search(r"^ +plan +1\.4 +.*×1\.00", text, re.MULTILINE)
    assert "on one lane and on 8 lanes" in text


def test_what_is_not_known_has_its_reason():
    assert "crossover: nothing is spent on splitting this job" in words(show(samples.tries()))


@pytest.mark.parametrize("name", samples.ALL)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_wider_than_the_terminal(name, width):
    assert max(len(line.rstrip()) for line in show(samples.ALL[name](), width).split("\n")) <= width


def test_text_of_strangers_is_no_markup():
    report = replace(samples.one_lane(), server="[bold]x[/bold] [/]", notes=["[red]y"])
    text = show(report)
    assert "[bold]x[/bold] [/]" in text
    assert "[red]y" in text


def test_the_page_is_named():
    assert "Report   /tmp/p.html" in show(samples.one_lane(), page_path="/tmp/p.html")
