"""How the simulated engine is set up: places, the pool, what happens when it is full, and what a step may hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from widelane.errors import UsageError


class PoolUnits(Protocol):
    """A pool in its engine's own unit, as every `plan.pool.Pool` is one."""

    @property
    def capacity(self) -> int:
        """Units in all."""
        ...

    def need(self, tokens: int) -> int:
        """Units of a sequence of so many tokens: never fewer for more, and no more for a whole than for its parts."""
        ...


@dataclass(frozen=True, slots=True)
class BlockPool:
    """A pool of equal blocks, as a model with one kind of attention layers has it.

    Attributes:
        capacity: blocks in all.
        block_tokens: tokens of one block; 1 counts in tokens.
    """

    capacity: int
    block_tokens: int = 16

    def need(self, tokens: int) -> int:
        return max(1, -(-tokens // self.block_tokens))


class PoolPolicy(StrEnum):
    """What an engine does about a pool that fills up."""

    RECOMPUTE = "recompute"
    """vLLM, SGLang: a call starts when its prompt fits; when decoding finds no block, the youngest running call gives
    back all of its own, goes to the head of the queue and is computed anew later."""
    FAIL_ALL = "fail-all"
    """llama.cpp's shared pool: a call starts in any free slot; when the cells are used up, every running call fails."""
    RESERVE = "reserve"
    """llama.cpp with a split context: a call starts when there is room for all that it could take."""


class PrefixCache(StrEnum):
    """What a call can take over from earlier ones instead of reading it again."""

    NONE = "none"
    BLOCKS = "blocks"
    """vLLM, SGLang: full blocks are found by their content, shared by running calls, and kept until the room is
    needed."""
    SLOTS = "slots"
    """llama.cpp: a slot keeps what its last call had; a call takes the free slot that begins most like its prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The engine's settings.

    Attributes:
        slots: sequences that run at the same time (`-np`, `--max-num-seqs`).
        longest_tokens: prompt and output of one sequence (`--max-model-len`; the context of ONE slot). A longer prompt
            is refused, a longer output ends there.
        pool: where the sequences live; None has room for all.
        policy: what happens when the pool is full.
        prefill_chunk_tokens: tokens that one step computes at most, drafted and decoded ones first, prompts with what
            is left (`--max-num-batched-tokens`; llama.cpp's `-b`).
        prefill_shares_steps: prompts are read in steps that decode too (vLLM, llama.cpp); False lets all decoding wait
            for them (SGLang).
        prefix_cache: what calls take over from earlier ones.
        prefix_block_tokens: granularity of that: a block (BLOCKS); 1 for slots.
        draft_depth: tokens drafted for each sequence and step, 0 without speculation.
        acceptance: share of drafted tokens kept at each position, given that the ones before were kept; at least
            `draft_depth` of them.
        graph_sizes: numbers of tokens for which decoding graphs were captured: a decode step is padded up to the next.
            Empty: no padding. Beyond the largest, none.
        noise: half width of a factor on all times that is drawn once, as one boot of a server differs from the next
            (0.1: uniformly 0.9 to 1.1).
        max_queue: calls that may wait; one more is refused. None: any number.
    """

    slots: int
    longest_tokens: int
    pool: PoolUnits | None = None
    policy: PoolPolicy = PoolPolicy.RECOMPUTE
    prefill_chunk_tokens: int = 2048
    prefill_shares_steps: bool = True
    prefix_cache: PrefixCache = PrefixCache.NONE
    prefix_block_tokens: int = 16
    draft_depth: int = 0
    acceptance: tuple[float, ...] = ()
    graph_sizes: tuple[int, ...] = ()
    noise: float = 0.0
    max_queue: int | None = None

    def __post_init__(self) -> None:
        _check_sizes(self)
        _check_speculation(self)
        if self.prefix_cache in _IMPOSSIBLE.get(self.policy, ()):
            raise UsageError(
                f"No engine has a prefix cache of {self.prefix_cache.value} with a pool of policy {self.policy.value}:"
                " vLLM and SGLang share blocks and recompute, llama.cpp's slots remember and fail all or reserve."
            )
        if not 0.0 <= self.noise < 1.0:
            raise UsageError(f"A noise of {self.noise:g} is no share from 0 to below 1: 0.1 means plus or minus 10 %.")

    @property
    def tokens_per_sequence(self) -> int:
        """Tokens that a decoding sequence has computed in one step."""
        return 1 + self.draft_depth


_IMPOSSIBLE = {PoolPolicy.RECOMPUTE: (PrefixCache.SLOTS,), PoolPolicy.FAIL_ALL: (PrefixCache.BLOCKS,)}


def _check_sizes(config: EngineConfig) -> None:
    counts = {
        "slots": config.slots,
        "longest_tokens": config.longest_tokens,
        "prefill_chunk_tokens": config.prefill_chunk_tokens,
        "prefix_block_tokens": config.prefix_block_tokens,
        **({} if config.max_queue is None else {"max_queue": config.max_queue + 1}),
    }
    for name, count in counts.items():
        if count < 1:
            raise UsageError(f"The simulated engine's {name} is too small: give a larger one.")
    if config.longest_tokens < 2:
        raise UsageError("A sequence of one token leaves no room for an answer: give longest_tokens of 2 or more.")
    if list(config.graph_sizes) != sorted(set(config.graph_sizes)) or any(size < 1 for size in config.graph_sizes):
        raise UsageError(f"Captured graph sizes are rising numbers from 1 up, not {list(config.graph_sizes)}.")
    decoding = config.slots * config.tokens_per_sequence
    if config.prefill_chunk_tokens <= decoding:
        raise UsageError(
            f"A step of {config.prefill_chunk_tokens} tokens has no room for prompts when {config.slots} slots decode"
            f" {config.tokens_per_sequence} tokens each: give more than {decoding} tokens a step, or fewer slots."
        )


def _check_speculation(config: EngineConfig) -> None:
    if config.draft_depth < 0 or any(not 0.0 <= share <= 1.0 for share in config.acceptance):
        raise UsageError(
            f"Speculation of depth {config.draft_depth} with acceptance {list(config.acceptance)}: the depth is 0 or"
            " more, and each share lies from 0 to 1."
        )
    if len(config.acceptance) < config.draft_depth:
        raise UsageError(
            f"Speculation of depth {config.draft_depth} needs an acceptance for each position, and there are"
            f" {len(config.acceptance)}: give them all, or a smaller depth."
        )
