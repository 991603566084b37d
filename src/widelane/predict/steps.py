"""A job as steps: what each call reads and writes, and which others it waits for.

A `Step` stands for `count` calls of one kind; a `StepGraph` is checked when it is made, and hands out the single calls
(`PlannedCall`) in an order in which every call comes after those that it needs.
"""

from __future__ import annotations

import graphlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from widelane.errors import UsageError
from widelane.sim.answers.lengths import Fixed, Lengths

MOST_CALLS = 2_000
"""Calls of one job: more of them are a mistake in a count, and predict nothing that fewer would not."""
MOST_PROMPT_TOKENS = 10_000_000
"""Of one call: the longest contexts of models are as long."""
MOST_READ_TOKENS = 200_000_000
"""Of all prompts together: they are written out for the server to read, about five bytes a token."""
PLAN, WORK, INTEGRATE = "plan", "work", "integrate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Calls of one kind.

    Attributes:
        output: tokens that each of them writes.
        prompt_tokens: what each reads of its own, at least 1; what its `needs` wrote comes on top.
        count: how many there are, independent of each other.
        needs: names of steps; every call of this one waits for all calls of those.
        needs_share: names of steps whose calls are dealt out evenly among the calls of this one: of 6 calls on 48, the
            first waits for the first 8. With equal counts, call i waits for call i.
        reads: whether the prompt holds what the needed calls wrote.
        overhead: whether the step is only there because the work is split, so that it falls away without splitting.
    """

    name: str
    output: Lengths
    prompt_tokens: int
    count: int = 1
    needs: tuple[str, ...] = ()
    needs_share: tuple[str, ...] = ()
    role: str = WORK
    reads: bool = True
    overhead: bool = False

    @property
    def all_needs(self) -> tuple[str, ...]:
        """Every step that this one waits for in some way."""
        return (*self.needs, *self.needs_share)


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call of a step: its key and the keys of the calls it waits for."""

    key: str
    step: Step
    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepGraph:
    """Steps that wait for each other in no circle.

    Raises:
        UsageError: a name is missing, used twice or not known, a count or a size is no such thing, or steps wait for
            each other in a circle.
    """

    steps: tuple[Step, ...]
    _order: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.steps:
            raise UsageError("The job has no steps: give at least one with its output tokens.")
        for step in self.steps:
            _check(step)
        if self.call_count > MOST_CALLS:
            raise UsageError(f"The job has {self.call_count:,} calls; give at most {MOST_CALLS:,}.")
        names = _names(self.steps)
        for step in self.steps:
            _check_needs(step, names)
        object.__setattr__(self, "_order", _ordered(self.steps))
        for step in self.steps:
            _check_shares(step, self._by_name())
        self._check_read()

    @property
    def call_count(self) -> int:
        """Calls in all."""
        return sum(step.count for step in self.steps)

    @property
    def output_tokens(self) -> float:
        """Tokens that all calls write together, on average."""
        return sum(step.count * step.output.mean_tokens for step in self.steps)

    @property
    def varies(self) -> bool:
        """Whether chance has a part in it."""
        return not all(isinstance(step.output, Fixed) for step in self.steps)

    def calls(self) -> list[PlannedCall]:
        """Every call, after those that it needs; calls of one step in their order."""
        by_name = self._by_name()
        keys = {step.name: _keys(step) for step in self.steps}
        found = []
        for step in (by_name[name] for name in self._order):
            waits = tuple(key for name in step.needs for key in keys[name])
            for index, key in enumerate(keys[step.name]):
                own = [key for name in step.needs_share for key in _share(keys[name], index, step.count)]
                found.append(PlannedCall(key, step, (*waits, *own) if own else waits))
        return found

    def without_overhead(self) -> StepGraph | None:
        """The work alone: steps that only splitting needs are left out, and whoever waited for them waits for what
        they waited for. None when nothing remains."""
        by_name = self._by_name()
        kept = [step for step in self.steps if not step.overhead]
        if not kept:
            return None
        return StepGraph(tuple(replace(step, needs=_bridged(step, by_name), needs_share=_kept(step, by_name))
                               for step in kept))  # fmt: skip

    def _by_name(self) -> Mapping[str, Step]:
        return {step.name: step for step in self.steps}

    def _check_read(self) -> None:
        """Prompts that no server takes are not even written."""
        by_name = self._by_name()
        read = 0.0
        for step in self.steps:
            whole = sum(by_name[name].count * by_name[name].output.mean_tokens for name in step.needs)
            shared = sum(by_name[name].count * by_name[name].output.mean_tokens for name in step.needs_share)
            each = step.prompt_tokens + (whole + shared / step.count if step.reads else 0.0)
            read += step.count * each
            check_read(each, read)


