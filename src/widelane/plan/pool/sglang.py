"""SGLang's cache: tokens one by one, window layers and recurrent states in pools of their own.

    rest     memory under `--mem-fraction-static` after the weights
    dense    tokens = rest / bytes of a token in all layers
    windows  full layers F tokens, window layers 0.8 F (`--swa-full-tokens-ratio`)
    hybrid   states get rest * r / (1 + r), r = 0.9 (`--mamba-full-memory-ratio`); a running request holds several (the
             prefix cache's among them); drafting keeps an intermediate state for each drafted token

Source: 0.5.23, `mem_cache/kv_cache_configurator.py` and `server_args.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from widelane.facts.model import ModelFacts
from widelane.plan.pool.dtypes import check_cache_dtype
from widelane.plan.pool.pool import Pool
from widelane.plan.pool.settings import PoolSettings
from widelane.plan.pool.state_sizes import cached_token_bytes, state_layer_bytes, token_bytes

WINDOW_TOKENS_OF_TEN = 8
"""`--swa-full-tokens-ratio` 0.8: tokens of window layers for ten of the others."""
STATE_TO_KV = 0.9
"""`--mamba-full-memory-ratio`: memory of the states for each byte of the KV cache."""
STATES_PER_REQUEST = 5
"""States held for each running request with the prefix cache: 3 in the tree, 2 as the next step is prepared early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangPool(Pool):
    """A pool of tokens, on each of `devices` cards.

    Attributes:
        kv_tokens: tokens of layers that keep every token (`max_total_num_tokens`).
        window_tokens: tokens of window layers, None where there are none.
        window: the window in tokens.
        running_limit: requests that the recurrent states allow at the same time, None where there are none.
        length_limit: `--context-length`.
        kv_bytes, states_bytes: memory of one card.
    """

    kv_tokens: int
    length_limit: int
    kv_bytes: int
    window_tokens: int | None = None
    window: int = 0
    running_limit: int | None = None
    states_bytes: int = 0
    devices: int = 1

    @property
    def engine(self) -> str:
        return "sglang"

    @property
    def unit(self) -> str:
        return "tokens"

    @property
    def capacity(self) -> int:
        return self.kv_tokens

    def need(self, tokens: int) -> int:
        """Tokens of the pool, or the same share of it that the sequence takes of the window layers' pool."""
        kept = max(1, tokens)
        if self.window_tokens is None:
            return kept
        # By the pools' ratio, not by their sizes: those are rounded, and a larger pool would seem to hold less.
        return max(kept, ceil(10 * min(kept, self.window) / WINDOW_TOKENS_OF_TEN))

    @property
    def longest_tokens(self) -> int:
        return self.length_limit

    @property
    def max_sequences(self) -> int | None:
        return self.running_limit

    @property
    def bytes(self) -> int:
        return (self.kv_bytes + self.states_bytes) * self.devices

    @property
    def state_bytes(self) -> int:
        return self.states_bytes * self.devices

    @property
    def tokens(self) -> int:
        return self.kv_tokens

    @property
    def log_line_tokens(self) -> int:
        return self.kv_tokens

    @property
    def meaning(self) -> str:
        text = "tokens of all running requests and of the prefixes kept for later ones"
        if self.running_limit is not None:
            text += f"; the recurrent states allow {self.running_limit} requests at the same time"
        return text


def sglang_pool_of(facts: ModelFacts, settings: PoolSettings, free_bytes: float) -> SglangPool:
    """The pool that SGLang makes of `free_bytes` (all cards together, after weights, under its static share).

    Raises:
        UsageError: SGLang has no cache of the type that is set.
    """
    rest = max(0.0, free_bytes / settings.devices)
    limit, states = _states(facts, settings, rest) if facts.is_hybrid else (None, 0.0)
    tokens = _token_cost(facts, settings).tokens_in(max(0.0, rest - states))
    if tokens is None:
        tokens = settings.longest_tokens * (limit or 0)
    return _pool(facts, settings, tokens, limit, states)


def sglang_pool_logged(facts: ModelFacts, settings: PoolSettings, tokens: int) -> SglangPool:
    """The pool whose log says `max_total_num_tokens=tokens`; requests are limited as the settings' slots say."""
    running = settings.slots if facts.is_hybrid else None
    states = _states_bytes(facts, settings, running * _held(settings), running) if running else 0.0
    return _pool(facts, settings, tokens, running, states)


