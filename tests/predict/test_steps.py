"""Steps as a graph: the order of calls, who waits for whom, and what cannot be one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widelane.errors import UsageError
from widelane.predict.steps import Step, StepGraph
from widelane.sim.answers.lengths import Fixed, LogNormal


def step(name: str, tokens: int = 100, **more) -> Step:
    return Step(name=name, output=Fixed(tokens), prompt_tokens=10, **more)


def waits(graph: StepGraph) -> dict[str, tuple[str, ...]]:
    return {call.key: call.needs for call in graph.calls()}


def test_every_call_waits_for_all_calls_of_a_needed_step():
    graph = StepGraph((step("map", count=3), step("reduce", needs=("map",))))
    assert waits(graph) == {"map-1": (), "map-2": (), "map-3": (), "reduce": ("map-1", "map-2", "map-3")}


def test_a_share_is_dealt_out_evenly():
    """48 summaries and 6 partial merges: each merges 8 of them."""
    graph = StepGraph((step("map", count=48), step("merge", count=6, needs_share=("map",))))
    found = waits(graph)
    assert found["merge-1"] == tuple(f"map-{number}" for number in range(1, 9))
    assert found["merge-6"] == tuple(f"map-{number}" for number in range(41, 49))


@given(st.integers(1, 60), st.data())
def test_a_share_leaves_nothing_out_and_gives_nothing_twice(count, data):
    takers = data.draw(st.integers(1, count))
    graph = StepGraph((step("a", count=count), step("b", count=takers, needs_share=("a",))))
    given_out = [key for call in graph.calls() if call.step.name == "b" for key in call.needs]
    assert sorted(given_out) == sorted(call.key for call in graph.calls() if call.step.name == "a")


def test_calls_come_after_those_they_need_whatever_the_order_in_the_file():
    graph = StepGraph((step("reduce", needs=("map",)), step("map", count=2, needs=("plan",)), step("plan")))
    assert [call.key for call in graph.calls()] == ["plan", "map-1", "map-2", "reduce"]


def test_counts_and_tokens():
    graph = StepGraph((step("map", 900, count=24), step("reduce", 1200, needs=("map",))))
    assert graph.call_count == 25
    assert graph.output_tokens == 24 * 900 + 1200
    assert not graph.varies
    assert StepGraph((Step(name="a", output=LogNormal(mean_tokens=9, spread_tokens=3), prompt_tokens=1),)).varies


def test_without_what_only_splitting_needs():
    """Whoever waited for the plan waits for what the plan waited for."""
    graph = StepGraph(
        (
            step("read"),
            step("plan", needs=("read",), overhead=True),
            step("map", count=2, needs=("plan",)),
            step("check", count=2, needs_share=("map",)),
        )
    )
    alone = graph.without_overhead()
    assert alone is not None
    assert waits(alone) == {
        "read": (), "map-1": ("read",), "map-2": ("read",), "check-1": ("map-1",), "check-2": ("map-2",),
    }  # fmt: skip


def test_nothing_but_overhead_leaves_no_work():
    assert StepGraph((step("plan", overhead=True),)).without_overhead() is None


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((), "no steps"),
        ((step("  "),), "no name"),
        ((step("a"), step("a")), "Two steps are named 'a'"),
        ((step("a", needs=("b",)),), "'b', which is no step; there are: a"),
        ((step("a", needs=("b",)), step("b", needs=("a",))), "circle"),
        ((step("a", needs=("a",)),), "circle"),
        ((step("a", count=0),), "give 1 or more"),
        ((step("a", count=2001),), "at most 2,000"),
        ((step("a", count=2), step("b", count=3, needs_share=("a",))), "some would get none"),
        ((step("a"), step("b", needs=("a",), needs_share=("a",))), "name it once"),
    ],
)
def test_what_is_no_job(steps, words):
    with pytest.raises(UsageError, match=words):
        StepGraph(steps)


def test_a_long_row_of_overhead_falls_away():
    """1,500 planning steps in a row, and 26 layers in which each of two waits for both before it."""
    row = [step(f"s{i}", 1, overhead=True, reads=False, needs=(f"s{i - 1}",) if i else ("first",)) for i in range(1500)]
    alone = StepGraph((step("first"), *row, step("work", needs=("s1499",)))).without_overhead()
    assert alone is not None
    assert waits(alone) == {"first": (), "work": ("first",)}
    layers = [
        step(f"{i}{side}", 1, overhead=True, needs=(f"{i - 1}a", f"{i - 1}b") if i else ("first",))
        for i in range(26)
        for side in "ab"
    ]
    alone = StepGraph((step("first"), *layers, step("work", needs=("25a", "25b")))).without_overhead()
    assert alone is not None
    assert waits(alone) == {"first": (), "work": ("first",)}


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((step("a", count=2), step("a-1")), "'a-1' has the name of a call of step 'a'"),
        ((step("a", count=2), step("a-1", count=2), step("a-1-1")), "'a-1'"),
        ((step("a"), step("a")), "Two steps are named 'a'"),
        (tuple(step(f"s{i}") for i in range(10_000)), "10,000 calls"),
        ((Step(name="a", output=Fixed(1), prompt_tokens=10**10),), "reads 10,000,000,000 tokens"),
        ((step("a", 9000, count=1000), step("b", count=1000, needs=("a",))), "tokens together"),
    ],
)
def test_jobs_that_cannot_be_run_are_refused(steps, said):
    with pytest.raises(UsageError, match=said):
        StepGraph(steps)
