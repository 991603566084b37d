"""Servers to predict on: how well each is known, and that they decode as they were said to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.measure.levels import level, sweep_report
from tests.measure.synthetic import served
from tests.predict.servers import EXACT, rising, server_of
from widelane.errors import UsageError
from widelane.figures import Figure, Origin
from widelane.measure.profile import Level, Limit, SweepReport, save_profile
from widelane.plan.rates import FITTED_RANGE
from widelane.predict.chance import Chance
from widelane.predict.make import predict
from widelane.predict.open_server import of_profile, of_spec, predicted_server
from widelane.predict.server import PredictedServer, measured_error
from widelane.predict.shape import map_reduce, parse_calls
from widelane.predict.simulate import run_once
from widelane.predict.trace import busy
from widelane.sim.spec import parse_sim


def test_a_measured_server_is_known_as_well_as_its_levels():
    """±10 % and ±5 % at the two levels, ±10 % for other work: together ±15 %."""
    at = measured_error([level(1, 10.0, low=9.0, high=11.0), level(8, 60.0, low=57.0, high=63.0)])
    assert at(8).high == pytest.approx(1.15)
    assert at(8).low == pytest.approx(1 / 1.15)
    assert at(5).high == pytest.approx(1.15), "the nearest level, by ratio"


def test_a_level_measured_once_is_known_less_well():
    at = measured_error([level(1, 10.0), level(8, 60.0)])
    assert at(8).high == pytest.approx(1 + (3 * 0.01) ** 0.5)


def test_without_a_level_only_other_work_is_allowed_for():
    assert measured_error([])(4).high == pytest.approx(1.1)


def test_a_planned_server_is_known_as_well_as_its_fit():
    server = of_spec(parse_sim("sim:gb10/qwen3.6-27b/vllm?quant=fp8&slots=16"))
    assert (server.error(16).low, server.error(16).high) == FITTED_RANGE
    assert server.slots.value == 16
    assert "vllm" in server.words
    assert "slots 16" in server.words
    assert server.replay == "sim:gb10/qwen3.6-27b/vllm?slots=16&quant=fp8"


def profile(rows: list[Level], *, slots: int) -> SweepReport:
    """A sweep with calls of 500 and 64 tokens, as `served` makes its rows: 50 ms of prefill, 0.1 ms a token."""
    report = sweep_report(rows, Limit.SLOTS)
    known = replace(report.server.facts, slots=Figure(slots, "slots", Origin.READ))
    work = replace(report.workload, prompt_tokens=500, output_tokens=64)
    return replace(report, server=replace(report.server, facts=known), workload=work)


def most_in_slots(server: PredictedServer, lanes: int) -> tuple[float, int]:
    work = map_reduce(parse_calls("12x64", "--map"), prompt_tokens=480).work
    run = run_once(work, server.open_backend, width=lanes, chance=Chance(0, 0.5))
    return run.wall_s, busy(run.spans).most


def test_a_profile_decodes_as_it_was_measured(tmp_path):
    """Four slots, steps of 20 ms and 5 ms more a sequence, 50 ms of prefill: 12 calls of 64 tokens in three rounds.

    The prompts of a round are read beside each other at best, one after another at worst.
    """
    rows = served((1, 2, 4, 8), lambda batch: 0.015 + 0.005 * batch, slots=4)
    report = profile(rows, slots=4)
    path = tmp_path / "sweep.json"
    save_profile(report, path)
    measured = of_profile(report), of_profile(report, path), of_spec(parse_sim(f"sim:{path}?slots=4"))
    for server in (*measured, predicted_server(str(path)), predicted_server(f"sim:{path}")):
        wall_s, most = most_in_slots(server, 12)
        assert most == 12
        assert 0.98 * 3 * (0.05 + 63 * 0.035) < wall_s < 1.02 * 3 * (4 * 0.05 + 63 * 0.035)
    alone_s, _ = most_in_slots(of_profile(report), 1)
    assert alone_s == pytest.approx(12 * (0.05 + 63 * 0.02), rel=0.02)


def test_what_names_no_server():
    for text in ("sim:gb10/no-such-model/vllm", "sim:no-device/qwen3-8b/vllm", "sim:none.json"):
        with pytest.raises(UsageError):
            of_spec(parse_sim(text))


def test_noise_is_averaged_over_starts():
    shape = map_reduce(parse_calls("2x20", "--map"))
    steady = predict(shape, of_spec(parse_sim("sim:gb10/qwen3-8b/vllm")))
    noisy = predict(shape, of_spec(parse_sim("sim:gb10/qwen3-8b/vllm?noise=0.1")))
    assert not any("mean of" in note for note in steady.notes)
    assert any("mean of 20 runs" in note for note in noisy.notes)


def test_faults_on_purpose_are_said():
    server = of_spec(parse_sim("sim:gb10/qwen3-8b/llama.cpp?misconfigured=too-few-slots"))
    assert "too-few-slots" in server.notes[-1]


def test_two_servers_of_one_cost_predict_the_same():
    """The event simulation against a server that takes every single step: the same arithmetic, the same prediction.

    Within 10 %: a measured server is taken to read its cache in every step, and these contexts are shorter than the
    sweep's.
    """
    rows = served((1, 2, 4, 8, 16), rising(0.02, 0.1))
    measured = of_profile(profile(rows, slots=16))
    stepped = server_of(rising(0.02, 0.1), prefill_s_per_token=0.0001, error=EXACT)
    shape = map_reduce(
        parse_calls("8x200", "--map"), plan=parse_calls("100", "--plan"), reduce=parse_calls("150", "--reduce"),
        prompt_tokens=8,
    )  # fmt: skip
    one, other = predict(shape, measured), predict(shape, stepped)
    assert one.wall_s.number == pytest.approx(other.wall_s.number, rel=0.1)
    assert one.speedup.number == pytest.approx(other.speedup.number, rel=0.1)
    assert one.lanes.value == other.lanes.value
