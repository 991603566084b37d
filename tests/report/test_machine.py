"""The sentence about the machine: its width, what ends it, and an honest word when there is none."""

import dataclasses

from tests.report.samples import level, measured, percentiles, sweep
from widelane.figures import unknown
from widelane.measure.profile import Limit
from widelane.report.machine import machine_sentence


def steps(cost_s: dict[int, float]):
    """Levels whose step takes `cost_s[width]` seconds: throughput is width ÷ step, TPOT is the step."""
    return [
        level(width, width / step, tpot_s=percentiles(step), decoding_together=measured(width, "calls"))
        for width, step in cost_s.items()
    ]


def test_width_is_many_lanes_over_one_in_the_same_sweep():
    # 1 / 0.04 = 25 tok/s alone, 16 / 0.20 = 80 tok/s together: 3.2 times. The other sweep's 10 tok/s alone is not used.
    before = sweep([level(1, 10.0)], limit=Limit.SLOTS)
    after = sweep(steps({1: 0.04, 16: 0.20}), limit=Limit.COMPUTE)
    said = machine_sentence(before, after)
    assert "×3.2 (measured): 25 tok/s alone, 80 tok/s at 16 lanes" in said
    assert "arithmetic" in said


def test_the_step_is_split_into_weights_and_sequences():
    # t(B) = a + b B through (1, 40 ms) and (16, 200 ms): b = 160/15 = 10.7 ms, a = 29.3 ms.
    report = sweep(steps({1: 0.04, 16: 0.20}), limit=Limit.COMPUTE)
    said = machine_sentence(report, report)
    assert "29.3 ms for the weights" in said
    assert "10.7 ms for each sequence (inferred)" in said


def test_no_width_is_said_plainly():
    report = sweep(steps({1: 0.04, 16: 0.60}), limit=Limit.COMPUTE)
    assert "Width does not pay here" in machine_sentence(report, report)


def test_without_throughput_nothing_is_claimed():
    nothing = dataclasses.replace(level(1, 1.0), output_tok_s=unknown("tok/s", "no call finished"))
    report = sweep([nothing], limit=Limit.NOT_REACHED)
    assert "is not known" in machine_sentence(report, report)


def test_slots_are_not_the_whole_truth_where_the_step_has_grown_within_them():
    # 10.67 ms a sequence: however many lanes, at most 1 / 0.01067 = 93.8 tok/s.
    report = sweep(steps({1: 0.04, 16: 0.20}), limit=Limit.SLOTS)
    said = machine_sentence(report, report)
    assert "stops at the slots" in said
    assert "at most about 93.8 tok/s (predicted)" in said
    assert "CPU" in said


def test_slots_are_the_whole_truth_where_the_step_has_not_grown():
    report = sweep(steps({1: 0.04, 16: 0.05}), limit=Limit.SLOTS)
    assert "may be wider than this" in machine_sentence(report, report)
