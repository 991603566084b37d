"""What a declared use needs of a server: tokens one call may take, and calls at a time.

The figures are round, stated here and nowhere else; a person with better ones gives `--context`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """One kind of use.

    Attributes:
        context_tokens: prompt plus answer of a large but usual call.
        width: calls that such a use likes to have in flight.
        why: what the figures stand for.
    """

    name: str
    context_tokens: int
    width: int
    why: str


USES = {
    use.name: use
    for use in (
        Use("chat", 4_096, 4, "a conversation of some turns"),
        Use("agents", 32_768, 8, "tool calls, file contents and their history"),
        Use("batch", 2_048, 32, "many short independent calls"),
        Use("long", 65_536, 2, "whole documents in one prompt"),
    )
}


@dataclass(frozen=True, slots=True)
class Needs:
    """What this run was told about the use.

    Attributes:
        context_tokens: tokens one call needs; None when nothing was declared.
        width: calls the use wants at a time; None when nothing was declared.
        said: how it was declared, for the evidence.
    """

    context_tokens: int | None
    width: int | None
    said: str


def needs(use: str | None, context_needed: int | None) -> Needs:
    """The needs of a use; a stated context wins over that of the use.

    Raises:
        KeyError: the use is none of `USES`: a mistake of the caller, who offers them.
    """
    known = USES[use] if use else None
    width = known.width if known else None
    if context_needed is not None:
        return Needs(context_needed, width, f"{context_needed:,} tokens were asked for")
    if known is None:
        return Needs(None, None, "no use was declared")
    return Needs(known.context_tokens, width, f"use `{known.name}`: {known.context_tokens:,} tokens, {known.why}")
