"""The jobs themselves: ordinary coroutines over lanes, here on a backend without a server."""

from __future__ import annotations

import asyncio
import random

import pytest

from widelane.clock import LoopClock
from widelane.errors import BadRequest
from widelane.lanes.lanes import Lanes
from widelane.predict.best_of import BestOf, try_all
from widelane.predict.call_request import call_request, filler_prompt
from widelane.predict.chance import Chance, chances
from widelane.predict.run_steps import run_steps
from widelane.predict.steps import Step, StepGraph
from widelane.records import Outcome, Span
from widelane.sim.answers.lengths import Fixed
from widelane.sim.tokens import count_tokens
from widelane.testing.fake_backend import FakeBackend, Scripted
from widelane.virtual_time import run_virtual

CHANCE = Chance(0, 0.5)
GRAPH = StepGraph(
    (
        Step(name="plan", output=Fixed(8), prompt_tokens=10, role="plan"),
        Step(name="map", output=Fixed(9), prompt_tokens=20, count=3, needs=("plan",)),
        Step(name="reduce", output=Fixed(7), prompt_tokens=30, needs=("map",), role="integrate"),
    )
)


def spans_of(job, backend: FakeBackend, width: int) -> tuple[dict[str, Span], float]:
    async def main():
        async with Lanes(backend, width=width, clock=LoopClock(), rng=random.Random(0)) as lanes:
            await job(lanes)
            return {span.key: span for span in lanes.spans}, asyncio.get_running_loop().time()

    return run_virtual(main)


@pytest.mark.parametrize(("width", "wall_s"), [(1, 5.0), (2, 4.0), (3, 3.0), (9, 3.0)])
def test_steps_wait_for_what_they_need_and_for_lanes(width, wall_s):
    """Five calls of a second: plan, three maps, reduce."""
    spans, took_s = spans_of(lambda lanes: run_steps(lanes, GRAPH, CHANCE), FakeBackend(delay_s=1.0), width)
    assert took_s == pytest.approx(wall_s)
    assert spans["reduce"].started_ns >= max(spans[f"map-{n}"].ended_ns for n in (1, 2, 3))
    assert {span.role for span in spans.values()} == {"plan", "work", "integrate"}


def test_the_cause_of_a_call_is_the_needed_call_that_ended_last():
    backend = FakeBackend(lambda request, number: Scripted(answer="ok", delay_s=5.0 if number == 2 else 1.0))
    spans, _ = spans_of(lambda lanes: run_steps(lanes, GRAPH, CHANCE), backend, 9)
    assert spans["map-1"].parent == "plan"
    assert spans["reduce"].parent == "map-2"


def test_a_prompt_holds_what_the_needed_calls_wrote():
    backend = FakeBackend()
    spans_of(lambda lanes: run_steps(lanes, GRAPH, CHANCE), backend, 9)
    words = [len(request.messages[0]["content"].split()) for request in backend.requests]
    assert words == [10, 20 + 8, 20 + 8, 20 + 8, 30 + 3 * 9]
    assert [request.max_tokens for request in backend.requests] == [8, 9, 9, 9, 7]


def test_prompts_share_no_beginning():
    """No prefix cache may make a call cheaper than the calls that it stands for: 8 words tell any two of 500 apart."""
    beginnings = {tuple(filler_prompt(f"map-{number}", 50).split()[:8]) for number in range(500)}
    assert len(beginnings) == 500


@pytest.mark.parametrize("tokens", [1, 31, 32, 33, 5000])
def test_a_prompt_has_as_many_tokens_as_the_simulator_counts(tokens):
    assert count_tokens(filler_prompt("map-1", tokens)) == tokens


def test_the_length_of_an_answer_is_forced():
    request = call_request("a", 5, 6)
    assert (request.max_tokens, request.extra, request.prompt_tokens_estimate) == (6, {"ignore_eos": True}, 5)


def test_a_call_that_fails_ends_the_job():
    backend = FakeBackend(lambda request, number: BadRequest("no", status=400) if number == 1 else "ok", delay_s=1.0)
    with pytest.raises(ExceptionGroup) as raised:
        spans_of(lambda lanes: run_steps(lanes, GRAPH, CHANCE), backend, 9)
    assert raised.value.subgroup(BadRequest) is not None


def tries(pass_rate: float, *, verify_s: float = 0.0) -> BestOf:
    return BestOf(tries=6, output=Fixed(9), prompt_tokens=5, pass_rate=pass_rate, verify_s=verify_s)


def test_the_first_pass_ends_the_others():
    backend = FakeBackend(lambda request, number: Scripted(answer="ok", delay_s=1.0 + number))
    spans, took_s = spans_of(lambda lanes: try_all(lanes, tries(1.0, verify_s=0.5), CHANCE), backend, 6)
    assert took_s == pytest.approx(1.5)
    assert [span.outcome for span in spans.values()].count(Outcome.CANCELLED) == 5
    assert backend.cancelled == 5


def test_one_lane_tries_until_one_passes():
    backend = FakeBackend(delay_s=1.0)
    _, took_s = spans_of(lambda lanes: try_all(lanes, tries(1.0), CHANCE), backend, 1)
    assert took_s == pytest.approx(1.0, abs=1e-3)


def test_no_try_passes():
    backend = FakeBackend(delay_s=1.0)
    spans, took_s = spans_of(lambda lanes: try_all(lanes, tries(0.0), CHANCE), backend, 2)
    assert took_s == pytest.approx(3.0)
    assert all(span.outcome is Outcome.OK for span in spans.values())


def test_the_first_pass_is_spread_as_its_chance_is():
    """Each passes with one half: the first in half of all runs, the second in a quarter, none of three in an eighth."""
    job = BestOf(tries=3, output=Fixed(9), prompt_tokens=5, pass_rate=0.5)
    firsts = [job.first_pass(chance.share) for chance in chances(0, 8)]
    assert firsts == [1, 1, 1, 1, 2, 2, 3, 4]
    assert job.solved == 7 / 8


@pytest.mark.parametrize("width", [1, 2, 6])
def test_which_try_passes_does_not_depend_on_the_width(width):
    """A share of 0.6 at 30 % each: 1 - 0.7^2 = 0.51 is not enough, 1 - 0.7^3 = 0.66 is: the third."""
    found = []

    async def job(lanes):
        found.append(await try_all(lanes, tries(0.3), Chance(1, 0.6)))

    spans, took_s = spans_of(job, FakeBackend(delay_s=1.0), width)
    assert found == [True]
    assert spans["try-3"].outcome is Outcome.OK
    assert took_s == pytest.approx({1: 3.0, 2: 2.0, 6: 1.0}[width], abs=1e-3)
