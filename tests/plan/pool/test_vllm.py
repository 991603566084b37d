"""vLLM's pool from a model: the worked table, recorded pools, layer kinds, versions, and the figure of a start log."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.pool.models import (
    DEEPSEEK_V3,
    GEMMA3_27B,
    GEMMA4_31B,
    GPT_OSS_20B,
    LLAMA_8B,
    MAMBA,
    NEMOTRON_3_NANO,
    QWEN36_27B,
    QWEN36_35B,
    SMOLLM2,
    TINY_35,
    TINY_NEXT,
    attention,
    model,
)
from widelane.errors import UsageError
from widelane.facts.model import ModelFacts
from widelane.plan.pool.make import pool_from_log_line, pool_of
from widelane.plan.pool.settings import PoolSettings
from widelane.plan.pool.vllm import VllmPool, prints_concurrency
from widelane.plan.pool.vllm_layout import StateMode
from widelane.plan.pool.vllm_model import state_mode, vllm_layout_of, vllm_pool_of

GIB = 2**30


def worked(kv: str, state: str, **changes: object) -> VllmPool:
    """The worked example's machine: 40 GiB free, depth 2, prefix cache, 131,072 tokens."""
    settings = PoolSettings(
        engine="vllm",
        longest_tokens=131_072,
        kv_dtype=kv,
        state_dtype=state,
        draft_depth=2,
        prefix_cache=True,
        **changes,
    )
    return vllm_pool_of(QWEN36_27B, settings, 40 * GIB)


@pytest.mark.parametrize(
    ("kv", "state", "block", "blocks", "old", "new", "concurrency", "fits"),
    [
        ("bf16", "float32", 800, 771, 153_600, 574_184, "4.38", (42, 23, 8)),
        ("bf16", "float16", 416, 1482, 153_920, 592_221, "4.52", (67, 28, 8)),
        ("fp8", "float32", 1600, 771, 307_200, 1_075_069, "8.20", (51, 33, 14)),
        ("fp8", "float16", 832, 1482, 307_840, 1_142_639, "8.72", (87, 46, 16)),
    ],
)
def test_the_worked_table(
    kv: str, state: str, block: int, blocks: int, old: int, new: int, concurrency: str, fits: tuple[int, ...]
) -> None:
    pool = worked(kv, state)
    assert (pool.block_tokens, pool.blocks) == (block, blocks)
    assert (pool.old_log_tokens, pool.new_log_tokens) == (old, new)
    assert f"{pool.max_concurrency:.2f}" == concurrency
    assert tuple(pool.holds(tokens) for tokens in (4096, 16_384, 65_536)) == fits


def test_auto_is_the_models_type_for_the_cache_and_the_checkpoints_for_the_state() -> None:
    assert worked("auto", "auto") == worked("bf16", "float32")


def test_the_flag_for_the_convolution_does_not_touch_a_state_that_the_checkpoint_names() -> None:
    """`--mamba-cache-dtype float16` alone leaves the block at 800 tokens."""
    assert worked("bf16", "auto", conv_dtype="float16").block_tokens == 800


class TestRecordedPools:
    """Pools that vLLM 0.32 made of 1 GiB on a CPU, as its log and labels told them."""

    @staticmethod
    def made(name: str, args: str, longest: int) -> VllmPool:
        def flag(text: str) -> str | None:
            found = re.search(rf"--{text} (\S+)", args)
            return found[1] if found else None

        facts = SMOLLM2 if name.startswith("dense") else TINY_35 if name.startswith("q35") else TINY_NEXT
        settings = PoolSettings(
            engine="vllm",
            version="0.32.0",
            longest_tokens=longest,
            kv_dtype=flag("kv-cache-dtype") or "auto",
            state_dtype=flag("mamba-ssm-cache-dtype"),
            conv_dtype=flag("mamba-cache-dtype"),
            model_dtype=flag("dtype") or "bf16",
            on_cpu=True,
        )
        return vllm_pool_of(facts, settings, GIB)

    def test_every_recorded_pool_comes_out_exactly(self, data_dir: Path) -> None:
        path = data_dir / "fixtures" / "vllm" / "hybrid_pool" / "pools.json"
        if not path.is_file():
            pytest.skip(f"no recorded pools at {path}")
        recorded = json.loads(path.read_text())["pools"]
        assert recorded
        for item in recorded:
            pool = self.made(item["name"], item["args"], item["max_model_len"])
            assert pool.log_line_tokens == item["log_kv_cache_tokens"], item["name"]
            assert float(f"{pool.max_concurrency:.2f}") == item["log_max_concurrency"], item["name"]
            if "attention_block_size" in item:
                assert pool.block_tokens == item["attention_block_size"], item["name"]
            if "labels" in item:
                assert pool.blocks == int(item["labels"]["num_gpu_blocks"]), item["name"]


