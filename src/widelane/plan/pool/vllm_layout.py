"""How vLLM divides its cache: the block that all layers share, groups of layers, and blocks a sequence takes.

Every block of the pool has the same bytes, whichever kind of layer it serves. So a recurrent state, which is large,
sets the size of the attention blocks, and each kind of layer is split into groups of equal layer count:

    block = align * ceil(state / (align * a1))        tokens; a1: bytes of one attention layer and token
    size  = smallest layer count over the kinds       (the largest, when that is below 1.5 times the smallest)
    count = ceil(layers of a kind / size)             groups of that kind; every group has its own table of blocks

Source, read in 0.17 to 0.33: `v1/core/kv_cache_utils.py` (grouping), `platforms/interface.py` (alignment),
`v1/kv_cache_interface.py` (blocks a sequence takes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, lcm

BLOCK_TOKENS = 16
"""A block's tokens where no recurrent state asks for more, and the step in which it grows (CUDA, ROCm)."""
CPU_BLOCK_TOKENS = 128
"""The same on a CPU (seen in 0.32)."""
NEARLY_EQUAL = 1.5
"""Layer counts closer than this factor are padded to the larger one."""


class Keeps(StrEnum):
    """What a kind of layer keeps of a sequence."""

    WHOLE = "whole"
    """Every token, for ever."""
    WINDOW = "window"
    STATE = "state"


