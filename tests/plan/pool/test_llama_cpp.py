"""llama.cpp's cells, windows and states, and Ollama's rules on top of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.pool.models import GEMMA3_27B, LLAMA_8B, MAMBA, NEMOTRON_3_NANO, QWEN36_27B, SMOLLM2, attention, model
from widelane.errors import UsageError
from widelane.plan.pool.llama_cpp import LlamaCppPool, llama_cpp_pool, llama_cpp_pool_of, slot_state_bytes
from widelane.plan.pool.make import pool_from_log_line, pool_of
from widelane.plan.pool.ollama import default_context_tokens, ollama_pool_of, one_slot_only
from widelane.plan.pool.settings import PoolSettings

GIB, MIB = 2**30, 2**20


def settings(slots: int | None = None, longest: int = 8192, **changes: object) -> PoolSettings:
    return PoolSettings(engine="llama.cpp", longest_tokens=longest, slots=slots, **changes)


class TestStates:
    def test_a_slot_of_the_27b_takes_156_9_mb(self) -> None:
        """48 layers of 30,720 convolution and 786,432 state elements, 4 bytes each."""
        assert slot_state_bytes(QWEN36_27B) == 156_893_184

    def test_128_slots_take_20_gb_and_with_drafts_of_three_80_gb(self) -> None:
        plain = llama_cpp_pool(QWEN36_27B, settings(128), 4096)
        drafting = llama_cpp_pool(QWEN36_27B, settings(128, draft_depth=3), 4096)
        assert (plain.state_bytes, drafting.state_bytes) == (20_082_327_552, 80_329_310_208)

    def test_a_state_type_changes_nothing_here(self) -> None:
        half = llama_cpp_pool(QWEN36_27B, settings(4, state_dtype="float16"), 4096)
        assert half.state_bytes == 4 * 156_893_184


class TestCells:
    def test_without_np_four_slots_share_one_pool(self) -> None:
        pool = llama_cpp_pool(LLAMA_8B, settings(), 8192)
        assert (pool.slot_count, pool.shared, pool.cells, pool.longest_tokens) == (4, True, 8192, 8192)

    def test_with_np_each_slot_has_its_share(self) -> None:
        pool = llama_cpp_pool(LLAMA_8B, settings(4), 8192)
        assert (pool.shared, pool.cells, pool.tokens, pool.longest_tokens) == (False, 2048, 8192, 2048)

    def test_np_with_unified_shares(self) -> None:
        assert llama_cpp_pool(LLAMA_8B, settings(16, unified=True), 8192).longest_tokens == 8192

    @pytest.mark.parametrize(
        ("slots", "unified", "asked", "cells"), [(None, None, 1000, 1024), (3, None, 8192, 2816), (1, None, 256, 256)]
    )
    def test_cells_come_in_steps_of_256(self, slots: int | None, unified: bool | None, asked: int, cells: int) -> None:
        assert llama_cpp_pool(LLAMA_8B, settings(slots, unified=unified), asked).cells == cells

    def test_a_slot_takes_no_more_than_the_model_was_made_for(self) -> None:
        assert llama_cpp_pool(SMOLLM2, settings(), 65_536).longest_tokens == 8192

    def test_there_are_at_most_256_slots(self) -> None:
        with pytest.raises(UsageError, match="at most 256 slots"):
            llama_cpp_pool(LLAMA_8B, settings(257), 8192)

    def test_types_of_k_and_v_count_apart(self) -> None:
        """8192 cells, 32 layers, 1024 elements of K in q8_0 (1088 bytes) and of V in q4_0 (576 bytes)."""
        pool = llama_cpp_pool(LLAMA_8B, settings(kv_dtype="q8_0", value_dtype="q4_0"), 8192)
        assert pool.kv_bytes == 8192 * 32 * (1088 + 576)

    def test_a_type_of_another_engine_is_an_error(self) -> None:
        with pytest.raises(UsageError, match=r"llama\.cpp has no KV cache of type fp8"):
            llama_cpp_pool(LLAMA_8B, settings(kv_dtype="fp8"), 8192)


class TestWindows:
    """Gemma 3 27B: 4096 elements a token and layer, 52 layers with a window of 1024, 10 without; f16."""

    def test_a_shared_pool_keeps_a_window_for_each_slot(self) -> None:
        """1024 * 4 + 512 = 4608 cells, once."""
        pool = llama_cpp_pool(GEMMA3_27B, settings(), 32_768)
        assert pool.window_bytes == 4608 * 52 * 8192
        assert pool.kv_bytes == 32_768 * 10 * 8192

    def test_a_split_pool_keeps_one_window_in_each(self) -> None:
        """1024 + 512 = 1536 cells, four times."""
        assert llama_cpp_pool(GEMMA3_27B, settings(4), 32_768).window_bytes == 4 * 1536 * 52 * 8192

    def test_no_more_cells_than_the_context(self) -> None:
        assert llama_cpp_pool(GEMMA3_27B, settings(1), 1024).window_bytes == 1024 * 52 * 8192


class TestDrafting:
    def test_the_models_own_head_keeps_a_layer_of_cells(self) -> None:
        """17 layers instead of 16, 2048 elements of 2 bytes."""
        plain = llama_cpp_pool(QWEN36_27B, settings(4), 8192)
        drafting = llama_cpp_pool(QWEN36_27B, settings(4, draft_depth=2), 8192)
        assert drafting.kv_bytes - plain.kv_bytes == 8192 * 2048 * 2

    def test_a_separate_model_keeps_all_its_layers(self) -> None:
        small = model("draft", (attention(2, 2, 64),))
        plain = llama_cpp_pool(LLAMA_8B, settings(4), 8192)
        drafting = llama_cpp_pool(LLAMA_8B, settings(4, draft_depth=2, drafter=small), 8192)
        assert drafting.kv_bytes - plain.kv_bytes == 8192 * 2 * 256 * 2


class TestSequences:
    def test_a_shared_pool_holds_what_its_cells_and_slots_allow(self) -> None:
        pool = llama_cpp_pool(LLAMA_8B, settings(8, unified=True), 16_384)
        assert [pool.holds(tokens) for tokens in (500, 2048, 4000, 16_384, 16_385)] == [8, 8, 4, 1, 0]
        assert pool.fits([8000, 8000, 384]) and not pool.fits([8000, 8000, 385])

    def test_a_slot_of_a_split_pool_cannot_use_anothers_cells(self) -> None:
        pool = llama_cpp_pool(LLAMA_8B, settings(8), 16_384)
        assert [pool.holds(tokens) for tokens in (1, 2048, 2049)] == [8, 8, 0]
        assert pool.fits([2048] * 8) and not pool.fits([2049]) and not pool.fits([1] * 9)

    def test_the_meaning_says_what_a_full_shared_pool_does(self) -> None:
        assert "every running request fails" in llama_cpp_pool(LLAMA_8B, settings(), 8192).meaning
        assert "2,048 each" in llama_cpp_pool(LLAMA_8B, settings(4), 8192).meaning

    def test_a_purely_recurrent_model_is_limited_by_its_slots(self) -> None:
        pool = llama_cpp_pool(MAMBA, settings(6), 8192)
        assert (pool.unit, pool.holds(1000), pool.kv_bytes) == ("slots", 6, 0)


class TestFreeMemory:
    def test_the_context_is_as_large_as_fits(self) -> None:
        """131,072 bytes a token: 8 GiB hold 65,536, less than four slots of 32,768."""
        pool = llama_cpp_pool_of(LLAMA_8B, settings(longest=32_768), 8 * GIB)
        assert (pool.tokens, pool.bytes) == (65_536, 8 * GIB)

    def test_no_more_than_every_slot_can_use(self) -> None:
        assert llama_cpp_pool_of(LLAMA_8B, settings(4, longest=4096), 64 * GIB).tokens == 16_384

    def test_a_stated_context_stays(self) -> None:
        assert llama_cpp_pool_of(LLAMA_8B, settings(total_tokens=262_144), GIB).bytes == 32 * GIB

    def test_where_not_even_the_states_fit_nothing_does(self) -> None:
        pool = llama_cpp_pool_of(QWEN36_27B, settings(128), 10 * GIB)
        assert (pool.tokens, pool.holds(100)) == (0, 0)
        assert pool.bytes > 10 * GIB

    @given(
        free=st.integers(0, 2**38),
        slots=st.one_of(st.none(), st.integers(1, 256)),
        unified=st.one_of(st.none(), st.booleans()),
        longest=st.integers(1, 200_000),
        tokens=st.integers(1, 100_000),
    )
    def test_what_is_planned_fits(
        self, free: int, slots: int | None, unified: bool | None, longest: int, tokens: int
    ) -> None:
        for facts in (LLAMA_8B, GEMMA3_27B):
            pool = pool_of(facts, settings(slots, longest, unified=unified), free)
            assert pool.bytes <= free
            assert pool.holds(tokens) >= pool.holds(tokens + 1)
            assert pool.fits([tokens] * pool.holds(tokens))


def test_recorded_start_logs_come_out_exactly(data_dir: Path) -> None:
    """Cells, streams and MiB of every cache that a recorded log of SmolLM2 shows."""
    seen = 0
    for path in sorted((data_dir / "fixtures" / "llama_cpp" / "startup_logs").glob("*.log")):
        text = path.read_text()
        cache = re.search(
            r"size\s*=\s*([\d.]+) MiB \(\s*(\d+) cells,\s*30 layers,\s*(\d+)/(\d+) seqs\), K \((\w+)\).*V \((\w+)\)",
            text,
        )
        context = re.search(r"llama_context: n_ctx\s*=\s*(\d+)", text)
        if cache is None or context is None:
            continue
        size, cells, slots, streams, key, value = cache.groups()
        pool = llama_cpp_pool(
            SMOLLM2,
            settings(int(slots), unified=streams == "1" and slots != "1", kv_dtype=key, value_dtype=value),
            int(context[1]),
        )
        assert (pool.cells, pool.pools) == (int(cells), int(streams)), path.name
        assert pool.kv_bytes / MIB == pytest.approx(float(size), abs=0.01), path.name
        seen += 1
    if not seen:
        pytest.skip("no recorded llama.cpp start log shows a cache")


def test_the_figure_of_a_start_log_is_the_cells_of_all_slots() -> None:
    pool = pool_from_log_line(SMOLLM2, settings(4), 8192)
    assert (pool.tokens, pool.log_line_tokens, pool.holds(2048)) == (8192, 8192, 4)


class TestOllama:
    SETTINGS = PoolSettings(engine="ollama", longest_tokens=8192, slots=4)

    def test_every_slot_has_the_whole_context(self) -> None:
        pool = pool_of(LLAMA_8B, self.SETTINGS, 64 * GIB)
        assert isinstance(pool, LlamaCppPool)
        assert (pool.engine, pool.slot_count, pool.cells, pool.tokens) == ("ollama", 4, 8192, 32_768)

    def test_one_slot_unless_it_is_set(self) -> None:
        assert ollama_pool_of(LLAMA_8B, replace(self.SETTINGS, slots=None), 64 * GIB).slot_count == 1

    @pytest.mark.parametrize("facts", [QWEN36_27B, NEMOTRON_3_NANO], ids=lambda facts: facts.architecture)
    def test_some_models_get_one_slot_whatever_is_set(self, facts: object) -> None:
        assert one_slot_only(facts)  # type: ignore[arg-type]
        assert ollama_pool_of(facts, self.SETTINGS, 64 * GIB).holds(100) == 1  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "architecture", ["qwen35", "qwen35moe", "qwen3next", "lfm2moe", "nemotron_h_moe", "mllama"]
    )
    def test_names_of_a_gguf_are_known_too(self, architecture: str) -> None:
        assert one_slot_only(replace(LLAMA_8B, architecture=architecture))

    @pytest.mark.parametrize("architecture", ["llama", "qwen3", "qwen3moe", "gemma3"])
    def test_others_keep_their_slots(self, architecture: str) -> None:
        assert not one_slot_only(replace(LLAMA_8B, architecture=architecture))

    def test_the_default_context_grows_with_the_memory(self) -> None:
        assert [default_context_tokens(gib * GIB) for gib in (16, 24, 47, 48, 128)] == [
            4096,
            32_768,
            32_768,
            262_144,
            262_144,
        ]

    def test_a_cache_type_it_does_not_have_is_an_error(self) -> None:
        with pytest.raises(UsageError, match="ollama has no KV cache of type q5_1"):
            ollama_pool_of(LLAMA_8B, replace(self.SETTINGS, kv_dtype="q5_1"), 64 * GIB)

    def test_the_figure_of_a_running_server(self) -> None:
        assert pool_from_log_line(LLAMA_8B, self.SETTINGS, 16_384).longest_tokens == 4096
