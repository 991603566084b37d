"""Where a device's memory goes, by engine and version, and what the pool gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.pool.models import LLAMA_8B, QWEN36_27B, SMOLLM2, model, weights
from widelane.facts.devices.device import Device, DeviceKind
from widelane.figures import Origin
from widelane.plan.memory import MemoryBudget, default_sequences, default_utilization, memory_budget
from widelane.plan.memory_bar import memory_bar, missing_bytes
from widelane.plan.pool.make import POOL_ENGINES, pool_of
from widelane.plan.pool.settings import PoolSettings

GIB = 2**30
GB10 = Device(
    name="gb10",
    kind=DeviceKind.UNIFIED,
    memory_bandwidth_bytes_s=273e9,
    memory_bytes=128 * 10**9,
    usable_memory_bytes=119 * GIB,
)
RTX_3090 = Device(name="rtx-3090", kind=DeviceKind.GPU, memory_bandwidth_bytes_s=936e9, memory_bytes=24 * GIB)
M4_MAX = Device(
    name="m4-max",
    kind=DeviceKind.UNIFIED,
    memory_bandwidth_bytes_s=546e9,
    memory_bytes=128 * 10**9,
    usable_memory_bytes=96 * 10**9,
)


def settings(engine: str, **changes: object) -> PoolSettings:
    return PoolSettings(**{"engine": engine, "longest_tokens": 8192, **changes})  # type: ignore[arg-type]


def sizes(budget: MemoryBudget) -> dict[str, int]:
    return {use.name: use.bytes for use in budget.uses}


class TestVllm:
    def test_the_server_may_use_its_share(self) -> None:
        """0.9 of 24 GiB: 2.4 GiB stay outside."""
        budget = memory_budget(LLAMA_8B, RTX_3090, settings("vllm", version="0.20.0"))
        assert budget.reserve.bytes == round(2.4 * GIB)
        assert budget.utilization == pytest.approx(0.9)
        assert budget.reserve.reason == "--gpu-memory-utilization 0.9 (the engine's default)"

    def test_the_default_share_grew_when_graphs_were_counted_in(self) -> None:
        assert default_utilization(settings("vllm", version="0.20.2"), GIB) == 0.9
        assert default_utilization(settings("vllm", version="0.21.0"), GIB) == 0.92
        assert default_utilization(settings("vllm"), GIB) == 0.92
        assert "graphs" not in sizes(memory_budget(LLAMA_8B, RTX_3090, settings("vllm", version="0.20.2")))
        assert "graphs" in sizes(memory_budget(LLAMA_8B, RTX_3090, settings("vllm", version="0.21.0")))

    def test_a_stated_share_is_read_not_assumed(self) -> None:
        budget = memory_budget(LLAMA_8B, RTX_3090, settings("vllm"), utilization=0.5)
        assert (budget.reserve.bytes, budget.reserve.origin) == (12 * GIB, Origin.READ)

    def test_what_is_left_is_the_pools(self) -> None:
        budget = memory_budget(LLAMA_8B, RTX_3090, settings("vllm"))
        assert budget.pool_bytes == 24 * GIB - budget.reserve.bytes - sum(sizes(budget).values())
        assert budget.missing_bytes == 0

    def test_wider_steps_need_more(self) -> None:
        narrow = sizes(memory_budget(LLAMA_8B, RTX_3090, settings("vllm", batched_tokens=2048, slots=16)))
        wide = sizes(memory_budget(LLAMA_8B, RTX_3090, settings("vllm", batched_tokens=8192, slots=256)))
        assert narrow["activations"] < wide["activations"] < 4 * GIB

    def test_unset_steps_are_short_on_a_small_card(self) -> None:
        small = sizes(memory_budget(LLAMA_8B, RTX_3090, settings("vllm")))
        assert small == sizes(memory_budget(LLAMA_8B, RTX_3090, settings("vllm", batched_tokens=2048, slots=256)))
        large = sizes(memory_budget(LLAMA_8B, GB10, settings("vllm")))
        assert large == sizes(memory_budget(LLAMA_8B, GB10, settings("vllm", batched_tokens=8192, slots=1024)))

    def test_no_driver_on_a_cpu(self) -> None:
        assert set(sizes(memory_budget(SMOLLM2, RTX_3090, settings("vllm", on_cpu=True)))) == {"weights", "activations"}

    @pytest.mark.parametrize(("gib", "cards", "sequences"), [(24, 1, 256), (80, 1, 1024), (96, 2, 256)])
    def test_a_large_card_starts_with_more_places(self, gib: int, cards: int, sequences: int) -> None:
        assert default_sequences(settings("vllm", devices=cards), gib * GIB) == sequences


class TestSglang:
    @pytest.mark.parametrize(
        ("gib", "reserved_mib"), [(16, 512 + 3072 + 16 + 128), (24, 512 + 3072 + 48 + 128), (48, 512 + 6144 + 64 + 128)]
    )
    def test_its_rule_by_size_of_card(self, gib: int, reserved_mib: int) -> None:
        share = default_utilization(settings("sglang"), gib * GIB)
        assert share == pytest.approx(1 - reserved_mib / (gib * 1024))

    def test_large_cards_keep_ten_gib_and_drafting_two_more(self) -> None:
        assert default_utilization(settings("sglang"), 80 * GIB) == pytest.approx(1 - 13_440 / 81_920)
        assert default_utilization(settings("sglang", draft_depth=2), 80 * GIB) == pytest.approx(1 - 15_488 / 81_920)

    def test_a_stated_fraction(self) -> None:
        budget = memory_budget(LLAMA_8B, RTX_3090, settings("sglang"), utilization=0.75)
        assert budget.reserve.bytes == 6 * GIB
        assert budget.reserve.reason.startswith("--mem-fraction-static 0.75 (as set)")


class TestLlamaCpp:
    def test_a_card_keeps_what_fit_leaves(self) -> None:
        assert memory_budget(LLAMA_8B, RTX_3090, settings("llama.cpp")).reserve.bytes == pytest.approx(GIB, abs=2)

    def test_one_memory_for_all_leaves_room_for_the_system(self) -> None:
        """128 GB sold, 119 GiB to be had: 4 GiB less what the driver keeps anyway, and 1 GiB of `--fit`."""
        kept = 5 * GIB - (128 * 10**9 - 119 * GIB)
        assert memory_budget(LLAMA_8B, GB10, settings("llama.cpp")).reserve.bytes == pytest.approx(kept, abs=2)

    def test_where_the_driver_keeps_a_quarter_that_is_room_enough(self) -> None:
        assert memory_budget(LLAMA_8B, M4_MAX, settings("llama.cpp")).reserve.bytes == pytest.approx(GIB, abs=2)

    def test_compute_buffers_grow_with_the_micro_batch(self) -> None:
        small = sizes(memory_budget(LLAMA_8B, RTX_3090, settings("llama.cpp")))["compute buffers"]
        large = sizes(memory_budget(LLAMA_8B, RTX_3090, settings("llama.cpp", micro_batch_tokens=2048)))[
            "compute buffers"
        ]
        assert GIB / 8 < small < large < 4 * GIB


class TestWeights:
    def test_a_draft_head_is_loaded_only_to_draft(self) -> None:
        plain = sizes(memory_budget(QWEN36_27B, GB10, settings("vllm")))
        drafting = sizes(memory_budget(QWEN36_27B, GB10, settings("vllm", draft_depth=2)))
        assert (plain["weights"], "draft head" in plain) == (28_000_000_000, False)
        assert (drafting["weights"], drafting["draft head"]) == (28_000_000_000, 500_000_000)

    def test_a_draft_model_takes_its_weights(self) -> None:
        drafter = model("small", size=weights(700_000_000))
        drafting = sizes(memory_budget(QWEN36_27B, GB10, settings("llama.cpp", draft_depth=4, drafter=drafter)))
        assert drafting["draft model"] == 700_000_000
        assert "draft head" not in drafting

    def test_weights_larger_than_the_memory_leave_nothing(self) -> None:
        budget = memory_budget(QWEN36_27B, RTX_3090, settings("vllm"))
        assert budget.pool_bytes == 0
        assert budget.missing_bytes > 4 * GIB


def test_stated_memory_takes_the_place_of_the_devices_own() -> None:
    budget = memory_budget(LLAMA_8B, GB10, settings("vllm"), memory_bytes=40 * GIB)
    assert (budget.total_bytes, budget.reserve.bytes) == (40 * GIB, 0)


class TestBar:
    def test_states_stand_apart_where_they_are_set_aside(self) -> None:
        made = settings("llama.cpp", slots=16, longest_tokens=16_384)
        budget = memory_budget(QWEN36_27B, GB10, made)
        bar = memory_bar(budget, pool_of(QWEN36_27B, made, budget.pool_bytes))
        names = [part.name for part in bar]
        assert names == ["weights", "compute buffers", "recurrent state", "KV pool", "free", "reserve"]
        assert dict(zip(names, bar, strict=True))["recurrent state"].bytes.value == 16 * 156_893_184

    def test_states_are_inside_the_pool_in_vllm(self) -> None:
        budget = memory_budget(QWEN36_27B, GB10, settings("vllm"))
        bar = memory_bar(budget, pool_of(QWEN36_27B, settings("vllm"), budget.pool_bytes))
        assert "recurrent state" not in [part.name for part in bar]
        assert any(part.name == "KV pool" and "recurrent states included" in (part.bytes.reason or "") for part in bar)

    def test_every_part_says_where_it_comes_from(self) -> None:
        budget = memory_budget(QWEN36_27B, GB10, settings("vllm"))
        bar = memory_bar(budget, pool_of(QWEN36_27B, settings("vllm"), budget.pool_bytes))
        assert all(part.bytes.unit == "bytes" and part.bytes.reason for part in bar)

    def test_a_stated_context_that_does_not_fit_is_missing_memory(self) -> None:
        made = settings("llama.cpp", total_tokens=262_144)
        budget = memory_budget(LLAMA_8B, RTX_3090, made)
        pool = pool_of(LLAMA_8B, made, budget.pool_bytes)
        assert missing_bytes(budget, pool) == 32 * GIB - budget.pool_bytes

    @pytest.mark.parametrize("engine", POOL_ENGINES)
    @given(gib=st.integers(1, 512), cards=st.sampled_from([1, 2, 4]), depth=st.integers(0, 3))
    def test_the_parts_add_up_to_the_memory(self, engine: str, gib: int, cards: int, depth: int) -> None:
        device = replace(RTX_3090, memory_bytes=gib * GIB, count=cards)
        made = settings(engine, devices=cards, draft_depth=depth)
        budget = memory_budget(QWEN36_27B, device, made)
        pool = pool_of(QWEN36_27B, made, budget.pool_bytes)
        total = sum(int(part.bytes.value or 0) for part in memory_bar(budget, pool))
        assert total == gib * GIB + missing_bytes(budget, pool)