class TestKindsOfLayers:
    def layout(self, facts: ModelFacts, **changes: object) -> tuple[int, int, list[int], list[int]]:
        layout = vllm_layout_of(facts, PoolSettings(engine="vllm", longest_tokens=32_768, **changes))
        return (
            layout.block_tokens,
            layout.group_size,
            [groups.count for groups in layout.groups],
            [groups.block_tokens for groups in layout.groups],
        )

    def test_windows_are_cut_to_the_count_of_full_layers(self) -> None:
        """Gemma 3 27B: 10 full layers in one group, 52 window layers in six."""
        assert self.layout(GEMMA3_27B) == (16, 10, [1, 6], [16, 16])

    def test_as_many_windows_as_full_layers_are_two_groups(self) -> None:
        assert self.layout(GPT_OSS_20B) == (16, 12, [1, 1], [16, 16])

    def test_a_smaller_page_holds_more_tokens(self) -> None:
        """Gemma 4 31B: 4096 elements a token in full layers, 8192 in window layers: blocks of 32 and 16 tokens."""
        assert self.layout(GEMMA4_31B) == (16, 10, [1, 5], [32, 16])

    def test_a_page_that_does_not_divide_is_padded(self) -> None:
        odd = model("odd", (attention(6, 3, 64), attention(6, 4, 64, window=128)))
        assert self.layout(odd) == (16, 6, [1, 1], [16, 16])
        layout = vllm_layout_of(odd, PoolSettings(engine="vllm", longest_tokens=4096))
        assert layout.page_bytes == 16 * 2 * 4 * 64 * 2

    def test_full_layers_of_different_size_share_one_table(self) -> None:
        """4 layers of 512 bytes a token and 2 of 256, 16 tokens: 40,960 bytes a block."""
        mixed = model("mixed", (attention(4, 2, 64), attention(2, 1, 64)))
        layout = vllm_layout_of(mixed, PoolSettings(engine="vllm", longest_tokens=4096))
        assert (layout.block_bytes, layout.group_count) == (40_960, 1)

    def test_layers_that_read_anothers_cache_take_none(self) -> None:
        sharing = model("gemma-e", (attention(20, 2, 64, sharing=8),))
        assert vllm_layout_of(sharing, PoolSettings(engine="vllm", longest_tokens=4096)).group_size == 12

    def test_latent_rows_are_cached_once(self) -> None:
        """61 layers of 576 elements in 16 bits: 70,272 bytes a token; the draft head's layer is the 62nd."""
        plain = vllm_layout_of(DEEPSEEK_V3, PoolSettings(engine="vllm", longest_tokens=4096))
        assert plain.block_bytes == 16 * 70_272
        drafting = vllm_layout_of(DEEPSEEK_V3, PoolSettings(engine="vllm", longest_tokens=4096, draft_depth=1))
        assert drafting.group_size == 62

    def test_a_purely_recurrent_model_takes_one_block_a_sequence(self) -> None:
        pool = vllm_pool_of(MAMBA, PoolSettings(engine="vllm", longest_tokens=8192, prefix_cache=False), GIB)
        # (3 * 5120 + 81,920) elements * 2 bytes * 64 layers = 12,451,840 bytes: 86 of them in 1 GiB.
        assert pool.blocks == 86
        assert pool.holds(100) == pool.holds(8192) == 86

    def test_with_a_prefix_cache_it_takes_one_for_each_2048_tokens(self) -> None:
        pool = vllm_pool_of(MAMBA, PoolSettings(engine="vllm", longest_tokens=8192, prefix_cache=True), GIB)
        assert (pool.block_tokens, pool.need(2048), pool.need(8192)) == (2048, 1, 4)

    def test_nemotron_reads_128_tokens_at_once(self) -> None:
        """2,134,016 bytes of state are 2084 tokens of 1024 bytes: seventeen times 128."""
        settings = PoolSettings(engine="vllm", longest_tokens=8192, prefix_cache=True)
        assert vllm_layout_of(NEMOTRON_3_NANO, settings).block_tokens == 17 * 128

    def test_a_separate_drafter_is_a_kind_of_its_own(self) -> None:
        """The 8-layer drafter of the published vector: 2,392,064 bytes a page, groups of 8: 2 + 4 + 1 tables."""
        drafter = model("dflash", (attention(8, 4, 128),))
        settings = PoolSettings(
            engine="vllm",
            longest_tokens=262_144,
            draft_depth=15,
            drafter=drafter,
            prefix_cache=True,
            version="0.20.1.dev0",
        )
        pool = vllm_pool_of(QWEN36_35B, settings, 66_904_853_053.44)
        assert (pool.block_tokens, pool.log_line_tokens) == (1168, 582_832)
        assert f"{pool.max_concurrency:.2f}" == "4.71"

    def test_a_drafter_shaped_like_the_model_joins_its_layers(self) -> None:
        drafter = model("twin", (attention(2, 8, 128),))
        settings = PoolSettings(engine="vllm", longest_tokens=4096, draft_depth=3, drafter=drafter)
        assert vllm_layout_of(LLAMA_8B, settings).group_size == 34


