"""What a terminal shows: whole numbers at every width, no markup from outside, dashes with their reasons."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from tests.report import samples
from tests.report.samples import level, sweep
from widelane.figures import Finding, Fix, Severity
from widelane.measure.profile import Limit
from widelane.report.terminal import before_after, by_severity, doctor_view, next_step, sweep_table


def show(view: RenderableType, width: int = 80, *, colour: bool = False) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=colour, color_system="standard" if colour else None).print(view)
    return out.getvalue()


def words(text: str) -> str:
    return " ".join(text.split())


VIEWS = {
    "sweep": sweep_table(samples.np4(), report_path="out.html"),
    "doctor": doctor_view(samples.doctor(), report_path="out.html"),
    "before-after": before_after(samples.np4(), samples.np4()),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_line_is_too_wide_and_no_number_is_cut(name: str, width: int) -> None:
    text = show(VIEWS[name], width)
    assert max(len(line) for line in text.split("\n")) <= width
    assert "…" not in text


@pytest.mark.parametrize("name", VIEWS)
def test_plain_where_it_is_no_terminal(name: str) -> None:
    assert "\x1b" not in show(VIEWS[name])
    assert "\x1b[" in show(VIEWS[name], colour=True)


def test_the_order_is_verdict_evidence_what_to_do() -> None:
    text = show(VIEWS["doctor"])
    places = [text.index(word) for word in ("Server", "Verdict", "output tok/s", "too-few-slots", "Next", "Report")]
    assert places == sorted(places)


def test_the_sweep_shows_every_level_with_its_interval_and_marks_the_knee() -> None:
    text = show(VIEWS["sweep"])
    assert re.search(r"▸ 4 +34\.1 ±0\.6", text)
    assert [tok_s for tok_s in ("10.2 ±0.1", "19.6 ±0.2", "34.0 ±0.4", "33.9 ±0.7") if tok_s not in text] == []
    assert "limit: slots" in text


def test_a_dash_has_its_reason_below_and_is_never_a_zero() -> None:
    text = show(VIEWS["sweep"])
    row = next(line for line in text.split("\n") if line.lstrip().startswith("32 "))
    assert row.split()[3:5] == ["–", "–"]
    assert "– TTFT at 32: no call began within the window" in text


def test_failures_and_flags_are_said() -> None:
    flag = "more tokens than the memory can read"
    doubtful = [level(width, 900, flags=[flag], failures={"overloaded": 2}) for width in (8, 16)]
    text = words(show(sweep_table(sweep([level(1, 10), *doubtful]))))
    assert f"! at 8 and 16: {flag}" in text, "said once, with the levels it is true of"
    assert "! at 8 and 16: 2 calls failed (2 overloaded)" in text


def test_a_column_that_does_not_fit_is_left_out_whole_and_named() -> None:
    text = show(VIEWS["sweep"], 50)
    assert "Too narrow for" in text
    assert "34.1 ±0.6" in text


def test_a_spoiled_sweep_gets_no_verdict() -> None:
    spoiled = level(8, 100, client=samples.client(0.8, spoiled=True))
    text = words(show(sweep_table(sweep([spoiled], knee=None, limit=Limit.CLIENT))))
    assert "No verdict: this client could not keep up" in text
    assert "the figures at 8 are the client's own" in text


def test_brackets_from_a_server_are_text_and_not_markup() -> None:
    finding = Finding("x", Severity.WARNING, "[bold]title[/bold]", "[/] [link=x]", Fix("--flag [red]"))
    text = show(doctor_view(samples.doctor(findings=(finding,))), 120)
    assert "[bold]title[/bold]" in text and "[/] [link=x]" in text and "--flag [red]" in text


def test_a_fix_stands_on_the_right_where_there_is_room_and_below_where_there_is_none() -> None:
    wide, narrow = show(VIEWS["doctor"], 140), show(VIEWS["doctor"], 80)
    assert re.search(r"too-few-slots.*-np 32 -c 262144", wide)
    assert re.search(r"too-few-slots(?!.*-np 32)", narrow)
    assert "-np 32 -c 262144" in narrow


def test_a_check_that_did_not_run_is_not_a_pass() -> None:
    text = words(show(VIEWS["doctor"]))
    assert "– tool-calls-in-text not checked: The template has no tools." in text
    assert "✓ tool-calls-in-text" not in text


def test_unknown_facts_are_named_with_their_reason() -> None:
    assert (
        "– KV pool, recurrent state type and launch command: not told over HTTP: give the start command with --launch"
        in words(show(VIEWS["doctor"]))
    )


def test_what_matters_most_comes_first() -> None:
    assert [finding.severity for finding in by_severity(samples.FINDINGS)] == [
        Severity.ERROR, Severity.WARNING, Severity.OK, Severity.NOT_CHECKED,
    ]  # fmt: skip


def test_the_next_step_is_the_first_command_that_mends_something() -> None:
    error, warning = samples.FINDINGS[1], samples.FINDINGS[2]
    assert next_step(samples.FINDINGS) == "llama-server -m model.gguf -np 32 -c 262144"
    assert next_step([warning]) == "restart the server with -ctk q8_0 -ctv q8_0 -fa on"
    assert next_step([replace(error, fix=None)]) == "see the findings above"
    assert next_step([samples.FINDINGS[0]]) == "nothing to change"


def test_a_wide_sweep_of_the_doctor_is_folded_and_not_cut() -> None:
    levels = [level(n, 100.5 + n) for n in (1, 2, 4, 8, 16, 32, 64, 128)]
    text = show(doctor_view(samples.doctor(levels=levels)), 50)
    assert text.count("concurrency") == 2
    assert "228" in text


def test_the_comparison_shows_both_sides_and_the_ratio() -> None:
    before = sweep([level(1, 10, 0.1), level(4, 20, 0.1)])
    after = sweep([level(1, 10, 0.1), level(4, 60, 0.6), level(8, 80, 1)])
    text = show(before_after(before, after))
    assert "×4.00" in text
    assert re.search(r"4 +20\.0 ±0\.1 +60\.0 ±0\.6 +×3\.00", text)
    assert "– ratio at 8: not measured on both sides" in text


def test_the_sweeps_notes_are_shown() -> None:
    note = "128 was not measured: time was up."
    assert note in words(show(sweep_table(replace(samples.np4(), notes=[note]))))


def test_a_server_that_did_not_answer_still_has_a_view() -> None:
    nothing = samples.doctor(levels=[], knee=None, limit=Limit.UNKNOWN, limit_evidence="", findings=[])
    text = words(show(doctor_view(nothing)))
    assert text.startswith("Server")
    assert "concurrency" not in text