def check_read(prompt_tokens: float, all_tokens: float) -> None:
    """Refuse prompts of a length that no server takes.

    Raises:
        UsageError: one prompt, or all of them together, are too long.
    """
    if prompt_tokens > MOST_PROMPT_TOKENS:
        raise UsageError(f"A call reads {prompt_tokens:,.0f} tokens; give at most {MOST_PROMPT_TOKENS:,}.")
    if all_tokens > MOST_READ_TOKENS:
        raise UsageError(f"The calls read {all_tokens:,.0f} tokens together; give at most {MOST_READ_TOKENS:,}.")


def _names(steps: Sequence[Step]) -> dict[str, None]:
    """The steps' names; neither they nor the names of their single calls may come twice."""
    names = dict.fromkeys(step.name for step in steps)
    if len(names) < len(steps):
        twice = next(name for name, count in Counter(step.name for step in steps).items() if count > 1)
        raise UsageError(f"Two steps are named {twice!r}: every step needs a name of its own.")
    for step in steps:
        for key in _keys(step) if step.count > 1 else ():
            if key in names:
                raise UsageError(f"Step {key!r} has the name of a call of step {step.name!r}: give it another one.")
    keys = Counter(key for step in steps for key in _keys(step))
    if twice_called := next((key for key, count in keys.items() if count > 1), None):
        raise UsageError(f"Two steps have a call named {twice_called!r}: give one of them another name.")
    return names


def _check(step: Step) -> None:
    if not step.name.strip():
        raise UsageError("A step of the job has no name.")
    if step.count < 1:
        raise UsageError(f"Step {step.name!r} has {step.count} calls: give 1 or more.")
    if step.prompt_tokens < 1:
        raise UsageError(f"Step {step.name!r} reads {step.prompt_tokens} tokens: a prompt has 1 or more.")


def _check_needs(step: Step, names: Mapping[str, None]) -> None:
    for name in step.all_needs:
        if name not in names:
            raise UsageError(f"Step {step.name!r} needs {name!r}, which is no step; there are: {', '.join(names)}.")
    if twice := set(step.needs) & set(step.needs_share):
        raise UsageError(f"Step {step.name!r} names {min(twice)!r} both in `needs` and in `needs_share`: name it once.")


def _check_shares(step: Step, by_name: Mapping[str, Step]) -> None:
    for name in step.needs_share:
        if by_name[name].count < step.count:
            raise UsageError(
                f"Step {step.name!r} has {step.count} calls that share out the {by_name[name].count} of {name!r}: "
                "some would get none. Give it at most as many calls, or use `needs`."
            )


def _ordered(steps: Sequence[Step]) -> tuple[str, ...]:
    sorter = graphlib.TopologicalSorter({step.name: step.all_needs for step in steps})
    try:
        return tuple(sorter.static_order())
    except graphlib.CycleError as error:
        circle = " → ".join(error.args[1])
        raise UsageError(f"The steps wait for each other in a circle: {circle}.") from None


def _keys(step: Step) -> list[str]:
    return [step.name] if step.count == 1 else [f"{step.name}-{index + 1}" for index in range(step.count)]


def _share(keys: Sequence[str], index: int, of: int) -> Sequence[str]:
    """The part of the keys that the call number `index` of `of` gets: sizes differ by one at most."""
    return keys[index * len(keys) // of : (index + 1) * len(keys) // of]


def _bridged(step: Step, by_name: Mapping[str, Step]) -> tuple[str, ...]:
    """The steps that remain behind those that fall away: each way back is gone once, however many lead to it."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    left = [*reversed((*step.needs, *(name for name in step.needs_share if by_name[name].overhead)))]
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        if by_name[name].overhead:
            left += reversed(by_name[name].all_needs)
        elif name in step.needs or name not in step.needs_share:
            found[name] = None
    return tuple(found)


def _kept(step: Step, by_name: Mapping[str, Step]) -> tuple[str, ...]:
    return tuple(name for name in step.needs_share if not by_name[name].overhead)
