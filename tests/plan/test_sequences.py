"""How many requests fit, and what the plan's document says of the pool."""

from __future__ import annotations

from tests.plan.pool.models import LLAMA_8B, QWEN36_27B
from widelane.figures import Origin
from widelane.plan.pool.make import pool_from_log_line, pool_of
from widelane.plan.pool.settings import PoolSettings
from widelane.plan.pool.summary import pool_summary
from widelane.plan.sequences import sequences_that_fit

GIB = 2**30


def settings(engine: str, **changes: object) -> PoolSettings:
    return PoolSettings(**{"engine": engine, "longest_tokens": 131_072, **changes})  # type: ignore[arg-type]


class TestFit:
    def test_typical_and_worst_case(self) -> None:
        """The worked table's second row: 1482 blocks; 16,384 tokens take 40 + 12, 65,536 take 158 + 12."""
        made = settings("vllm", kv_dtype="bf16", state_dtype="float16", draft_depth=2, prefix_cache=True)
        fit = sequences_that_fit(pool_of(QWEN36_27B, made, 40 * GIB), typical_tokens=16_384, max_tokens=65_536)
        assert (fit.typical.value, fit.worst_case.value) == (28, 8)
        assert (fit.typical_need.value, fit.worst_need.value) == (52, 170)
        assert fit.typical.reason == "1,482 blocks, 52 a request"
        assert fit.typical_need.unit == "blocks"

    def test_slots_limit_short_requests(self) -> None:
        fit = sequences_that_fit(
            pool_of(LLAMA_8B, settings("llama.cpp", slots=4, unified=True, total_tokens=65_536), 64 * GIB),
            typical_tokens=4096,
            max_tokens=65_536,
        )
        assert (fit.typical.value, fit.worst_case.value) == (4, 1)
        assert fit.typical.reason == "limited by the slots: 4; the pool alone would hold 16"

    def test_states_limit_short_requests(self) -> None:
        fit = sequences_that_fit(pool_of(QWEN36_27B, settings("sglang"), 100e9), typical_tokens=1000, max_tokens=32_768)
        assert fit.typical.value == 61
        assert "recurrent states: 61" in (fit.typical.reason or "")

    def test_longer_than_the_server_takes_is_none(self) -> None:
        fit = sequences_that_fit(
            pool_of(LLAMA_8B, settings("vllm", longest_tokens=8192), 64 * GIB), typical_tokens=4096, max_tokens=16_384
        )
        assert fit.worst_case.value == 0
        assert fit.worst_case.reason == "the server takes at most 8,192 tokens a request"


class TestSummary:
    def test_a_pool_of_blocks(self) -> None:
        made = settings(
            "vllm", version="0.20.0", kv_dtype="bf16", state_dtype="float32", draft_depth=2, prefix_cache=True
        )
        plan = pool_summary(pool_of(QWEN36_27B, made, 40 * GIB))
        assert (plan.block_tokens.value, plan.blocks.value, plan.log_line_tokens.value) == (800, 771, 153_600)
        assert plan.tokens.value == 574_184
        assert plan.bytes.value == 771 * 3_276_800 * 17
        assert plan.tokens.origin is Origin.PREDICTED
        assert "131,072 tokens" in plan.meaning

    def test_a_pool_without_blocks_says_so(self) -> None:
        plan = pool_summary(pool_of(LLAMA_8B, settings("llama.cpp", slots=4), 8 * GIB))
        assert (plan.block_tokens.value, plan.blocks.value) == (None, None)
        assert plan.blocks.reason == "llama.cpp keeps tokens one by one, not in blocks"

    def test_a_pool_that_was_read_keeps_its_origin(self) -> None:
        pool = pool_from_log_line(LLAMA_8B, settings("vllm", version="0.21.0"), 100_000)
        assert pool_summary(pool, origin=Origin.INFERRED).tokens.origin is Origin.INFERRED


def test_tokens_held_depend_on_the_length_of_the_requests() -> None:
    """Recurrent blocks are paid before the first token: 42 requests of 4096 hold less than 8 of 65,536."""
    made = settings("vllm", kv_dtype="bf16", state_dtype="float32", draft_depth=2, prefix_cache=True)
    pool = pool_of(QWEN36_27B, made, 40 * GIB)
    assert (pool.tokens_at(4096), pool.tokens_at(65_536)) == (42 * 4096, 8 * 65_536)
