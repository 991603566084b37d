"""llama.cpp's cache: cells of one shared pool or of one a slot, window layers beside it, and a state for each slot.

    cells        n_ctx padded to 256; split: each slot gets pad256(n_ctx / slots)
    KV           cells * sum over attention layers of (K + V) bytes a token; K and V have types of their own
    windows      pad256(min(cells, window * (slots if shared else 1) + micro batch)) cells, once or for each slot
    states       slots * (1 + draft depth) * (convolution + state), always float32

There is no preemption: when a shared pool is full, every running slot fails with a context-size error. Source:
llama-context.cpp, llama-kv-cache-iswa.cpp, llama-memory-recurrent.cpp, tools/server (b11434 to b11549).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from widelane.errors import UsageError
from widelane.facts.model import ModelFacts
from widelane.plan.pool.dtypes import check_cache_dtype
from widelane.plan.pool.pool import Pool
from widelane.plan.pool.settings import PoolSettings
from widelane.plan.pool.state_sizes import cached_token_bytes, token_bytes

AUTOMATIC_SLOTS = 4
"""Slots when `-np` is absent; they share one pool."""
MOST_SLOTS = 256
CELL_STEP = 256
"""Cells come in multiples of this."""
STATE_ELEMENT_BYTES = 4
KV_TYPE = "f16"
"""Type of the cache where none is set."""


def padded(cells: float) -> int:
    """Cells rounded up to what llama.cpp allocates."""
    return ceil(cells / CELL_STEP) * CELL_STEP


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCppPool(Pool):
    """The caches of one llama.cpp server (Ollama starts the same one).

    Attributes:
        server: `llama.cpp` or `ollama`.
        cells: of one pool: of the shared one, or of one slot's.
        pools: 1 when shared, else one a slot.
        slot_count: places.
        kv_bytes: caches of layers that keep every token, drafting layers' included.
        window_bytes: caches of window layers.
        recurrent_bytes: states of all slots.
        length_limit: tokens of the longest sequence a slot takes.
        attends: whether any layer keeps tokens; a purely recurrent model is limited by its slots alone.
    """

    server: str
    cells: int
    pools: int
    slot_count: int
    kv_bytes: int
    window_bytes: int
    recurrent_bytes: int
    length_limit: int
    attends: bool = True

    @property
    def engine(self) -> str:
        return self.server

    @property
    def unit(self) -> str:
        return "cells" if self.attends else "slots"

    @property
    def shared(self) -> bool:
        """Whether all slots draw on one pool."""
        return self.pools == 1 and self.slot_count > 1

    @property
    def capacity(self) -> int:
        return self.cells * self.pools if self.attends else self.slot_count

    def need(self, tokens: int) -> int:
        if not self.attends:
            return 1
        return max(1, tokens) if self.pools == 1 else max(self.cells, tokens)

    @property
    def longest_tokens(self) -> int:
        return self.length_limit

    @property
    def max_sequences(self) -> int | None:
        return self.slot_count

    @property
    def bytes(self) -> int:
        return self.kv_bytes + self.window_bytes + self.recurrent_bytes

    @property
    def state_bytes(self) -> int:
        return self.recurrent_bytes

    @property
    def tokens(self) -> int:
        return self.cells * self.pools

    @property
    def log_line_tokens(self) -> int:
        return self.tokens

    @property
    def meaning(self) -> str:
        if self.shared:
            return (
                f"cells that {self.slot_count} slots share; there is no preemption: when they are full, every running"
                " request fails"
            )
        if self.slot_count == 1:
            return "cells of the only slot"
        return f"cells of {self.slot_count} slots together, {self.cells:,} each; a slot cannot use another's"


def slot_count(settings: PoolSettings) -> int:
    """Places that the server starts with.

    Raises:
        UsageError: more than llama.cpp has.
    """
    slots = settings.slots if settings.slots is not None else AUTOMATIC_SLOTS
    if slots > MOST_SLOTS:
        raise UsageError(f"llama.cpp has at most {MOST_SLOTS} slots, not {slots}: pass -np {MOST_SLOTS} or less.")
    return slots


def shares_pool(settings: PoolSettings) -> bool:
    """Whether the slots share one pool: as set, else only when `-np` is absent."""
    return settings.slots is None if settings.unified is None else settings.unified


def slot_state_bytes(facts: ModelFacts, draft_depth: int = 0) -> int:
    """Bytes of recurrent state that one slot takes; each drafted token has a state of its own to go back to."""
    elements = facts.conv_state_elements + facts.recurrent_state_elements
    return elements * STATE_ELEMENT_BYTES * (1 + draft_depth)


def llama_cpp_pool(
    facts: ModelFacts, settings: PoolSettings, total_tokens: int, *, server: str = "llama.cpp"
) -> LlamaCppPool:
    """The caches of a server with a context (`-c`) of `total_tokens`.

    Raises:
        UsageError: more slots than there are, or a cache type llama.cpp does not have.
    """
    for dtype in (settings.kv_dtype, settings.value_dtype or settings.kv_dtype):
        check_cache_dtype(server, dtype)
    slots, shared = slot_count(settings), shares_pool(settings)
    pools = 1 if shared else slots
    cells = padded(total_tokens / pools)
    limit = min(cells, facts.context_tokens or cells)
    return LlamaCppPool(
        server=server,
        cells=cells,
        pools=pools,
        slot_count=slots,
        kv_bytes=int(cells * pools * _every_token_bytes(facts, settings)),
        window_bytes=_window_bytes(facts, settings, cells, pools, slots),
        recurrent_bytes=slots * slot_state_bytes(facts, settings.draft_depth),
        length_limit=limit,
        attends=bool(facts.attention),
    )


def llama_cpp_pool_of(
    facts: ModelFacts, settings: PoolSettings, free_bytes: float, *, server: str = "llama.cpp"
) -> LlamaCppPool:
    """The caches with the context that was set, else the largest that fits in `free_bytes`.

    The largest that is of use is the longest sequence for every slot at once. Where not even the states fit, the
    context is 0 and nothing fits.
    """
    if settings.total_tokens is not None:
        return llama_cpp_pool(facts, settings, settings.total_tokens, server=server)
    slots = slot_count(settings)
    step = CELL_STEP * (1 if shares_pool(settings) else slots)
    low, high = 0, ceil(padded(settings.longest_tokens) * slots / step)
    while low < high:
        middle = (low + high + 1) // 2
        fits = llama_cpp_pool(facts, settings, middle * step, server=server).bytes <= free_bytes
        low, high = (middle, high) if fits else (low, middle - 1)
    return llama_cpp_pool(facts, settings, low * step, server=server)


def _every_token_bytes(facts: ModelFacts, settings: PoolSettings) -> float:
    """Bytes of one token in layers that keep every token, with those that draft."""
    keeping = [layers for layers in facts.attention if layers.window is None]
    own = sum(cached_token_bytes(layers, settings, auto=KV_TYPE) for layers in keeping)
    if not settings.draft_depth:
        return own
    if settings.drafter is not None:
        return own + sum(cached_token_bytes(layers, settings, auto=KV_TYPE) for layers in settings.drafter.attention)
    if not keeping:
        return own
    head = keeping[0]
    one = token_bytes(head.kv_heads, head.key_dim, head.value_dim, settings, auto=KV_TYPE)
    return own + facts.draft_layers * one


def _window_bytes(facts: ModelFacts, settings: PoolSettings, cells: int, pools: int, slots: int) -> int:
    """Bytes of the caches of window layers."""
    total = 0.0
    for layers in facts.attention:
        if layers.window is not None:
            kept = layers.window * (slots if pools == 1 else 1) + settings.micro_batch_tokens
            total += padded(min(cells, kept)) * pools * cached_token_bytes(layers, settings, auto=KV_TYPE)
    return int(total)
