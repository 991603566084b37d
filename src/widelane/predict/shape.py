"""The generic job shapes, and how a person writes them: `24x900`, a plan before, a reduce after, `6x900` tries.

[COUNTx][PROMPT/]OUTPUT     24x900: 24 calls of 900 tokens;  24x2000/600-1500: each reads 2,000 and writes about 1,050
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from widelane.errors import UsageError
from widelane.lanes.lanes import Lanes
from widelane.predict.best_of import BestOf, try_all
from widelane.predict.chance import Chance
from widelane.predict.run_steps import run_steps
from widelane.predict.steps import INTEGRATE, PLAN, WORK, Step, StepGraph
from widelane.sim.answers.lengths import Fixed, Lengths, LogNormal, Observed, parse_lengths

ASSUMED_PROMPT_TOKENS = 400
"""What a call reads of its own where nobody says: a task description of a page."""

_CALLS = re.compile(r"(?:(?P<count>\d{1,18})\s*[x×*]\s*)?(?:(?P<prompt>\d{1,18})\s*/\s*)?(?P<output>.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """What `24x2000/900` says; `prompt_tokens` None where it does not."""

    count: int
    prompt_tokens: int | None
    output: Lengths


class Work(Protocol):
    """A job whose single runs differ by chance only: one coroutine over lanes."""

    async def run(self, lanes: Lanes, chance: Chance) -> bool:
        """Do it once. False when it came to nothing (no try passed)."""
        ...


@dataclass(frozen=True, slots=True)
class GraphWork:
    """Steps, each started when those that it needs have ended."""

    graph: StepGraph

    async def run(self, lanes: Lanes, chance: Chance) -> bool:
        await run_steps(lanes, self.graph, chance)
        return True


@dataclass(frozen=True, slots=True)
class TriesWork:
    """Tries at one task, of which the first that passes ends the others."""

    tries: BestOf

    async def run(self, lanes: Lanes, chance: Chance) -> bool:
        return await try_all(lanes, self.tries, chance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A job to be predicted, and what would be done instead.

    Attributes:
        kind: `map-reduce`, `steps` or `best-of`.
        words: the job in a few words.
        work: the job as it would use width.
        instead: what would be done on one lane without splitting; the same work, less what only splitting needs.
        instead_words: that in a few words.
        calls: calls of the job, at most.
        item_tokens: mean output of an item of the work that is split, None where there is no such thing.
        item_prompt_tokens: what an item reads of its own.
        work_tokens: output of all items together.
        has_overhead: whether splitting costs a round that must be repaid.
        varies: whether chance has a part in it.
        pass_rate: chance of one try, None where nothing is tried.
        scaled: the same shape with items `factor` times as long (the work that is not split included, what only
            splitting needs not); None where lengths do not matter to the verdict.
        assumed: what was not stated, one sentence each.
    """

    kind: str
    words: str
    work: Work
    instead: Work
    instead_words: str
    calls: int
    item_tokens: float | None
    item_prompt_tokens: int
    work_tokens: float
    has_overhead: bool
    varies: bool
    pass_rate: float | None = None
    scaled: Callable[[float], Shape] | None = None
    assumed: tuple[str, ...] = ()


def parse_calls(text: str, option: str) -> Calls:
    """`24x900`, `900`, `2000/900`, `24x2000/600-1500`.

    Raises:
        UsageError: it is none of these.
    """
    match = _CALLS.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{option} {text!r} is empty: give COUNTxTOKENS, such as 24x900.")
    try:
        output = parse_lengths(match["output"])
    except UsageError as error:
        raise UsageError(
            f"{option} {text[:80]!r}: give COUNTxTOKENS or COUNTxPROMPT/OUTPUT, as in 24x900. {error}"
        ) from None
    count = int(match["count"]) if match["count"] else 1
    prompt = int(match["prompt"]) if match["prompt"] else None
    if count < 1 or prompt == 0:
        raise UsageError(f"{option} {text[:80]!r}: a count and a prompt are 1 or more.")
    return Calls(count=count, prompt_tokens=prompt, output=output)


def map_reduce(
    items: Calls, *, plan: Calls | None = None, reduce: Calls | None = None, instead: Calls | None = None,
    prompt_tokens: int | None = None,
) -> Shape:  # fmt: skip
    """Items that do not depend on each other, with a plan before and a reduce after where there are any.

    Args:
        instead: the calls that would be made without splitting; None: the items one at a time, then the reduce.
        prompt_tokens: what each call reads of its own where it does not say; the reduce reads the items on top.
    """
    usual = ASSUMED_PROMPT_TOKENS if prompt_tokens is None else prompt_tokens
    steps = []
    if plan is not None:
        steps.append(_step("plan", plan, usual, role=PLAN, overhead=True))
    steps.append(_step("map", items, usual, needs=("plan",) if plan is not None else ()))
    if reduce is not None:
        steps.append(_step("reduce", reduce, usual, needs=("map",), role=INTEGRATE))
    alone = None if instead is None else StepGraph((_step("instead", instead, usual),))
    stated = [calls for calls in (plan, items, reduce, instead) if calls is not None]
    unsaid = prompt_tokens is None and any(calls.prompt_tokens is None for calls in stated)
    assumed = (f"Calls whose prompt is not stated read {usual:,} tokens of their own.",) if unsaid else ()
    words = " → ".join(_words(step) for step in steps)
    return graph_shape(StepGraph(tuple(steps)), alone, kind="map-reduce", words=words, assumed=assumed)


