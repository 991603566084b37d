"""Predictions on servers with known costs, checked against what was measured in the field and against closed forms."""

from __future__ import annotations

import pytest

from tests.predict.servers import EXACT, FITTED, flat, rising, server_of
from widelane.errors import UsageError
from widelane.figures import Figure, Origin
from widelane.predict.make import predict
from widelane.predict.report import PredictReport, Verdict
from widelane.predict.shape import Shape, best_of, graph_shape, map_reduce, parse_calls
from widelane.predict.steps import Step, StepGraph
from widelane.sim.answers.lengths import Fixed

# A call of n tokens takes n - 1 steps on this server: the first token comes with the prompt.


def shape(items: str, *, prompt_tokens: int = 1, **more: str) -> Shape:
    return map_reduce(
        parse_calls(items, "--map"),
        prompt_tokens=prompt_tokens,
        **{name: parse_calls(text, f"--{name}") for name, text in more.items()},
    )


def gains(report: PredictReport) -> dict[str, float | None]:
    return {phase.role: phase.gain.number for phase in report.phases}


def test_free_width_by_hand():
    """Steps of 0.1 s whatever the batch: 1 s of plan, 2 s of each of four items, 0.5 s of reduce."""
    report = predict(shape("4x21", plan="11", reduce="6"), server_of(flat(0.1)))
    assert report.wall_s.number == pytest.approx(3.5, abs=0.01)
    assert report.instead_s.number == pytest.approx(4 * 2.0 + 0.5, abs=0.01)
    assert report.one_lane_s.number == pytest.approx(9.5, abs=0.01)
    assert report.speedup.number == pytest.approx(8.5 / 3.5, rel=0.01)
    assert report.lanes.value == 4
    assert report.serial_tokens.value == 11 + 21 + 6
    assert report.job.output_tokens.value == 11 + 4 * 21 + 6
    assert report.verdict is Verdict.PARALLELISE
    assert report.utilisation.number == pytest.approx(9.5 / (4 * 3.5), rel=0.01)
    # Amdahl: 1.5 s of 9.5 s run alone, and 1.5 of 3.5 s on four lanes; without them nothing would be left.
    assert report.serial_share_one_lane.number == pytest.approx(1.5 / 9.5, rel=0.01)
    assert report.serial_share.number == pytest.approx(1.5 / 3.5, rel=0.01)
    assert report.most_speedup.number == pytest.approx(9.5 / 1.5, rel=0.01)
    assert {point.lanes: point.serial_tokens.value for point in report.widths} == {1: 101, 2: 59, 3: 59, 4: 38}


def test_the_field_report_s_map_reduce():
    """48 summaries on four slots: 3.7 times in the map, 2.0 from end to end, as the reduce of 24 s stays as it is."""
    report = predict(shape("48x12", reduce="241"), server_of(rising(0.1, 0.027), slots=4))
    assert gains(report)["work"] == pytest.approx(3.7, abs=0.1)
    assert gains(report)["integrate"] == pytest.approx(1.0, abs=0.01)
    assert report.speedup.number == pytest.approx(2.0, abs=0.05)
    reduce = report.phases[-1]
    assert reduce.lanes_s.number == pytest.approx(24.0, abs=0.3)
    assert (reduce.share_one_lane.number or 1) < 0.35
    assert (reduce.share.number or 0) > 0.5
    assert report.lanes.value == 4, "further lanes only wait"
    assert report.verdict is Verdict.PARALLELISE


def test_the_field_report_s_merge_tree():
    """Six partial merges before the last one add a round of writing: the reduce took 62 s instead of 24."""
    tree = graph_shape(
        StepGraph(
            (
                Step(name="merge", output=Fixed(33), prompt_tokens=1, count=6),
                Step(name="last", output=Fixed(25), prompt_tokens=1, needs=("merge",)),
            )
        ),
        StepGraph((Step(name="reduce", output=Fixed(25), prompt_tokens=1),)),
    )
    report = predict(tree, server_of(rising(1.0, 0.037)))
    assert report.instead_s.number == pytest.approx(24.0, abs=0.3)
    assert report.wall_s.number == pytest.approx(62.0, rel=0.05)
    assert report.verdict is Verdict.DO_NOT
    assert report.serial_tokens.value == 33 + 25


def test_the_field_report_s_fan_out():
    """23 modules: 3.8 times from end to end on the same plan; plan and integration leave a floor of 105 s."""
    report = predict(shape("23x25", plan="51", reduce="56"), server_of(rising(1.0, 2 / 22)))
    alone_s = (report.serial_share.number or 0) * (report.wall_s.number or 0)
    assert alone_s == pytest.approx(105, abs=1)
    assert (report.one_lane_s.number or 0) / (report.wall_s.number or 1) == pytest.approx(3.8, rel=0.05)
    assert report.verdict is Verdict.PARALLELISE


def test_the_field_report_s_skeleton():
    """A skeleton, then five bodies side by side, against 1,000 tokens in one go: 73 s instead of 41 s."""
    server = server_of(rising(0.41, 0.05), error=FITTED)
    report = predict(shape("5x43", plan="121", instead="101"), server)
    assert report.instead_s.number == pytest.approx(41, abs=1)
    assert report.wall_s.number == pytest.approx(73, rel=0.05)
    assert report.verdict is Verdict.DO_NOT
    assert (report.crossover_tokens.number or 0) > 43, "the items are too short to repay the skeleton"
    # 120 + 1.2 m = 100 m / 42: m = 102
    assert report.crossover_tokens.number == pytest.approx(102, rel=0.04)
    longer = predict(shape("5x420", plan="121", instead="1000"), server)
    assert longer.verdict is Verdict.PARALLELISE