class TestWindows:
    POOL = vllm_pool_of(GEMMA3_27B, PoolSettings(engine="vllm", longest_tokens=131_072, batched_tokens=2048), 64 * GIB)

    def test_a_long_request_keeps_its_window_only(self) -> None:
        """32,768 tokens: 2048 blocks of full layers; 1023 tokens of window, 64 blocks and one more, six times."""
        assert self.POOL.need(32_768) == 2048 + 6 * 65

    def test_a_request_shorter_than_the_window_keeps_all(self) -> None:
        assert self.POOL.need(160) == 10 + 6 * 10

    def test_the_engine_counts_a_whole_step_of_prompt_in(self) -> None:
        """1023 + 2048 tokens are 192 blocks, and one more; 8192 blocks of full layers: 9350 in all."""
        assert self.POOL.max_concurrency == pytest.approx(self.POOL.blocks / 9350)


class TestCards:
    def test_heads_are_dealt_out(self) -> None:
        """Two cards hold half the heads each, so that the same memory in all holds as many tokens."""
        one = vllm_pool_of(LLAMA_8B, PoolSettings(engine="vllm", longest_tokens=8192), 20 * GIB)
        two = vllm_pool_of(LLAMA_8B, PoolSettings(engine="vllm", longest_tokens=8192, devices=2), 20 * GIB)
        assert (two.blocks, two.bytes) == (one.blocks, one.bytes)

    def test_a_latent_row_lies_on_every_card(self) -> None:
        one = vllm_pool_of(DEEPSEEK_V3, PoolSettings(engine="vllm", longest_tokens=8192), 64 * GIB)
        eight = vllm_pool_of(DEEPSEEK_V3, PoolSettings(engine="vllm", longest_tokens=8192, devices=8), 64 * GIB)
        assert eight.blocks == one.blocks // 8

    def test_the_block_of_a_hybrid_is_the_same_on_two_cards(self) -> None:
        settings = PoolSettings(engine="vllm", longest_tokens=8192, devices=2, prefix_cache=True)
        assert vllm_layout_of(QWEN36_27B, settings).block_tokens == 784


class TestVersions:
    @pytest.mark.parametrize(
        "version", ["0.17.1", "0.19.2rc1", "0.20.0", "v0.20.0", "0.20.1.dev0", "0.20.1.dev12+gabc"]
    )
    def test_the_old_line_up_to_0_20_0(self, version: str) -> None:
        assert not prints_concurrency(version)

    @pytest.mark.parametrize("version", ["0.20.1", "0.20.2", "0.21.0", "0.33.0", "1.0.0", None, "main"])
    def test_the_new_line_from_0_20_1(self, version: str | None) -> None:
        assert prints_concurrency(version)

    def test_the_line_changes_and_the_pool_does_not(self) -> None:
        old, new = worked("bf16", "float32", version="0.20.0"), worked("bf16", "float32", version="0.21.0")
        assert (old.log_line_tokens, new.log_line_tokens) == (153_600, 574_184)
        assert (old.tokens, old.blocks, old.holds(4096)) == (new.tokens, new.blocks, new.holds(4096))

    def mode(self, facts: ModelFacts, version: str | None, prefix_cache: bool | None = None) -> StateMode:
        return state_mode(
            facts, PoolSettings(engine="vllm", longest_tokens=4096, version=version, prefix_cache=prefix_cache)
        )

    def test_hybrids_cache_prefixes_unasked_only_in_newer_versions(self) -> None:
        assert self.mode(QWEN36_27B, "0.19.2") is StateMode.NONE
        assert self.mode(QWEN36_27B, "0.32.0") is self.mode(QWEN36_27B, None) is StateMode.ALIGN

    def test_a_set_flag_wins(self) -> None:
        assert self.mode(QWEN36_27B, "0.19.2", prefix_cache=True) is StateMode.ALIGN
        assert self.mode(QWEN36_27B, None, prefix_cache=False) is StateMode.NONE

    def test_mamba_keeps_a_state_for_each_block(self) -> None:
        assert self.mode(NEMOTRON_3_NANO, None) is StateMode.ALL

    def test_a_model_without_states_has_no_mode(self) -> None:
        assert self.mode(LLAMA_8B, None) is StateMode.NONE


