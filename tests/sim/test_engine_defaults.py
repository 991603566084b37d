"""What each engine does when nobody says otherwise."""

from __future__ import annotations

import random

import pytest

from widelane.errors import UsageError
from widelane.facts.known_models import known_names
from widelane.measure.profile import load_profile
from widelane.plan.step_time import step_seconds
from widelane.sim.call import SimCall
from widelane.sim.config import PoolPolicy, PrefixCache
from widelane.sim.engine import SimEngine
from widelane.sim.graph_sizes import vllm_graph_sizes
from widelane.sim.simulated import Simulated, simulated
from widelane.sim.spec import parse_sim


def server(text: str) -> Simulated:
    return simulated(parse_sim(text), load_profile=load_profile)


def test_llama_cpp_starts_four_slots_in_one_pool_that_fails_everybody() -> None:
    config = server("sim:gb10/qwen3.6-27b/llama.cpp?quant=q4_k_m&weights_gb=17.5").config
    assert (config.slots, config.policy, config.prefix_cache) == (4, PoolPolicy.FAIL_ALL, PrefixCache.SLOTS)
    assert config.prefill_chunk_tokens == 2048
    assert config.longest_tokens == 262_144  # `-c 0`: what the model was made for, shared by the slots
    assert config.pool is not None
    assert config.pool.capacity == 262_144


def test_llama_cpp_with_slots_divides_its_context() -> None:
    config = server("sim:gb10/qwen3.6-27b/llama.cpp?quant=q4_k_m&slots=16").config
    assert (config.slots, config.policy, config.longest_tokens) == (16, PoolPolicy.RESERVE, 16_384)


def test_a_stated_context_is_that_of_one_slot() -> None:
    config = server("sim:gb10/qwen3.6-27b/llama.cpp?quant=q4_k_m&slots=16&context=4096").config
    assert config.longest_tokens == 4096
    assert config.pool is not None
    assert config.pool.capacity == 16 * 4096


def test_vllm_goes_by_the_memory_of_the_card() -> None:
    large, small = server("sim:gb10/qwen3-8b/vllm").config, server("sim:rtx-4090/qwen3-8b/vllm?quant=fp8").config
    assert (large.slots, large.prefill_chunk_tokens, large.graph_sizes[-1]) == (1024, 8192, 512)
    assert (small.slots, small.prefill_chunk_tokens, small.graph_sizes[-1]) == (256, 2048, 512)
    assert (large.policy, large.prefix_cache, large.prefix_block_tokens) == (
        PoolPolicy.RECOMPUTE,
        PrefixCache.BLOCKS,
        16,
    )


def test_vllm_on_a_small_card_takes_the_longest_sequence_that_fits() -> None:
    config = server("sim:rtx-4090/qwen3-8b/vllm").config
    assert config.pool is not None
    assert config.longest_tokens < 40_960
    assert config.pool.need(config.longest_tokens) <= config.pool.capacity


def test_sglang_reads_prompts_in_steps_of_their_own() -> None:
    config = server("sim:gb10/qwen3-8b/sglang").config
    assert (config.prefill_shares_steps, config.prefix_block_tokens) == (False, 1)


def test_ollama_runs_one_request_and_queues_five_hundred() -> None:
    config = server("sim:rtx-4090/qwen3-8b/ollama?quant=q4_k_m").config
    assert (config.slots, config.max_queue, config.longest_tokens) == (1, 512, 32_768)


def test_drafts_take_the_assumed_acceptance_and_whole_sequences_of_graphs() -> None:
    config = server("sim:gb10/qwen3.6-27b/vllm?quant=fp8&draft_depth=2").config
    assert (config.draft_depth, config.acceptance) == (2, (0.84, 0.60))
    assert all(size % 3 == 0 for size in config.graph_sizes)
    with pytest.raises(UsageError, match="draft_depth=6 needs an acceptance for each"):
        server("sim:gb10/qwen3.6-27b/vllm?draft_depth=6")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sim:rtx-4090/qwen3.6-27b/vllm", "does not fit on rtx-4090"),
        ("sim:rtx-4090/qwen3-8b/vllm?context=40960", "set a smaller context"),
        ("sim:rtx-4090/qwen3-8b/llama.cpp?quant=q8_0&slots=200&context=32768", "fewer slots"),
        ("sim:gb10/qwen3-8b/vllm?context=1000000", "longer than"),
        ("sim:elephant/qwen3-8b/vllm", "No device is called"),
        ("sim:gb10/elephant/vllm", "No model 'elephant'"),
    ],
)
def test_what_cannot_run_says_what_to_do(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        server(text)
    assert said in str(caught.value)


@pytest.mark.parametrize("engine", ["vllm", "llama.cpp", "sglang", "ollama"])
@pytest.mark.parametrize("model", ["qwen3-8b", "gpt-oss-20b", "gemma-4-26b-a4b", "qwen3.6-35b-a3b", "nemotron-3-nano"])
def test_every_kind_of_model_runs_on_every_engine(engine: str, model: str) -> None:
    """Dense, experts with windows, hybrids: the engine takes the pool and the costs as they are."""
    name = next(known for known in known_names() if model in known.lower())
    found = server(
        f"sim:gb10/{name}/{engine}?context=8192&quant=q4_k_m" if engine != "vllm" else f"sim:gb10/{name}/vllm"
    )
    run = SimEngine(found.config, found.cost, random.Random(1))
    for number in range(3):
        run.submit(0.0, SimCall(id=str(number), prompt_tokens=2000, output_tokens=50))
    while (time_s := run.next_s()) is not None:
        run.advance(time_s)
    gauges = run.gauges()
    assert (gauges.finished, gauges.output_tokens, gauges.failed) == (3, 150, 0)


def test_the_costs_are_the_plans() -> None:
    found = server("sim:gb10/qwen3.6-27b/vllm?kv_dtype=fp8&quant=fp8")
    assert found.planned is not None
    outlook = found.planned.outlook
    expected = step_seconds(outlook.cost, outlook.expected.rates, batch=8, context=2000)
    assert found.cost.decode_line(8, 16_000, 0).seconds(16_000) == pytest.approx(expected)
    assert "fitted to 81 measured steps of gb10 with vllm" in found.words


@pytest.mark.parametrize(
    ("slots", "step_tokens", "depth", "largest", "sizes"),
    [
        (4, 2048, 0, None, (1, 2, 4, 8)),
        (16, 2048, 0, None, (1, 2, 4, 8, 16, 24, 32)),
        (256, 8192, 0, None, (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))),
        (256, 100, 0, None, (1, 2, 4, *range(8, 97, 8))),
        (4, 2048, 0, 2, (1, 2)),
        (2, 2048, 2, None, (3, 6, 9)),  # 1, 2, 4, 8 rounded up to whole sequences of three tokens
        (1, 2048, 0, None, (1, 2)),
    ],
)
def test_graphs_are_captured_at_these_sizes(slots, step_tokens, depth, largest, sizes) -> None:
    assert vllm_graph_sizes(slots, step_tokens, draft_depth=depth, largest=largest) == sizes