class _TokenCost(NamedTuple):
    """Bytes of a token on one card: in layers that keep every token (drafting ones included), in window layers."""

    full: float
    windowed: float

    @property
    def split(self) -> bool:
        """Whether window layers have a pool of their own."""
        return self.full > 0 and self.windowed > 0

    def tokens_in(self, size: float) -> int | None:
        """Tokens that so many bytes hold; None where no layer keeps any."""
        if self.split:
            return int(10 * size // (10 * self.full + WINDOW_TOKENS_OF_TEN * self.windowed))
        return int(size // (self.full + self.windowed)) if self.full + self.windowed else None

    def window_tokens(self, tokens: int) -> int | None:
        return tokens * WINDOW_TOKENS_OF_TEN // 10 if self.split else None

    def bytes(self, tokens: int) -> int:
        windowed = self.window_tokens(tokens)
        return int(tokens * self.full + (tokens if windowed is None else windowed) * self.windowed)


def _pool(facts: ModelFacts, settings: PoolSettings, tokens: int, limit: int | None, states: float) -> SglangPool:
    cost = _token_cost(facts, settings)
    return SglangPool(
        kv_tokens=tokens,
        window_tokens=cost.window_tokens(tokens),
        window=facts.window,
        running_limit=limit,
        length_limit=settings.longest_tokens,
        kv_bytes=cost.bytes(tokens),
        states_bytes=int(states),
        devices=settings.devices,
    )


def _token_cost(facts: ModelFacts, settings: PoolSettings) -> _TokenCost:
    check_cache_dtype("sglang", settings.kv_dtype)
    auto, devices = settings.model_dtype, settings.devices
    keeping = [layers for layers in facts.attention if layers.window is None]
    windows = [layers for layers in facts.attention if layers.window is not None]
    full = sum(cached_token_bytes(layers, settings, auto=auto, devices=devices) for layers in keeping)
    if settings.draft_depth and settings.drafter is not None:
        drafting = settings.drafter.attention
        full += sum(cached_token_bytes(layers, settings, auto=auto, devices=devices) for layers in drafting)
    elif settings.draft_depth and keeping:
        head = keeping[0]
        one = token_bytes(head.kv_heads, head.key_dim, head.value_dim, settings, auto=auto, devices=devices)
        full += facts.draft_layers * one
    return _TokenCost(full, sum(cached_token_bytes(layers, settings, auto=auto, devices=devices) for layers in windows))


def _held(settings: PoolSettings) -> int:
    """States that the pool keeps for each running request."""
    return 1 if settings.prefix_cache is False else STATES_PER_REQUEST


def _drafted(settings: PoolSettings) -> int:
    """Tokens that one verification checks, each with an intermediate state: the drafted ones and the last accepted."""
    return settings.draft_depth + 1 if settings.draft_depth else 0


def _request_bytes(facts: ModelFacts, settings: PoolSettings) -> float:
    """Bytes of the recurrent state of one sequence on one card."""
    total = sum(layers.count * state_layer_bytes(layers, settings) for layers in facts.recurrent)
    return total / settings.devices


def _states_bytes(facts: ModelFacts, settings: PoolSettings, states: int, running: int) -> float:
    """Bytes of the state pool: one slot more than is used, and intermediate states of each running request."""
    one = _request_bytes(facts, settings)
    return (states + 1) * one + (running + 1) * _drafted(settings) * one


def _states(facts: ModelFacts, settings: PoolSettings, rest: float) -> tuple[int, float]:
    """Requests that the states allow, and their memory."""
    one, held, drafted = _request_bytes(facts, settings), _held(settings), _drafted(settings)
    if one <= 0:
        return settings.slots or 1, 0.0
    if held == 1 and settings.slots is not None:
        states = settings.slots
    else:
        share = rest * STATE_TO_KV / (1 + STATE_TO_KV)
        states = max(0, int((share - one * (1 + drafted)) // (one * (1 + drafted / held))))
    running = states // held
    if settings.slots is not None:
        running = min(running, settings.slots)
    return running, _states_bytes(facts, settings, states, running)
