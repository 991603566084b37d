"""vLLM's pool: blocks, the most requests at full length, and the line of its start log, whose meaning changed.

"GPU KV cache size: N tokens" was `blocks // groups * block` up to 0.20.0; from 0.20.1 it is the maximum concurrency
times `--max-model-len`. One machine with the same flags printed 582,832 before and 1,241,920 after: the line is never
to be compared across versions, nor planned from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from widelane.errors import UsageError
from widelane.plan.launch.versions import version_of
from widelane.plan.pool.pool import Pool
from widelane.plan.pool.vllm_layout import BLOCK_TOKENS, CacheKind, CacheLayout, Keeps, StateMode, cache_layout

NEW_LOG_LINE = (0, 20, 1)
"""First version whose log line is concurrency times length; its development builds still print the old one."""
STEP_TOKENS = 8192
"""`--max-num-batched-tokens` of a server on a card of 70 GiB or more; a smaller one has 2048."""


def prints_concurrency(version: str | None) -> bool:
    """Whether this version's log line is maximum concurrency times length. None is the newest, which does."""
    numbers = version_of(version)
    if numbers is None:
        return True
    return numbers > NEW_LOG_LINE or (numbers == NEW_LOG_LINE and ".dev" not in (version or ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmPool(Pool):
    """A pool of equal blocks.

    Attributes:
        layout: how blocks and groups are cut.
        pool_blocks: blocks in all (`num_gpu_blocks`).
        length_limit: `--max-model-len`.
        batched_tokens: `--max-num-batched-tokens`, which window layers count in.
        version: None is the newest.
        devices: cards that each hold such a pool for their share of the heads.
    """

    layout: CacheLayout
    pool_blocks: int
    length_limit: int
    batched_tokens: int = STEP_TOKENS
    version: str | None = None
    devices: int = 1

    @property
    def engine(self) -> str:
        return "vllm"

    @property
    def unit(self) -> str:
        return "blocks"

    @property
    def capacity(self) -> int:
        return self.pool_blocks

    def need(self, tokens: int) -> int:
        return self.layout.need(tokens)

    @property
    def longest_tokens(self) -> int:
        return self.length_limit

    @property
    def max_sequences(self) -> int | None:
        return None

    @property
    def bytes(self) -> int:
        return int(self.pool_blocks * self.layout.block_bytes) * self.devices

    @property
    def state_bytes(self) -> int:
        return 0

    @property
    def block_tokens(self) -> int:
        return self.layout.block_tokens

    @property
    def blocks(self) -> int:
        return self.pool_blocks

    @property
    def max_concurrency(self) -> float:
        """Requests of the greatest length that fit, as the engine counts them."""
        return self.pool_blocks / self.layout.need(self.length_limit, prefilling=self.batched_tokens)

    @property
    def tokens(self) -> int:
        return int(self.max_concurrency * self.length_limit)

    @property
    def old_log_tokens(self) -> int:
        """What versions up to 0.20.0 print."""
        smallest = min(groups.block_tokens for groups in self.layout.groups)
        return self.pool_blocks // self.layout.group_count * smallest

    @property
    def new_log_tokens(self) -> int:
        """What versions from 0.20.1 print."""
        return self.tokens

    @property
    def log_line_tokens(self) -> int:
        return self.new_log_tokens if prints_concurrency(self.version) else self.old_log_tokens

    @property
    def meaning(self) -> str:
        if any(group.keeps is Keeps.STATE for group in self.layout.groups):
            return (
                f"tokens held by requests of {self.length_limit:,} tokens each; shorter ones hold fewer together, as "
                "each also keeps recurrent states"
            )
        return "tokens held by all requests together"


def vllm_pool(
    *,
    avail_bytes: float,
    n_attn: int,
    kv_heads: int,
    head_dim: int,
    kv_bytes: float,
    max_len: int,
    n_rec: int = 0,
    page_rec: float = 0,
    mode: str = "none",
    spec: int = 0,
    other_groups: Sequence[int] = (),
    attn_extra: int = 0,
    version: str | None = None,
    block_align: int = BLOCK_TOKENS,
    chunk: int = 1,
) -> VllmPool:
    """The pool from bare numbers, as published start-up figures give them.

    Args:
        avail_bytes: memory for the pool ("Available KV cache memory").
        n_attn, n_rec: attention and recurrent layers of the model.
        kv_heads, head_dim, kv_bytes: cache of one attention layer: heads, dimension, bytes an element.
        page_rec: state of one recurrent layer and sequence in bytes, convolution (with its drafted columns) included.
        max_len: `--max-model-len`.
        mode: `none`, `align` or `all` (`--mamba-cache-mode`).
        spec: drafted tokens a step.
        other_groups: layer counts of further attention kinds that keep every token (a separate drafter's).
        attn_extra: attention layers of the model's own draft head.
        block_align, chunk: see `cache_layout`.

    Raises:
        UsageError: `mode` is none of the three.
    """
    if mode not in set(StateMode):
        raise UsageError(f"{mode!r} is no mode of the recurrent cache: none, align or all.")
    token_bytes = 2 * kv_heads * head_dim * kv_bytes
    kinds = [CacheKind(keeps=Keeps.WHOLE, layers=n_attn + attn_extra, token_bytes=token_bytes)]
    if n_rec:
        kinds.append(CacheKind(keeps=Keeps.STATE, layers=n_rec, state_bytes=page_rec))
    kinds += [CacheKind(keeps=Keeps.WHOLE, layers=layers, token_bytes=token_bytes) for layers in other_groups]
    layout = cache_layout(
        kinds, mode=StateMode(mode), draft_depth=spec, longest_tokens=max_len, align=block_align, chunk=chunk
    )
    return VllmPool(layout=layout, pool_blocks=layout.blocks_in(avail_bytes), length_limit=max_len, version=version)


def vllm_pool_of_log_line(
    layout: CacheLayout,
    tokens: int,
    *,
    version: str | None,
    longest_tokens: int,
    batched_tokens: int = STEP_TOKENS,
    devices: int = 1,
) -> VllmPool:
    """The smallest pool that prints at least this figure.

    The old line rounds down to whole rounds of groups, so up to `groups - 1` blocks more may be there.
    """

    def pool(blocks: int) -> VllmPool:
        return VllmPool(
            layout=layout,
            pool_blocks=blocks,
            length_limit=longest_tokens,
            batched_tokens=batched_tokens,
            version=version,
            devices=devices,
        )

    low, high = 0, 1
    while pool(high).log_line_tokens < tokens:
        low, high = high, high * 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if pool(middle).log_line_tokens >= tokens else (middle + 1, high)
    return pool(low)