def test_too_close_to_call():
    """8 s in turn, or 5.2 s of plan and 2.6 s side by side: a gain within the bounds of the server's cost."""
    report = predict(shape("4x21", plan="53"), server_of(rising(0.1, 0.1), error=FITTED))
    assert report.speedup.low is not None
    assert report.speedup.low < 1 < (report.speedup.high or 0)
    assert report.verdict is Verdict.TOO_CLOSE
    assert "Measure" in report.sentence


def test_a_chain_gains_nothing():
    steps = tuple(
        Step(name=name, output=Fixed(20), prompt_tokens=1, needs=needs)
        for name, needs in (("a", ()), ("b", ("a",)), ("c", ("b",)))
    )
    report = predict(graph_shape(StepGraph(steps)), server_of(flat(0.1), error=FITTED))
    assert (report.verdict, report.lanes.value) == (Verdict.DO_NOT, 1)
    assert report.serial_tokens.value == 60
    assert report.crossover_tokens.value is None
    assert report.sentence.startswith("Do not split it: no number of lanes")


def test_a_server_with_one_slot_gains_nothing():
    report = predict(shape("8x20"), server_of(flat(0.1), slots=1, error=FITTED))
    assert (report.verdict, report.lanes.value) == (Verdict.DO_NOT, 1)


def test_the_crossover_by_hand():
    """Steps of 0.1 s, and 0.1 s x 1.46 for 24 together: 24 m = 800 + 1.46 m, m = 35.5."""
    report = predict(shape("24x100", plan="801"), server_of(rising(0.1, 0.02)))
    assert report.crossover_tokens.number == pytest.approx(35.5, abs=1.5)
    assert report.verdict is Verdict.PARALLELISE


def test_nothing_to_repay_without_a_plan():
    report = predict(shape("4x20"), server_of(flat(0.1)))
    assert report.crossover_tokens.value is None
    assert report.crossover_tokens.reason


def test_no_more_lanes_than_allowed():
    report = predict(shape("24x20"), server_of(flat(0.1)), most_lanes=5)
    assert [point.lanes for point in report.widths] == [1, 2, 3, 4, 5]
    assert report.lanes.value == 5
    assert report.serial_tokens.value == 20, "a property of the job, whatever the lanes"
    with pytest.raises(UsageError, match="2 or more"):
        predict(shape("24x20"), server_of(flat(0.1)), most_lanes=1)


def test_best_of_six():
    """Each try passes with 30 %: 1 - 0.7^6 = 88 % of all tasks, and 2.94 tries in turn on average (geometric, cut)."""
    job = best_of(parse_calls("6x31", "--best-of"), pass_rate=0.3, prompt_tokens=1)
    report = predict(job, server_of(flat(0.1)), seed=7)
    assert report.solved.number == pytest.approx(0.8824, abs=1e-4)
    expected = sum(0.7**before for before in range(6))
    assert report.speedup.number == pytest.approx(expected, rel=0.03)
    assert report.speedup.low is not None, "chance has a part in it"
    assert report.speedup.low < expected < (report.speedup.high or 0)
    assert report.lanes.value == 6
    assert report.serial_tokens.value == 31
    assert any("mean of 20 runs" in note for note in report.notes)


def test_checking_takes_its_time():
    job = best_of(parse_calls("3x11", "--best-of"), pass_rate=1.0, verify_s=2.0, prompt_tokens=1)
    report = predict(job, server_of(flat(0.1)))
    assert report.wall_s.number == pytest.approx(3.0, abs=0.05)


def test_varying_lengths_give_bounds_and_the_slowest_item_counts():
    report = predict(shape("8x10-50"), server_of(flat(0.1)))
    assert report.wall_s.low is not None
    assert report.wall_s.low < (report.wall_s.number or 0) < (report.wall_s.high or 0)
    assert (report.serial_tokens.number or 0) > 30, "the longest of eight is longer than the mean"


def test_the_same_seed_gives_the_same_report():
    job = best_of(parse_calls("6x10-50", "--best-of"), pass_rate=0.3)
    server = server_of(flat(0.1))
    assert predict(job, server, seed=3) == predict(job, server, seed=3)
    assert predict(job, server, seed=3) != predict(job, server, seed=4)


def test_a_server_that_cannot_hold_the_job():
    with pytest.raises(UsageError, match=r"could not do the job.*Make its calls shorter"):
        predict(shape("2x20", prompt_tokens=500), server_of(flat(0.1), pool_tokens=100))


def test_a_job_of_years():
    """On one lane a day a token: it is still predicted, as what it is held against."""
    report = predict(shape("4x40"), server_of(flat(86_400.0)))
    assert report.instead_s.number == pytest.approx(4 * 39 * 86_400, rel=0.01)


def every_figure(report: PredictReport) -> list[Figure]:
    found: list[Figure] = []

    def collect(value: object) -> None:
        if isinstance(value, Figure):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            for item in value:
                collect(item)
        elif hasattr(value, "__dataclass_fields__"):
            for name in value.__dataclass_fields__:
                collect(getattr(value, name))

    collect(report)
    return found


def test_every_number_says_that_it_is_predicted():
    figures = every_figure(predict(shape("4x20", plan="10", reduce="5"), server_of(rising(0.1, 0.1), error=EXACT)))
    assert len(figures) > 30
    assert {figure.origin for figure in figures} == {Origin.PREDICTED}
