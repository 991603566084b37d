"""SGLang's pools of tokens, window tokens and states."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.plan.pool.models import DEEPSEEK_V3, GPT_OSS_20B, LLAMA_8B, QWEN36_27B, TINY_NEXT
from widelane.errors import UsageError
from widelane.plan.pool.make import pool_from_log_line, pool_of
from widelane.plan.pool.settings import PoolSettings
from widelane.plan.pool.sglang import SglangPool, sglang_pool_of

GIB = 2**30


def settings(**changes: object) -> PoolSettings:
    return PoolSettings(**{"engine": "sglang", "longest_tokens": 32_768, **changes})  # type: ignore[arg-type]


class TestDense:
    def test_tokens_are_memory_over_bytes_of_a_token(self) -> None:
        """131,072 bytes a token: 16 GiB hold 131,072."""
        pool = sglang_pool_of(LLAMA_8B, settings(), 16 * GIB)
        assert (pool.tokens, pool.log_line_tokens, pool.bytes) == (131_072, 131_072, 16 * GIB)
        assert pool.holds(32_768) == 4
        assert pool.holds(32_769) == 0

    def test_fp8_holds_twice_as_many(self) -> None:
        assert sglang_pool_of(LLAMA_8B, settings(kv_dtype="fp8_e5m2"), 16 * GIB).tokens == 262_144

    def test_a_latent_row_lies_on_every_card(self) -> None:
        """61 layers of 576 elements in 16 bits are 70,272 bytes; eight cards hold 8 GiB each."""
        pool = sglang_pool_of(DEEPSEEK_V3, settings(devices=8), 64 * GIB)
        assert pool.tokens == 8 * GIB // 70_272

    def test_a_type_it_does_not_have_is_an_error(self) -> None:
        with pytest.raises(UsageError, match="sglang has no KV cache of type q8_0"):
            sglang_pool_of(LLAMA_8B, settings(kv_dtype="q8_0"), 16 * GIB)


class TestWindows:
    def test_window_layers_have_eight_tokens_for_ten(self) -> None:
        """12 layers of 2048 bytes each way: 24,576 + 0.8 * 24,576 = 44,236.8 bytes; 442,368,000 are 10,000 tokens."""
        pool = sglang_pool_of(GPT_OSS_20B, settings(), 442_368_000)
        assert (pool.kv_tokens, pool.window_tokens) == (10_000, 8000)

    def test_many_short_requests_are_limited_by_the_window_layers(self) -> None:
        """100 tokens of 8000 are the share of 125 of 10,000; 1000 tokens keep 128 of the window."""
        pool = sglang_pool_of(GPT_OSS_20B, settings(), 442_368_000)
        assert (pool.need(100), pool.need(1000)) == (125, 1000)


class TestHybrid:
    """The 27B: 65,536 bytes a token; 150,994,944 bytes of state and 2,949,120 of convolution a request."""

    def test_states_get_nine_parts_of_nineteen(self) -> None:
        """47.368 of 100 GB hold 306 states of 153,944,064 bytes, one spare; five for each request make 61 requests."""
        pool = sglang_pool_of(QWEN36_27B, settings(), 100e9)
        assert pool.state_bytes == 307 * 153_944_064
        assert pool.max_sequences == 61
        assert pool.kv_tokens == (100_000_000_000 - 307 * 153_944_064) // 65_536
        assert "61 requests" in pool.meaning

    def test_short_requests_are_limited_by_states_long_ones_by_tokens(self) -> None:
        pool = sglang_pool_of(QWEN36_27B, settings(), 100e9)
        assert (pool.holds(1000), pool.holds(32_768)) == (61, 24)

    def test_a_smaller_state_holds_more(self) -> None:
        """78,446,592 bytes a request in 16 bits: 602 states, 120 requests."""
        assert sglang_pool_of(QWEN36_27B, settings(state_dtype="bfloat16"), 100e9).max_sequences == 120

    def test_without_prefix_cache_a_request_holds_one_state(self) -> None:
        pool = sglang_pool_of(QWEN36_27B, settings(prefix_cache=False, slots=32), 100e9)
        assert (pool.max_sequences, pool.state_bytes) == (32, 33 * 153_944_064)

    def test_drafting_keeps_a_state_for_each_checked_token(self) -> None:
        """Depth 2 checks 3 tokens: 8 requests and one spare keep 27 states more, and the head a layer of cells."""
        plain = sglang_pool_of(QWEN36_27B, settings(prefix_cache=False, slots=8), 100e9)
        drafting = sglang_pool_of(QWEN36_27B, settings(prefix_cache=False, slots=8, draft_depth=2), 100e9)
        assert drafting.state_bytes - plain.state_bytes == 27 * 153_944_064
        assert drafting.kv_bytes // drafting.kv_tokens == 65_536 + 4096

    def test_a_state_that_nothing_names_is_float32(self) -> None:
        """vLLM would take the model's own 16 bits: the tiny model's 9 states of 131,072 elements and convolutions."""
        pool = sglang_pool_of(TINY_NEXT, settings(prefix_cache=False, slots=1), GIB)
        assert pool.state_bytes == 2 * 9 * (131_072 * 4 + 2048 * 3 * 2)

    def test_too_little_memory_holds_nothing(self) -> None:
        pool = sglang_pool_of(QWEN36_27B, settings(), 0)
        assert (pool.tokens, pool.holds(100)) == (0, 0)

    def test_the_figure_of_a_start_log(self) -> None:
        pool = pool_from_log_line(QWEN36_27B, settings(slots=16), 200_000)
        assert isinstance(pool, SglangPool)
        assert (pool.tokens, pool.holds(1000), pool.holds(20_000)) == (200_000, 16, 10)


@given(free=st.integers(0, 2**38), more=st.integers(0, 2**34), tokens=st.integers(1, 32_768))
@example(free=10_685_620_224, more=44_237, tokens=4)
def test_more_memory_holds_no_fewer(free: int, more: int, tokens: int) -> None:
    for facts in (LLAMA_8B, GPT_OSS_20B, QWEN36_27B):
        pool = pool_of(facts, settings(), free)
        assert pool_of(facts, settings(), free + more).holds(tokens) >= pool.holds(tokens)
        assert pool.holds(tokens) * pool.need(tokens) <= pool.capacity


def test_an_engine_without_a_known_pool_is_named() -> None:
    with pytest.raises(UsageError, match="mlx-lm is not known here: choose one of vllm"):
        pool_of(LLAMA_8B, settings(engine="mlx-lm"), GIB)
    with pytest.raises(UsageError, match="mlx-lm"):
        pool_from_log_line(LLAMA_8B, settings(engine="mlx-lm"), 1000)
