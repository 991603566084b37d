"""One call as the simulated engine sees it: how much it reads and writes, and what of it others read too."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

Segment = tuple[Hashable, int]
"""A piece of a prompt: a key that is the same for the same text, and its tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimCall:
    """What the engine is told about a call.

    Attributes:
        id: unique; one that is waiting or running cannot be submitted again.
        prompt_tokens: tokens to read, at least 1.
        output_tokens: tokens that it will write, at least 1: its end is known to the simulator and to nobody else. It
            writes fewer where the context ends before.
        prefix: the prompt's beginning in pieces, first to last, for prefix caching; at most `prompt_tokens` in all. Two
            calls share what they begin with in common (system prompt, then task, then turns). The rest is its own.
        output_key: key of what it writes, so that a later prompt can go on from there: its `prefix` then holds this
            call's pieces, followed by `(output_key, output_tokens)`. The pieces must cover this call's whole prompt.
        priority: a lower number goes first; calls of one priority go in order of submission.
    """

    id: str
    prompt_tokens: int
    output_tokens: int
    prefix: tuple[Segment, ...] = ()
    output_key: Hashable | None = None
    priority: int = 0

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1 or self.output_tokens < 1:
            raise ValueError(
                f"call {self.id!r} reads {self.prompt_tokens} and writes {self.output_tokens} tokens: each is 1 or more"
            )
        if any(tokens < 1 for _, tokens in self.prefix) or self.prefix_tokens > self.prompt_tokens:
            raise ValueError(
                f"the prefix of call {self.id!r} has {self.prefix_tokens} tokens of a prompt of {self.prompt_tokens};"
                " each piece has at least one, and all together no more than the prompt"
            )

    @property
    def prefix_tokens(self) -> int:
        """Tokens of the prompt that the pieces of `prefix` cover."""
        return sum(tokens for _, tokens in self.prefix)