class StateMode(StrEnum):
    """vLLM's `--mamba-cache-mode`: which recurrent states of a sequence are kept for the prefix cache."""

    NONE = "none"
    """No prefix cache: the running state only."""
    ALIGN = "align"
    """The last state at a block boundary beside the running one."""
    ALL = "all"
    """A state for each block of tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheKind:
    """All layers that keep the same thing in the same shape.

    Attributes:
        token_bytes: of one attention layer and one token; 0 for a recurrent kind.
        state_bytes: of one recurrent layer and one sequence, convolution included; 0 for attention.
        window: tokens that a WINDOW kind keeps.
    """

    keeps: Keeps
    layers: int
    token_bytes: float = 0.0
    state_bytes: float = 0.0
    window: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGroups:
    """The groups made of one kind. `block_tokens` is of these groups, `count` how many tables of blocks they have."""

    keeps: Keeps
    count: int
    block_tokens: int
    window: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayout:
    """The pool's division.

    Attributes:
        block_tokens: tokens of an attention block, as the start log says it.
        page_bytes: one layer's part of a block.
        group_size: layers of a group; a block takes `page_bytes * group_size`.
    """

    block_tokens: int
    page_bytes: float
    group_size: int
    groups: tuple[CacheGroups, ...]
    mode: StateMode
    draft_depth: int

    @property
    def block_bytes(self) -> float:
        """Bytes of one block of the pool."""
        return self.page_bytes * self.group_size

    @property
    def group_count(self) -> int:
        """Tables of blocks that each sequence has."""
        return sum(groups.count for groups in self.groups)

    def blocks_in(self, free_bytes: float) -> int:
        """Blocks that so much memory holds."""
        return max(0, int(free_bytes // self.page_bytes // self.group_size))

    def need(self, tokens: int, *, prefilling: int = 0) -> int:
        """Blocks that a sequence of so many tokens takes.

        Args:
            prefilling: prompt tokens read in one step; a window layer keeps these beside its window. 0 while decoding.
        """
        return sum(groups.count * self._blocks(groups, max(1, tokens), prefilling) for groups in self.groups)

    def _blocks(self, groups: CacheGroups, tokens: int, prefilling: int) -> int:
        whole = ceil(tokens / groups.block_tokens)
        if groups.keeps is Keeps.WHOLE:
            return whole
        if groups.keeps is Keeps.WINDOW:
            kept = min(tokens, groups.window - 1 + prefilling)
            # The window may begin anywhere in its first block: one block more than its length.
            windowed = ceil(kept / groups.block_tokens) + 1
            return windowed if prefilling else min(whole, windowed)
        states = {StateMode.NONE: 1, StateMode.ALIGN: 2, StateMode.ALL: whole}[self.mode]
        return states + self.draft_depth


def cache_layout(
    kinds: Sequence[CacheKind],
    *,
    mode: StateMode = StateMode.NONE,
    draft_depth: int = 0,
    longest_tokens: int,
    align: int = BLOCK_TOKENS,
    chunk: int = 1,
) -> CacheLayout:
    """The layout of a model with these kinds of layers; the model's own kinds come first, a drafter's after them.

    Args:
        draft_depth: drafted tokens a step, each of which has a recurrent state of its own.
        longest_tokens: `--max-model-len`; the block of a purely recurrent model, but in mode `all`.
        align: the step in which blocks grow.
        chunk: tokens that the state kernel reads at once; blocks are multiples of it in mode `all`.
    """
    kept = [kind for kind in kinds if kind.layers > 0]
    if not kept:
        raise ValueError("a model without a layer that keeps anything has no pool")
    attention = [kind for kind in kept if kind.keeps is not Keeps.STATE]
    if not attention:
        page = max(kind.state_bytes for kind in kept)
        block = chunk if mode is StateMode.ALL else longest_tokens
        blocks = [block] * len(kept)
    else:
        block = _block_tokens(
            kept, attention[0].token_bytes, align, lcm(chunk, align) if mode is StateMode.ALL else align
        )
        if _one_type(kept):
            return _one_group(kept, block, mode, draft_depth)
        page = max(kind.token_bytes * block for kind in attention)
        blocks = [_widened(kind, block, page) for kind in kept]
    size = _group_size([kind.layers for kind in kept])
    return CacheLayout(
        block_tokens=block,
        page_bytes=page,
        group_size=size,
        groups=tuple(
            _groups(kind, ceil(kind.layers / size), tokens) for kind, tokens in zip(kept, blocks, strict=True)
        ),
        mode=mode,
        draft_depth=draft_depth,
    )


def _block_tokens(kinds: Sequence[CacheKind], token_bytes: float, align: int, step: int) -> int:
    """Tokens of an attention block: as many as it takes to be no smaller than a recurrent state."""
    state = max(kind.state_bytes for kind in kinds)
    return max(align, step * ceil(ceil(state / token_bytes) / step))


def _one_type(kinds: Sequence[CacheKind]) -> bool:
    """Whether one table of blocks does for all layers: all keep every token, or all the same window."""
    return len({(kind.keeps, kind.window) for kind in kinds}) == 1 and kinds[0].keeps is not Keeps.STATE


def _one_group(kinds: Sequence[CacheKind], block: int, mode: StateMode, draft_depth: int) -> CacheLayout:
    """One group of all layers; layers of different size each take what they need."""
    layers = sum(kind.layers for kind in kinds)
    alike = len({kind.token_bytes for kind in kinds}) == 1
    total = sum(kind.layers * kind.token_bytes for kind in kinds) * block
    return CacheLayout(
        block_tokens=block,
        page_bytes=kinds[0].token_bytes * block if alike else total,
        group_size=layers if alike else 1,
        groups=(_groups(kinds[0], 1, block),),
        mode=mode,
        draft_depth=draft_depth,
    )


def _widened(kind: CacheKind, block: int, page: float) -> int:
    """Tokens of this kind's blocks: a page that goes into the largest without rest holds more, any other is padded."""
    if kind.keeps is Keeps.STATE:
        return block
    ratio, rest = divmod(page, kind.token_bytes * block)
    return block if rest else block * int(ratio)


def _group_size(layers: Sequence[int]) -> int:
    """Layers of a group."""
    fewest, most = min(layers), max(layers)
    return most if most < NEARLY_EQUAL * fewest else fewest


def _groups(kind: CacheKind, count: int, block: int) -> CacheGroups:
    return CacheGroups(keeps=kind.keeps, count=count, block_tokens=block, window=kind.window)
