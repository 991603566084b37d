"""How a person writes a job, and what it is held against."""

from __future__ import annotations

import pytest

from widelane.errors import UsageError
from widelane.predict.shape import Calls, GraphWork, best_of, map_reduce, parse_calls
from widelane.sim.answers.lengths import Fixed, LogNormal


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("900", Calls(count=1, prompt_tokens=None, output=Fixed(900))),
        ("24x900", Calls(count=24, prompt_tokens=None, output=Fixed(900))),
        ("24 × 900", Calls(count=24, prompt_tokens=None, output=Fixed(900))),
        ("24X2000/900", Calls(count=24, prompt_tokens=2000, output=Fixed(900))),
        ("2000/900", Calls(count=1, prompt_tokens=2000, output=Fixed(900))),
        ("3x600-1500", Calls(count=3, prompt_tokens=None, output=LogNormal(mean_tokens=1050, spread_tokens=450))),
        ("3x1k", Calls(count=3, prompt_tokens=None, output=Fixed(1000))),
    ],
)
def test_the_grammar(text, calls):
    assert parse_calls(text, "--map") == calls


@pytest.mark.parametrize("text", ["", "x", "24x", "0x900", "24x0", "24x0/900", "-3x900", "many", "2x3x4", "24x9/9/9"])
def test_what_is_no_calls(text):
    with pytest.raises(UsageError, match="--map"):
        parse_calls(text, "--map")


def keys(work: object) -> list[str]:
    assert isinstance(work, GraphWork)
    return [call.key for call in work.graph.calls()]


def test_map_reduce_is_held_against_the_same_work_without_the_plan():
    shape = map_reduce(
        parse_calls("2x9", "--map"), plan=parse_calls("8", "--plan"), reduce=parse_calls("7", "--reduce")
    )
    assert keys(shape.work) == ["plan", "map-1", "map-2", "reduce"]
    assert keys(shape.instead) == ["map-1", "map-2", "reduce"]
    assert (shape.item_tokens, shape.work_tokens, shape.calls) == (9, 18, 4)
    assert shape.has_overhead
    assert shape.assumed == ("Calls whose prompt is not stated read 400 tokens of their own.",)


def test_another_way_of_doing_it_can_be_stated():
    shape = map_reduce(parse_calls("5x250", "--map"), instead=parse_calls("1000", "--instead"), prompt_tokens=50)
    assert keys(shape.instead) == ["instead"]
    assert shape.has_overhead
    assert shape.assumed == ()


def test_longer_items_leave_the_plan_as_it_is():
    shape = map_reduce(parse_calls("2x100", "--map"), plan=parse_calls("80", "--plan"))
    assert shape.scaled is not None
    longer = shape.scaled(3.0)
    assert isinstance(longer.work, GraphWork)
    sizes = {step.name: step.output.mean_tokens for step in longer.work.graph.steps}
    assert sizes == {"plan": 80, "map": 300}


def test_nothing_to_repay_without_a_plan():
    assert not map_reduce(parse_calls("24x900", "--map")).has_overhead


@pytest.mark.parametrize(("rate", "verify_s"), [(-0.1, 0), (1.1, 0), (float("nan"), 0), (0.5, -1), (0.5, float("inf"))])
def test_tries_that_cannot_be(rate, verify_s):
    with pytest.raises(UsageError):
        best_of(parse_calls("6x900", "--best-of"), pass_rate=rate, verify_s=verify_s)


@pytest.mark.parametrize("text", [f"{'9' * 5000}x900", f"3x{'9' * 5000}/900"])
def test_numbers_that_no_job_has(text):
    with pytest.raises(UsageError, match="--map"):
        parse_calls(text, "--map")


def test_a_check_that_takes_longer_than_a_week_is_none():
    with pytest.raises(UsageError, match="604,800"):
        best_of(parse_calls("3x100", "--best-of"), pass_rate=0.5, verify_s=1e9)
