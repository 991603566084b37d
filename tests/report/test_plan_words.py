"""What a plan says in words: the numbers that matter, levers in order, every unknown with its reason once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report import plan_samples as samples
from widelane.figures import Figure, Origin, unknown
from widelane.plan.report import PlanReport, Use
from widelane.report.plan_words import (
    by_gain,
    device_text,
    engine_text,
    key_figures,
    largest_share,
    layers_text,
    lever_change,
    lever_gain,
    loses,
    model_text,
    share_text,
    shown_parts,
    steps_note,
    unknown_figures,
)


def keys(report: PlanReport) -> dict[str, tuple[str, str, str]]:
    return {key.name: (key.value, key.unit, key.note) for key in key_figures(report)}


def test_the_model_is_named_with_its_format_and_size_and_active_parameters_where_experts_are_routed() -> None:
    assert model_text(samples.dense().model) == "Qwen/Qwen3.6-27B · fp8 · 28.5 GB (read) · 27.4 B parameters"
    assert model_text(samples.moe().model).endswith("27.4 B parameters, 26.1 B active")
    assert layers_text(samples.dense().model) == "16 full-attention, 48 gated-deltanet"


def test_the_device_shows_what_was_measured_beside_what_is_nominal() -> None:
    assert device_text(samples.moe().device) == "rtx-pro-6000 · 273 GB/s nominal · 1.55 TB/s measured · 128 GB"
    assert device_text(samples.not_known().device) == "Some CPU @ 3.1 GHz · 128 GB"


def test_usable_memory_is_named_where_it_reads_otherwise() -> None:
    device = samples.device(usable_memory_bytes=samples.read(120e9, "bytes"))
    assert device_text(device).endswith("128 GB, 120 GB of it usable")


def test_the_engine_line_says_what_for_and_that_lengths_are_assumed() -> None:
    assert (
        engine_text(samples.dense())
        == "vLLM 0.33.0 · for agents · typical request 24,576 tokens, longest 131,072 (assumed)"
    )
    assert engine_text(samples.moe()).startswith("Ollama · for batch work")


def test_the_key_figures_are_the_recommended_ones_first() -> None:
    found = keys(samples.dense())
    assert list(found)[:2] == ["Lanes to run", "All lanes together get"]
    assert found["Lanes to run"] == ("24", "lanes", "chance of a full pool below 1 %")
    assert found["All lanes together get"] == ("112", "tok/s", "95.0–131, predicted")
    assert found["One request, undrafted"] == ("7.94", "tok/s", "14.4 with drafts, depth 2")
    assert found["Ceiling, one request"] == ("9.58", "tok/s", "10.5 for the bytes really read")
    assert found["A step doubles at"] == ("39", "requests", "161 tok/s together, ×20.3")
    assert found["Typical requests that fit"] == ("51", "sequences", "8 of the longest")


def test_what_is_not_known_is_no_key_figure() -> None:
    assert list(keys(samples.not_known())) == ["Lanes to run", "Typical requests that fit"]


def test_one_interactive_session_is_called_one_lane() -> None:
    report = samples.dense(
        use=Use.INTERACTIVE, recommendation=replace(samples.dense().recommendation, lanes=samples.predicted(1, "lanes"))
    )
    assert keys(report)["Sessions"] == ("1", "lane", "")
    assert "One request gets" in keys(report)


def test_levers_stand_in_order_of_gain_what_loses_after_and_what_is_not_known_last() -> None:
    assert [lever.code for lever in by_gain(samples.DENSE_LEVERS)] == [
        "kv-dtype", "speculation", "state-dtype", "smaller-weights", "slots", "prefix-cache",
    ]  # fmt: skip
    assert [lever.code for lever in samples.DENSE_LEVERS if loses(lever)] == ["slots"]


def test_a_lever_says_its_gain_with_the_interval_and_what_it_changes() -> None:
    by_code = {lever.code: lever for lever in samples.DENSE_LEVERS}
    assert lever_gain(by_code["speculation"]) == "×1.82 (1.60–1.90)"
    assert lever_change(by_code["state-dtype"]) == "51 → 87 sequences"
    assert lever_change(by_code["speculation"]) == "7.9 → 14.4 tok/s"
    assert (lever_gain(by_code["prefix-cache"]), lever_change(by_code["prefix-cache"])) == ("–", "")


def test_a_lever_in_bytes_keeps_both_units() -> None:
    lever = replace(
        samples.DENSE_LEVERS[0], now=samples.predicted(950e6, "bytes"), then=samples.predicted(1.2e9, "bytes")
    )
    assert lever_change(lever) == "950 MB → 1.20 GB"


def test_a_dense_model_has_no_experts_and_attention_alone_has_no_state() -> None:
    assert [key for key, _, _ in shown_parts(samples.dense().steps)] == [
        "weights", "cache", "state", "compute", "overhead",
    ]  # fmt: skip
    assert "state" not in [key for key, _, _ in shown_parts(samples.moe().steps)]
    assert shown_parts([]) == []


def test_what_is_unknown_for_the_same_reason_is_said_once() -> None:
    rows = {reason: names for names, reason in unknown_figures(samples.not_known())}
    assert rows[samples.NO_BANDWIDTH] == (
        "ceiling, ceiling of the bytes really read, expected rate, rate with drafts, doubling batch and "
        "recommended rate"
    )
    assert unknown_figures(replace(samples.dense(), levers=())) == []


@pytest.mark.parametrize(("share", "text"), [(0.01, "1 %"), (0.005, "0.500 %"), (0.0, "0 %")])
def test_shares_are_written_in_percent(share: float, text: str) -> None:
    assert share_text(Figure(share, "", Origin.PREDICTED)) == text


def test_an_unknown_share_is_a_dash() -> None:
    assert share_text(unknown("", "no footprints")) == "–"


def test_a_part_counts_by_the_most_it_takes_of_any_step() -> None:
    """Weights are 117 of 124.37 ms at one request, the cache 563.2 of 932.7 at 256."""
    shares = {key: largest_share(of, samples.dense_steps()) for key, _, of in shown_parts(samples.dense_steps())}
    assert shares["weights"] == pytest.approx(0.9407, abs=1e-4)
    assert shares["cache"] == pytest.approx(0.6038, abs=1e-3)
    assert max(shares, key=lambda key: shares[key]) == "weights"


def test_it_is_said_that_the_steps_hold_no_drafts_where_the_rates_do() -> None:
    assert "draft nothing" in steps_note(samples.dense())
    assert steps_note(samples.moe()) == ""