def graph_shape(
    graph: StepGraph, instead: StepGraph | None = None, *, kind: str = "steps", words: str | None = None,
    assumed: tuple[str, ...] = (),
) -> Shape:  # fmt: skip
    """Steps as a job; `instead` None: the same steps, less what only splitting needs, one call at a time."""
    alone = instead or graph.without_overhead()
    if alone is None:
        raise UsageError("Every step of the job is there only because of the splitting: there is no work to split.")
    items = [step for step in graph.steps if not step.overhead and step.count > 1] or [
        step for step in graph.steps if not step.overhead
    ]
    count = sum(step.count for step in items)
    return Shape(
        kind=kind,
        words=words or ", ".join(_words(step) for step in graph.steps),
        work=GraphWork(graph),
        instead=GraphWork(alone),
        instead_words=", ".join(_words(step) for step in alone.steps) + ", one call at a time",
        calls=graph.call_count,
        item_tokens=sum(step.count * step.output.mean_tokens for step in items) / count,
        item_prompt_tokens=round(sum(step.count * step.prompt_tokens for step in items) / count),
        work_tokens=sum(step.count * step.output.mean_tokens for step in items),
        has_overhead=instead is not None or any(step.overhead for step in graph.steps),
        varies=graph.varies or alone.varies,
        scaled=lambda factor: graph_shape(_scaled(graph, factor), _scaled(alone, factor), kind=kind, words=words),
        assumed=assumed,
    )


def best_of(tries: Calls, *, pass_rate: float, verify_s: float = 0.0, prompt_tokens: int | None = None) -> Shape:
    """Tries at one task at the same time; the first that passes a check of `verify_s` seconds ends the others.

    Raises:
        UsageError: the pass rate is no probability, or the check takes less than no time.
    """
    usual = ASSUMED_PROMPT_TOKENS if prompt_tokens is None else prompt_tokens
    prompt = usual if tries.prompt_tokens is None else tries.prompt_tokens
    job = BestOf(
        tries=tries.count, output=tries.output, prompt_tokens=prompt, pass_rate=pass_rate, verify_s=verify_s
    )  # fmt: skip
    unsaid = prompt_tokens is None and tries.prompt_tokens is None
    mean = tries.output.mean_tokens
    return Shape(
        kind="best-of",
        words=f"best of {tries.count:,} tries of {_lengths_words(tries.output)} tokens, each passing with"
        f" {pass_rate * 100:.3g} %",
        work=TriesWork(job),
        instead=TriesWork(job),
        instead_words="the same tries one after another, until one passes",
        calls=tries.count,
        item_tokens=mean,
        item_prompt_tokens=prompt,
        work_tokens=mean * tries.count,
        has_overhead=False,
        varies=True,
        pass_rate=pass_rate,
        assumed=(f"The prompt is taken to be {usual:,} tokens long.",) if unsaid else (),
    )


def _step(
    name: str, calls: Calls, usual: int, *, needs: tuple[str, ...] = (), role: str = WORK, overhead: bool = False
) -> Step:
    prompt = usual if calls.prompt_tokens is None else calls.prompt_tokens
    return Step(
        name=name,
        output=calls.output,
        prompt_tokens=prompt,
        count=calls.count,
        needs=needs,
        role=role,
        overhead=overhead,
    )


def _scaled(graph: StepGraph, factor: float) -> StepGraph:
    return StepGraph(
        tuple(step if step.overhead else replace(step, output=_longer(step.output, factor)) for step in graph.steps)
    )


def _longer(lengths: Lengths, factor: float) -> Lengths:
    """The same distribution, stretched; never below one token."""
    if isinstance(lengths, LogNormal):
        mean, spread = max(1.0, lengths.mean_tokens * factor), lengths.spread_tokens * factor
        return LogNormal(mean_tokens=mean, spread_tokens=spread)
    if isinstance(lengths, Observed):
        return Observed([max(1, round(tokens * factor)) for tokens in lengths.tokens])
    return Fixed(max(1, round(lengths.mean_tokens * factor)))


def _words(step: Step) -> str:
    count = f"{step.count:,} × " if step.count > 1 else ""
    return f"{step.name} {count}{_lengths_words(step.output)} tokens"


def _lengths_words(lengths: Lengths) -> str:
    about = "" if isinstance(lengths, Fixed) else "about "
    return f"{about}{round(lengths.mean_tokens):,}"
