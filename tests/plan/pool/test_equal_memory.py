"""The field report's 2.9 times, taken apart: the types give 2.0 at most, the rest is memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.pool.models import LLAMA_8B, QWEN36_27B
from widelane.plan.pool.equal_memory import ClaimedGain, claimed_gain, gain_at
from widelane.plan.pool.make import pool_from_log_line, pool_of
from widelane.plan.pool.pool import Pool
from widelane.plan.pool.settings import PoolSettings

GIB = 2**30


def settings(kv: str, state: str, *, version: str = "0.21.0", longest: int = 131_072) -> PoolSettings:
    return PoolSettings(
        engine="vllm",
        version=version,
        longest_tokens=longest,
        kv_dtype=kv,
        state_dtype=state,
        draft_depth=2,
        prefix_cache=True,
    )


def reported(version: str) -> ClaimedGain:
    """182k with a 16-bit cache, 522k with fp8; the flag of the report leaves the state in float32."""
    before = pool_from_log_line(QWEN36_27B, settings("bf16", "float32", version=version), 182_000)
    after = pool_from_log_line(QWEN36_27B, settings("fp8", "float32", version=version), 522_000)
    return claimed_gain(before, after)


@pytest.mark.parametrize(
    ("version", "before_gib", "after_gib", "by_types", "by_memory"),
    [("0.20.0", 47.3, 67.9, 2.0, 1.43), ("0.21.0", 12.7, 19.5, 1.87, 1.53)],
)
def test_the_report_needs_half_as_much_memory_again(
    version: str, before_gib: float, after_gib: float, by_types: float, by_memory: float
) -> None:
    gain = reported(version)
    assert gain.claimed == pytest.approx(2.87, abs=0.01)
    assert round(gain.before_bytes / GIB, 1) == before_gib
    assert round(gain.after_bytes / GIB, 1) == after_gib
    assert gain.by_types == pytest.approx(by_types, abs=0.01)
    assert gain.by_memory == pytest.approx(by_memory, abs=0.006)


def test_the_sentence_says_both_parts() -> None:
    assert reported("0.20.0").sentence == (
        "2.9 times the tokens: the cache types give 2.00 times at equal memory;"
        " the rest needs 1.43 times the free memory (47.3 to 67.9 GiB)."
    )


def test_a_gain_by_types_alone_needs_no_more() -> None:
    same = ClaimedGain(claimed=1.9, by_types=1.9, before_bytes=10, after_bytes=10)
    assert same.sentence == "1.9 times the tokens: the cache types give 1.90 times at equal memory."


def pool(kv: str, state: str, longest: int = 262_144) -> Pool:
    return pool_of(QWEN36_27B, settings(kv, state, longest=longest), 40 * GIB)


@pytest.mark.parametrize(("tokens", "gain"), [(16_384, 1.43), (262_144, 1.93)])
def test_an_fp8_cache_alone_gains_more_the_longer_the_context(tokens: int, gain: float) -> None:
    assert gain_at(pool("bf16", "float32"), pool("fp8", "float32"), tokens) == pytest.approx(gain, abs=0.005)


@given(tokens=st.integers(1, 262_144))
def test_halving_every_byte_gives_at_most_twice(tokens: int) -> None:
    """Twice, but for the last block of a sequence and the last of the pool."""
    gain = gain_at(pool("bf16", "float32"), pool("fp8", "float16"), tokens)
    assert gain is not None
    assert gain <= 2.1


def test_nothing_gains_no_factor() -> None:
    empty = pool_of(QWEN36_27B, settings("bf16", "float32"), 0)
    assert gain_at(empty, pool("fp8", "float16"), 4096) is None


def test_a_dense_model_gains_exactly_two() -> None:
    def dense(kv: str) -> Pool:
        return pool_of(LLAMA_8B, PoolSettings(engine="vllm", longest_tokens=8192, kv_dtype=kv), 40 * GIB)

    assert gain_at(dense("bf16"), dense("fp8"), 4096) == 2.0
