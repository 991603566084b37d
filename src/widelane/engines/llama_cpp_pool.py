"""Does llama.cpp's context belong to all slots or to each? No endpoint says so; four sources do, in this order.

1. The start log.
2. The launch line: `--kv-unified` or its opposite; `-np` absent means shared, present means split.
3. The number of slots: any number but four was asked for with `-np`, which splits.
4. The context: four slots that each claim all that the model was trained on are the default, shared.
"""

from __future__ import annotations

from dataclasses import dataclass

from widelane.engines.sources import Sources, first_known, read_figure
from widelane.figures import Figure, Origin, unknown

AUTOMATIC_SLOTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolClues:
    """What the question is answered from."""

    slots: Figure
    context: Figure
    context_trained: Figure | None
    sources: Sources


def unified_pool(clues: PoolClues) -> Figure:
    """Whether all slots share one pool that has no queue and no preemption: full, it fails everybody in flight."""
    if clues.slots.value == 1:
        return Figure(False, "", Origin.INFERRED, reason="there is one slot: nothing is shared")
    return first_known(
        read_figure(clues.sources.log.unified, "", "in the start log"),
        clues.sources.read("kv_unified"),
        _by_launch(clues.sources),
        _by_numbers(clues),
        unit="",
        otherwise="no endpoint says whether the slots share one pool: pass --launch or --log",
    )


def pool_tokens(clues: PoolClues, unified: Figure) -> Figure:
    """Tokens the whole KV cache holds."""
    logged = read_figure(clues.sources.log.pool_tokens, "tokens", "in the start log")
    if logged is not None:
        return logged
    launch = clues.sources.launch
    stated = launch.number("ctx_size") if launch else None
    if stated:
        return Figure(stated, "tokens", Origin.READ, reason=f"-c on the {clues.sources.lines[0][1]}")
    context, slots = clues.context.number, clues.slots.number
    if context is None or slots is None or unified.value is None:
        return unknown("tokens", "follows from the context only when it is known whether the slots share it")
    if unified.value:
        return Figure(int(context), "tokens", Origin.INFERRED, reason="the context that all slots share")
    return Figure(int(context * slots), "tokens", Origin.INFERRED, reason="context of one slot times slots")


def _by_launch(sources: Sources) -> Figure | None:
    if sources.launch is None:
        return None
    parallel, where = sources.launch.number("parallel"), sources.lines[0][1]
    if parallel is not None and parallel > 0:
        return Figure(False, "", Origin.INFERRED, reason=f"-np on the {where} splits the context between the slots")
    return Figure(True, "", Origin.INFERRED, reason=f"-np is not on the {where}: automatic slots share one pool")


def _by_numbers(clues: PoolClues) -> Figure | None:
    slots, context = clues.slots.number, clues.context.number
    if slots is None:
        return None
    if slots != AUTOMATIC_SLOTS:
        return Figure(
            False,
            "",
            Origin.INFERRED,
            reason="not the automatic number of slots, so -np was given, which splits the context",
        )
    trained = clues.context_trained.number if clues.context_trained else None
    if trained is not None and context == trained:
        return Figure(
            True, "", Origin.INFERRED, reason="four slots that each claim the model's whole context: the default start"
        )
    return None
