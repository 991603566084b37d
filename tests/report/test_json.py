"""`--json`: one object, schema first, figures in one shape, the same bytes every time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.report import plan_samples, samples
from widelane.figures import Figure, Origin
from widelane.measure.profile import Knee
from widelane.plan.report import LaunchReport
from widelane.report.json import to_json


def test_a_figure_always_has_value_unit_and_origin_and_the_rest_only_where_there_is_some() -> None:
    document = json.loads(to_json(samples.np4()))
    assert document["levels"][0]["output_tok_s"] == {
        "value": 10.2, "unit": "tok/s", "origin": "measured", "low": 10.2 - 0.1, "high": 10.2 + 0.1,
    }  # fmt: skip
    assert document["server"]["facts"]["slots"] == {"value": 4, "unit": "slots", "origin": "read"}
    assert document["levels"][-1]["ttft_s"]["p50"] == {
        "value": None, "unit": "s", "origin": "measured", "reason": "no call began within the window",
    }  # fmt: skip


def test_every_figure_without_a_value_says_why() -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if {"unit", "origin"} <= value.keys() and value["value"] is None:
                assert value["reason"]
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(json.loads(to_json(samples.doctor())))


def test_the_documents_have_the_keys_that_scripts_ask_for() -> None:
    sweep, doctor = json.loads(to_json(samples.np4())), json.loads(to_json(samples.doctor()))
    assert next(iter(sweep)) == next(iter(doctor)) == "schema"
    assert sweep["schema"] == {"name": "widelane.sweep", "version": 1}
    assert (sweep["knee"]["concurrency"]["value"], sweep["limit"]) == (4, "slots")
    assert doctor["facts"]["slots"]["value"] == 4
    too_few = next(finding for finding in doctor["findings"] if finding["code"] == "too-few-slots")
    assert (too_few["severity"], too_few["fix"]["flag"]) == ("error", "-np 32 -c 262144")


def test_the_calls_are_not_printed() -> None:
    assert "timeline" not in json.loads(to_json(replace(samples.np4(), timeline={"job": samples.job_spans()})))


def test_the_order_of_mappings_does_not_change_the_bytes() -> None:
    one = replace(samples.np4(), made={"a": "1", "b": "2"})
    other = replace(samples.np4(), made={"b": "2", "a": "1"})
    assert to_json(one) == to_json(other)
    assert to_json(one).endswith(b"}\n")


def test_a_value_that_is_no_number_becomes_null_and_says_so() -> None:
    endless = Figure(float("inf"), "tok/s", Origin.MEASURED, low=float("nan"))
    knee = Knee(concurrency=samples.measured(4, "requests"), output_tok_s=endless)
    document = json.loads(to_json(replace(samples.np4(), knee=knee)))
    assert document["knee"]["output_tok_s"] == {
        "value": None, "unit": "tok/s", "origin": "measured", "reason": "the value is not a finite number (inf)",
    }  # fmt: skip


def test_a_plan_has_the_keys_that_scripts_ask_for() -> None:
    document = json.loads(to_json(plan_samples.dense()))
    assert next(iter(document)) == "schema"
    assert document["schema"] == {"name": "widelane.plan", "version": 1}
    assert document["ceiling_tok_s"] == {"value": 9.58, "unit": "tok/s", "origin": "predicted"}
    assert document["expected_tok_s"]["value"] == 7.94
    assert document["width"]["doubling_batch"]["value"] == 39
    assert document["kv_pool"]["tokens"]["value"] == 1_253_376
    fit = document["sequences_that_fit"]
    assert (fit["typical"]["value"], fit["worst_case"]["value"]) == (51, 8)
    assert [lever["buys"] for lever in document["levers"]].count("capacity") == 2
    assert document["launch"]["argv"][3] == {
        "flag": "--max-num-seqs", "value": "24", "reason": "lanes that keep a full pool below 1 % likely",
    }  # fmt: skip
    assert document["use"] == "agents"


def test_every_figure_of_a_plan_that_is_not_known_says_why() -> None:
    document = json.loads(to_json(plan_samples.not_known()))
    assert document["expected_tok_s"] == {
        "value": None, "unit": "tok/s", "origin": "predicted", "reason": plan_samples.NO_BANDWIDTH,
    }  # fmt: skip


def test_a_launch_alone_has_its_own_schema() -> None:
    plan = plan_samples.dense()
    document = json.loads(to_json(LaunchReport(model=plan.model, device=plan.device, use=plan.use, launch=plan.launch)))
    assert document["schema"] == {"name": "widelane.launch", "version": 1}
    assert document["launch"]["command"] == plan.launch.command
