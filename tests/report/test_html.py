"""The page as text: self-contained, locked by its own policy, everything escaped, readable in both themes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from importlib import resources

import pytest

from tests.report import samples
from widelane.figures import Figure, Finding, Fix, Origin, Severity
from widelane.measure.profile import Limit
from widelane.report.html import page
from widelane.report.payload import height_px, role_colours, row_px, script_json
from widelane.report.timeline import build


def full() -> str:
    return page(replace(samples.np4(), timeline={"job": samples.job_spans()}), samples.doctor(), samples.np4())


def test_nothing_to_report() -> None:
    with pytest.raises(ValueError, match="needs a sweep or a diagnosis"):
        page(None, None)


def test_nothing_is_loaded_from_anywhere() -> None:
    text = full()
    links = re.findall(r"""(?:src|href|action|xlink:href)\s*=\s*["']?([^"'\s>]+)""", text) + re.findall(
        r"url\(([^)]*)\)", text
    )
    assert [link for link in links if not link.startswith(("data:", "#"))] == []
    assert "@import" not in text and "fetch(" not in text and "XMLHttpRequest" not in text


def test_the_policy_allows_exactly_the_inlined_style_and_script() -> None:
    text = full()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    allowed = dict(rule.strip().split(" ", 1) for rule in policy[1].replace("&#39;", "'").split(";"))
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    assert style is not None and script is not None
    for rule, inlined in (("style-src", style[1]), ("script-src", script[1])):
        digest = base64.b64encode(hashlib.sha256(inlined.encode()).digest()).decode()
        assert allowed[rule] == f"'sha256-{digest}'"
    assert allowed["default-src"] == allowed["base-uri"] == allowed["form-action"] == "'none'"
    assert not re.search(r"<[^>]+\s(style|on\w+)=", text), "inline styles and handlers would be refused"


def test_data_cannot_end_its_script_element() -> None:
    evil = {"key": "</script><!-- & \u2028"}
    text = str(script_json(evil))
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == evil


def test_text_is_escaped() -> None:
    text = page(None, samples.doctor(verdict="<b>5 > 4 & 3</b>"))
    assert "&lt;b&gt;5 &gt; 4 &amp; 3&lt;/b&gt;" in text
    assert "<b>5" not in text


def test_the_verdict_comes_first_then_evidence_then_what_to_do() -> None:
    text = full()
    places = [text.index(f'id="{name}"') for name in ("charts", "comparison", "findings", "lanes", "levels", "made")]
    assert [text.index("<h1>"), *places] == sorted([text.index("<h1>"), *places])


def test_the_same_documents_give_the_same_page() -> None:
    assert full() == full()


def test_a_sweep_without_calls_has_no_timeline_and_no_script_for_one() -> None:
    text = page(samples.np4(), None)
    assert "<canvas" not in text
    assert "lanes-data" not in text


def test_unknown_figures_are_dashes_with_their_reason_and_origins_are_said() -> None:
    text = page(samples.np4(), samples.doctor())
    assert "TTFT at 32: no call began within the window" in text
    assert "f16 (inferred)" in text and "27 B (read)" in text
    assert "165 tok/s at 32 (150–180, predicted)" in text


@pytest.mark.parametrize("limit", Limit)
def test_every_limit_has_a_page(limit: Limit) -> None:
    assert str(limit).replace("-", " ") in page(replace(samples.np4(), limit=limit), None)


def test_a_server_that_did_not_answer_still_has_a_page() -> None:
    nothing = samples.doctor(levels=[], knee=None, limit=Limit.UNKNOWN, limit_evidence="", findings=[])
    text = page(None, nothing)
    assert "<svg class" not in text and 'id="levels"' not in text


def test_notes_and_the_reason_of_a_fix_are_shown() -> None:
    fix = Fix("-np 8", reason="Each slot then keeps its context.")
    finding = Finding("too-few-slots", Severity.ERROR, "Too few", "4 slots", fix)
    text = page(replace(samples.np4(), notes=["128 was not measured"]), samples.doctor(findings=[finding]))
    assert "Each slot then keeps its context." in text and "128 was not measured" in text


def test_the_first_drawing_is_the_one_where_waiting_begins() -> None:
    spans = samples.job_spans()
    sweep = replace(samples.np4(), timeline={str(n): spans for n in (1, 2, 4, 8, 16, 32)})
    found = re.search(r'id="lanes-data">(.*?)</script>', page(sweep, None))
    assert found is not None
    assert json.loads(found[1])["first"] == [0, 3]  # the knee is 4; at 8 half of the calls wait


def test_before_and_after_are_both_in_the_timeline() -> None:
    before = replace(samples.np4(), timeline={"8": samples.job_spans()})
    text = page(before, None, before)
    assert 'id="runs"' in text
    assert text.count('class="group levels"') == 2


def test_lanes_are_tall_when_few_and_thin_when_many() -> None:
    assert row_px(6) == 30
    assert row_px(128) == 5
    assert row_px(512) == 4
    assert height_px(build(samples.closed_loop(128, 1, slots=32))) < 800


def test_the_drawings_place_is_kept_before_the_script_runs() -> None:
    """6 lanes of 30 pixels, the strip above (72) and the axis below (34)."""
    text = page(replace(samples.np4(), timeline={"job": samples.job_spans()}), None)
    assert "#lanes-canvas{height:286px}" in text


def test_a_role_keeps_its_colour_and_unknown_roles_get_one() -> None:
    job = build(samples.job_spans())
    other = build([replace(samples.job_spans()[0], role="summarise")])
    assert role_colours([job]) == {"plan": "amber", "work": "blue", "verify": "green", "integrate": "violet"}
    assert role_colours([other, job])["work"] == "blue"
    assert role_colours([other])["summarise"] == "rose"


def test_slots_that_are_not_a_number_are_no_slots() -> None:
    server = replace(samples.np4().server, facts=samples.facts(slots=Figure("auto", "", Origin.READ)))
    text = page(replace(samples.np4(), server=server, timeline={"8": samples.job_spans()}), None)
    assert '"slots":null' in text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_bars_stand_out_from_the_ground(theme: str) -> None:
    """Contrast as WCAG 2 defines it: 4.5 for text, 3 for what is drawn."""
    css = resources.files("widelane.report").joinpath("templates", f"{theme}.css").read_text()
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", css))
    for name in ("ink", "muted", "accent", "bad", "warn", "good"):
        assert contrast(colours[name], colours["paper"]) >= 4.5, name
    for name in (name for name in colours if name.endswith("-decode")):
        assert contrast(colours[name], colours["paper"]) >= 3, name
        assert contrast(colours[name], colours[name.replace("decode", "prefill")]) >= 1.8, name


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)
