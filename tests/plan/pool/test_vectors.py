"""Published start-up figures of vLLM come out exactly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.data_path import DATA, MISSING
from widelane.errors import UsageError
from widelane.plan.pool.vllm import VllmPool, vllm_pool

_FILE = DATA / "measurements" / "kv_pool_vectors.json" if DATA else None
VECTORS: list[dict[str, Any]] = json.loads(_FILE.read_text()) if _FILE and _FILE.is_file() else []


def shown(pool: VllmPool, key: str) -> float:
    """What the log shows under the name that the vectors use."""
    match key:
        case "block_size":
            return pool.block_tokens
        case "old_log_tokens":
            return pool.old_log_tokens
        case "new_log_tokens":
            return pool.new_log_tokens
        case "max_concurrency":
            return float(f"{pool.max_concurrency:.2f}")
        case "num_blocks" | "blocks":
            return pool.blocks
    raise AssertionError(f"the vectors hold a figure {key!r} that no test compares")


@pytest.mark.skipif(not VECTORS, reason=MISSING)
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["name"]))
def test_a_published_start_up_figure(vector: dict[str, Any]) -> None:
    pool = vllm_pool(**vector["inputs"])
    assert {key: shown(pool, key) for key in vector["expected"]} == vector["expected"]


HYBRID: dict[str, Any] = {
    "avail_bytes": 2**36, "n_attn": 10, "n_rec": 30, "kv_heads": 2, "head_dim": 256, "kv_bytes": 2,
    "page_rec": 2_146_304, "max_len": 131_072,
}  # fmt: skip
"""Qwen3.6-35B-A3B with a cache in 16 bits and a state in float32."""


def test_mode_all_keeps_a_state_for_each_block() -> None:
    """20,000 tokens in blocks of 1056 are 19 blocks; 1 group of attention, 3 of states with 19 and 2 drafted each."""
    pool = vllm_pool(
        **HYBRID,
        mode="all",
        spec=2,
    )
    assert pool.block_tokens == 1056
    assert pool.need(20_000) == 19 + 3 * (19 + 2)


def test_mode_all_takes_blocks_in_multiples_of_the_state_kernels_chunk() -> None:
    """A state as large as 1,048 tokens, read 256 tokens at once: five chunks."""
    pool = vllm_pool(
        **HYBRID,
        mode="all",
        chunk=256,
    )
    assert pool.block_tokens == 1280


def test_a_dense_model_has_blocks_of_sixteen_tokens_in_one_group() -> None:
    """32 layers of 4096 bytes a token: 2 MiB a block, 5120 blocks in 10 GiB, 81,920 tokens."""
    pool = vllm_pool(avail_bytes=10 * 2**30, n_attn=32, kv_heads=8, head_dim=128, kv_bytes=2, max_len=8192)
    assert (pool.block_tokens, pool.blocks) == (16, 5120)
    assert pool.old_log_tokens == pool.new_log_tokens == 81_920
    assert pool.max_concurrency == 10.0
    assert pool.need(17) == 2


def test_layer_counts_within_half_as_much_again_are_padded_to_the_larger() -> None:
    """13 attention and 12 recurrent layers make groups of 13: one of each, so that two tables of blocks do."""
    pool = vllm_pool(
        avail_bytes=2**34,
        n_attn=12,
        attn_extra=1,
        n_rec=12,
        kv_heads=8,
        head_dim=64,
        kv_bytes=2,
        page_rec=65_536,
        max_len=4096,
    )
    assert (pool.layout.group_size, pool.layout.group_count) == (13, 2)


def test_layer_counts_at_half_as_much_again_are_cut_to_the_smaller() -> None:
    """15 is not below 1.5 times 10: groups of 10, so the 15 need two."""
    pool = vllm_pool(
        avail_bytes=2**34, n_attn=10, n_rec=15, kv_heads=8, head_dim=64, kv_bytes=2, page_rec=65_536, max_len=4096
    )
    assert (pool.layout.group_size, pool.layout.group_count) == (10, 3)


def test_too_little_memory_is_no_block() -> None:
    pool = vllm_pool(avail_bytes=-5.0, n_attn=32, kv_heads=8, head_dim=128, kv_bytes=2, max_len=8192)
    assert (pool.blocks, pool.bytes, pool.tokens, pool.holds(100)) == (0, 0, 0, 0)


def test_an_unknown_mode_is_an_error() -> None:
    with pytest.raises(UsageError, match="none, align or all"):
        vllm_pool(avail_bytes=1e9, n_attn=1, kv_heads=1, head_dim=64, kv_bytes=2, max_len=4096, mode="some")
