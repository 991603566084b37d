"""A prediction's page as text: verdict, widths, phases and the timeline; nothing loaded, everything escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace

import msgspec
import pytest

from tests.report import predict_samples as samples
from widelane.predict.report import PredictReport
from widelane.report.json import to_json
from widelane.report.predict_charts import predict_charts
from widelane.report.predict_page import predict_page

EVIL = "</script><b>5 > 4 & 3</b>"


@pytest.mark.parametrize("name", samples.ALL)
def test_nothing_is_loaded_and_the_policy_allows_what_is_inlined(name):
    text = predict_page(samples.ALL[name]())
    links = re.findall(r"""(?:src|href|action)\s*=\s*["']?([^"'\s>]+)""", text)
    assert [link for link in links if not link.startswith(("data:", "#"))] == []
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    allowed = dict(rule.strip().split(" ", 1) for rule in policy[1].replace("&#39;", "'").split(";"))
    for rule, tag in (("style-src", "style"), ("script-src", "script")):
        (inlined,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert allowed[rule] == f"'sha256-{base64.b64encode(hashlib.sha256(inlined.encode()).digest()).decode()}'"


@pytest.mark.parametrize("name", samples.ALL)
def test_the_drawings_hold_numbers_only(name):
    assert not re.search(r'="[^"]*\b(nan|inf|None)\b', predict_page(samples.ALL[name]()))


def test_the_verdict_is_the_headline():
    report = samples.do_not()
    assert f"<h1>{html.escape(report.sentence)}</h1>" in predict_page(report)


def test_the_timeline_is_that_of_the_predicted_calls():
    report = samples.parallelise()
    found = re.search(r'<script type="application/json" id="lanes-data">(.*?)</script>', predict_page(report))
    assert found is not None
    (run,) = json.loads(found[1])["runs"]
    assert [level["label"] for level in run["levels"]] == ["1", "8"]
    wide = run["levels"][1]
    assert len(wide["bars"]["key"]) == 26
    assert wide["slots"] == 8
    path = [wide["bars"]["key"][index] for index in wide["critical"]]
    assert (path[0], path[-1]) == ("plan", "reduce")
    assert "best measured" not in predict_page(report), "nothing was measured"


def test_charts_mark_the_lanes_worth_using():
    charts = predict_charts(samples.parallelise())
    assert [chart.name for chart in charts] == ["wall", "speedup"]
    assert [mark.label for chart in charts for mark in chart.marks] == ["worth using: 8"] * 2
    assert charts[1].level is not None, "where it is as fast as without splitting"
    assert predict_charts(samples.one_lane()) == []


def test_text_of_strangers_is_escaped():
    report = samples.parallelise()
    spans = {"1": [replace(span, key=EVIL, parent=None) for span in report.timeline["1"][:1]]}
    evil = replace(
        report, server=EVIL, sentence=EVIL, why=[EVIL], notes=[EVIL], timeline=spans, made={EVIL: EVIL},
        job=replace(report.job, words=EVIL, instead=EVIL),
    )  # fmt: skip
    assert "<b>5" not in predict_page(evil)


@pytest.mark.parametrize("name", samples.ALL)
def test_the_document_goes_through_json(name):
    report = samples.ALL[name]()
    document = json.loads(to_json(report))
    assert document["schema"] == {"name": "widelane.predict", "version": 1}
    assert "timeline" not in document
    for key in ("wall_s", "serial_tokens", "speedup", "lanes", "crossover_tokens"):
        figure = document[key]
        assert figure["origin"] == "predicted"
        assert figure["value"] is not None or figure["reason"]
    assert msgspec.convert(document, PredictReport).verdict is report.verdict