class TestStartLog:
    def from_log(self, tokens: int, version: str, longest: int, kv: str = "bf16") -> VllmPool:
        settings = PoolSettings(
            engine="vllm",
            version=version,
            longest_tokens=longest,
            kv_dtype=kv,
            state_dtype="float32",
            draft_depth=2,
            prefix_cache=True,
        )
        pool = pool_from_log_line(QWEN36_27B, settings, tokens)
        assert isinstance(pool, VllmPool)
        return pool

    def test_the_old_line_gives_whole_rounds_of_groups(self) -> None:
        """153,600 tokens are 192 rounds of four groups; the pool of 771 blocks had three more."""
        assert self.from_log(153_600, "0.20.0", 131_072).blocks == 768

    def test_the_new_line_gives_the_blocks_exactly(self) -> None:
        assert self.from_log(574_184, "0.21.0", 131_072).blocks == 771

    def test_the_field_reports_pool_holds_seven_to_nine_requests_not_three(self) -> None:
        """182k tokens at a limit of 131,072: three requests of the 60k cap, 9 to 7 of the usual 12k to 18k."""
        pool = self.from_log(182_000, "0.21.0", 131_072)
        assert pool.blocks == 245
        assert [pool.holds(tokens) for tokens in (12_000, 15_000, 18_000)] == [9, 7, 7]
        assert 182_000 // 60_000 == 3

    def test_no_figure_is_an_error(self) -> None:
        with pytest.raises(UsageError, match="holds nothing"):
            pool_from_log_line(QWEN36_27B, PoolSettings(engine="vllm", longest_tokens=4096), 0)

    @given(blocks=st.integers(1, 5000), version=st.sampled_from(["0.20.0", "0.32.0"]))
    def test_a_printed_figure_gives_a_pool_that_prints_it_again(self, blocks: int, version: str) -> None:
        settings = PoolSettings(engine="vllm", version=version, longest_tokens=65_536, prefix_cache=True)
        layout = vllm_layout_of(QWEN36_27B, settings)
        printed = VllmPool(layout=layout, pool_blocks=blocks, length_limit=65_536, version=version).log_line_tokens
        if printed:
            pool = pool_from_log_line(QWEN36_27B, settings, printed)
            assert pool.log_line_tokens == printed
            assert 0 <= blocks - pool.capacity < layout.group_count


@pytest.mark.parametrize(
    "facts", [LLAMA_8B, GEMMA3_27B, GEMMA4_31B, QWEN36_27B, NEMOTRON_3_NANO, MAMBA], ids=lambda f: f.name
)
@given(
    free=st.integers(0, 2**38),
    more=st.integers(0, 2**34),
    tokens=st.integers(1, 131_072),
    longer=st.integers(0, 10_000),
    depth=st.integers(0, 4),
)
def test_more_memory_holds_no_fewer_and_longer_requests_no_more(
    facts: ModelFacts, free: int, more: int, tokens: int, longer: int, depth: int
) -> None:
    settings = PoolSettings(engine="vllm", longest_tokens=141_072, draft_depth=depth)
    pool, larger = pool_of(facts, settings, free), pool_of(facts, settings, free + more)
    assert pool.bytes <= free
    assert larger.holds(tokens) >= pool.holds(tokens) >= pool.holds(tokens + longer)
    assert pool.holds(tokens) * pool.need(tokens) <= pool.capacity < (pool.holds(tokens) + 1) * pool.need(tokens)
