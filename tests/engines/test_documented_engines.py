"""Servers of which nothing is recorded: small replies made by hand, by documentation and source, not recorded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.recordings import by_hand
from widelane.engines.detect import detect
from widelane.engines.engine import Hints
from widelane.engines.hints import LocalProcess
from widelane.facts.model_family import one_slot_only
from widelane.figures import Origin

OLLAMA = {
    "/": "Ollama is running",
    "/api/version": {"version": "0.12.0"},
    "/v1/models": {"object": "list", "data": [{"id": "qwen3:8b", "object": "model", "owned_by": "library"}]},
    "/api/tags": {"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "size": 5_200_000_000}]},
    "/api/ps": {
        "models": [
            {"name": "qwen3:8b", "model": "qwen3:8b", "size": 8_000, "size_vram": 6_000, "context_length": 4096},
        ]
    },
    "POST /api/show": {
        "details": {"family": "qwen3", "parameter_size": "8.2B", "quantization_level": "Q4_K_M"},
        "model_info": {
            "general.architecture": "qwen3",
            "qwen3.context_length": 40960,
            "general.parameter_count": 8190735360,
        },
        "capabilities": ["completion", "tools", "thinking"],
        "template": "{{ if .Tools }}<tool_call>{{ end }}<think>",
    },
}
SGLANG = {
    "/": "SGLang is running",
    "/v1/models": {"data": [{"id": "Qwen/Qwen3-8B", "owned_by": "sglang", "max_model_len": 32768}]},
    "/server_info": {
        "version": "0.5.23",
        "max_running_requests": 64,
        "kv_cache_dtype": "auto",
        "mamba_ssm_dtype": "float32",
        "speculative_algorithm": None,
        "disable_radix_cache": False,
        "internal_states": [
            {
                "effective_max_running_requests_per_dp": 48,
                "memory_usage": {"token_capacity": 120000},
                "avg_spec_accept_length": 1.0,
            }
        ],
    },
    "/model_info": {"tool_call_parser": "qwen25", "reasoning_parser": None},
    "/metrics": "sglang:num_queue_reqs 5\nsglang:num_running_reqs 48\n"
    "sglang:token_usage 0.93\nsglang:num_retracted_reqs 2\n",
    # SGLang answers Ollama's paths too
    "/api/tags": {"models": [{"name": "Qwen/Qwen3-8B"}]},
    "/api/version": {"version": "0.0.0"},
}
LM_STUDIO_1 = {
    "/api/v1/models": {
        "models": [
            {"type": "embedding", "key": "nomic", "loaded_instances": []},
            {
                "type": "llm",
                "key": "qwen/qwen3-8b",
                "format": "gguf",
                "size_bytes": 5_000_000_000,
                "params_string": "8B",
                "max_context_length": 32768,
                "capabilities": {"trained_for_tool_use": True},
                "loaded_instances": [{"id": "qwen3-8b", "config": {"context_length": 8192}}],
            },
        ]
    },
    "/v1/models": {"data": [{"id": "qwen3-8b", "owned_by": "organization_owner"}]},
    # LM Studio answers 200 to paths that it does not have
    "/props": {"error": "Unexpected endpoint or method. (GET /props)"},
    "/version": {"error": "Unexpected endpoint or method. (GET /version)"},
    "/server_info": {"error": "Unexpected endpoint or method."},
    "/api/version": {"error": "Unexpected endpoint or method."},
    "/metrics": {"error": "Unexpected endpoint or method."},
}
LM_STUDIO_0 = {
    "/api/v0/models": {
        "data": [
            {"id": "q", "type": "llm", "state": "loaded", "loaded_context_length": 4096, "max_context_length": 32768}
        ]
    },
    "/v1/models": {"data": [{"id": "q", "owned_by": "organization_owner"}]},
}
TENSORRT_LLM = {
    "/v1/models": {"data": [{"id": "llama", "object": "model", "owned_by": "tensorrt_llm"}]},
    "/version": {"version": "1.2.0"},
    "/prometheus/metrics": "trtllm_request_success_total 3\n",
    "/metrics": [],
}
LLAMA_CPP_PYTHON = {"/v1/models": {"object": "list", "data": [{"id": "m.gguf", "object": "model", "owned_by": "me"}]}}
UNKNOWN = {"/v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "openai"}]}}


@pytest.mark.parametrize(
    ("engine", "replies"),
    [
        ("ollama", OLLAMA),
        ("sglang", SGLANG),
        ("lm-studio", LM_STUDIO_1),
        ("lm-studio", LM_STUDIO_0),
        ("tensorrt-llm", TENSORRT_LLM),
        ("llama-cpp-python", LLAMA_CPP_PYTHON),
        ("openai-compatible", UNKNOWN),
    ],
)
async def test_each_is_recognised_by_what_only_it_says(engine: str, replies: dict[str, Any]) -> None:
    assert (await detect(by_hand(engine, replies))).name == engine


async def test_sglang_is_not_taken_for_ollama_when_a_proxy_hides_its_owner() -> None:
    hidden = {**SGLANG, "/v1/models": {"data": [{"id": "m"}]}}
    assert (await detect(by_hand("sglang", hidden))).name == "sglang"


async def test_tensorrt_llms_metrics_are_not_read_because_reading_empties_them() -> None:
    hidden = {**TENSORRT_LLM, "/v1/models": {"data": [{"id": "m"}]}}
    server = by_hand("tensorrt-llm", hidden)
    assert (await detect(server)).name == "tensorrt-llm"
    assert "/metrics" not in [path for _, path, _ in server.asked]


async def facts_of(replies: dict[str, Any], hints: Hints | None = None) -> Any:
    return await (await detect(by_hand("", replies))).facts(hints or Hints())


async def test_ollama_facts() -> None:
    facts = await facts_of(OLLAMA)
    assert (facts.version.value, facts.model.value) == ("0.12.0", "qwen3:8b")
    assert (facts.slots.value, facts.slots.origin) == (1, Origin.ASSUMED)
    assert (facts.context_per_slot.value, facts.context_trained.value) == (4096, 40960)
    assert (facts.tool_parser.value, facts.reasoning_parser.value) == (True, True)
    assert facts.extra["share_on_gpu"].value == 0.75
    assert facts.parameters.value == 8190735360


async def test_ollamas_environment_tells_its_slots() -> None:
    process = LocalProcess(
        pid=1, argv=("ollama", "serve"), environ={"OLLAMA_NUM_PARALLEL": "8", "OLLAMA_KV_CACHE_TYPE": "q8_0"}
    )
    facts = await facts_of(OLLAMA, Hints(process=process))
    assert (facts.slots.value, facts.slots.origin, facts.kv_dtype.value) == (8, Origin.READ, "q8_0")
    assert facts.launch_command.value == "OLLAMA_NUM_PARALLEL=8 OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve"


async def test_an_environment_that_may_not_be_read_gives_no_defaults() -> None:
    facts = await facts_of(OLLAMA, Hints(process=LocalProcess(pid=1, argv=("ollama", "serve"), environ=None)))
    assert facts.slots.origin is Origin.ASSUMED
    assert facts.kv_dtype.value is None


async def test_ollamas_own_llama_cpp_process_tells_what_it_runs_with() -> None:
    runner = ("/usr/lib/ollama/llama-server", "--model", "/m", "-np", "4", "-c", "16384", "--cache-type-k", "q8_0")
    process = LocalProcess(pid=1, argv=("ollama", "serve"), environ={}, children=(runner,))
    facts = await facts_of(OLLAMA, Hints(process=process))
    assert (facts.slots.value, facts.kv_dtype.value) == (4, "q8_0")


async def test_ollama_runs_some_architectures_one_at_a_time_whatever_it_is_told() -> None:
    shown = {**OLLAMA["POST /api/show"], "model_info": {"general.architecture": "qwen3next"}}
    process = LocalProcess(pid=1, argv=("ollama", "serve"), environ={"OLLAMA_NUM_PARALLEL": "8"})
    facts = await facts_of({**OLLAMA, "POST /api/show": shown}, Hints(process=process))
    assert facts.slots.value == 1 and "qwen3next" in str(facts.slots.reason)


@pytest.mark.parametrize("name", ["qwen35", "qwen35moe", "qwen3next", "qwen3vlmoe", "lfm2", "nemotron_h_moe", "mllama"])
def test_architectures_forced_to_one_slot(name: str) -> None:
    assert one_slot_only(name)
    assert not one_slot_only("llama") and not one_slot_only("qwen3")


async def test_sglang_facts() -> None:
    facts = await facts_of(SGLANG)
    assert (facts.slots.value, facts.context_per_slot.value, facts.pool_tokens.value) == (48, 32768, 120000)
    assert (facts.speculation.value, facts.prefix_cache.value) == (False, True)
    assert (facts.tool_parser.value, facts.reasoning_parser.value) == ("qwen25", False)
    assert facts.queue_length.value == 5
    gauges = await (await detect(by_hand("sglang", SGLANG))).gauges()
    assert (gauges.running, gauges.waiting, gauges.kv_usage, gauges.preemptions_total) == (48, 5, 0.93, 2)


async def test_sglang_names_a_state_type_for_every_model_and_it_counts_for_recurrent_ones() -> None:
    hybrid = {**SGLANG, "/v1/models": {"data": [{"id": "Qwen/Qwen3-Next-80B-A3B-Instruct", "owned_by": "sglang"}]}}
    assert (await facts_of(SGLANG)).state_dtype.value is None
    assert (await facts_of(hybrid)).state_dtype.value == "float32"


async def test_sglang_request_fields() -> None:
    engine = await detect(by_hand("sglang", SGLANG))
    assert engine.forced_text("a.b\n") == {"regex": "a\\.b\\n"}
    assert engine.fixed_length(9) == {"min_tokens": 9, "ignore_eos": True}


async def test_lm_studio_facts() -> None:
    newer, older = await facts_of(LM_STUDIO_1), await facts_of(LM_STUDIO_0)
    assert (newer.model.value, newer.context_per_slot.value, newer.slots.value) == ("qwen3-8b", 8192, 4)
    assert newer.slots.origin is Origin.ASSUMED
    assert (older.model.value, older.context_per_slot.value, older.context_trained.value) == ("q", 4096, 32768)


async def test_servers_with_one_known_truth_say_it() -> None:
    python = await facts_of(LLAMA_CPP_PYTHON)
    assert python.slots.value == 1 and "second request" in str(python.extra["note"].value)
    tensorrt = await facts_of(TENSORRT_LLM, Hints(launch="trtllm-serve llama --max_batch_size 64"))
    assert (tensorrt.slots.value, tensorrt.slots.origin) == (64, Origin.READ)


async def test_ramalama_is_llama_cpp_started_by_another_program() -> None:
    props = {"total_slots": 4, "default_generation_settings": {"n_ctx": 2048}}
    facts = await facts_of({"/props": props}, Hints(launch="ramalama serve -c 2048 granite"))
    assert (facts.engine, facts.extra["wrapper"].value) == ("llama.cpp", "ramalama")


async def test_an_unknown_server_is_what_the_launch_line_says() -> None:
    engine = await detect(by_hand("", UNKNOWN), Hints(launch="python -m mlx_lm.server --model m"))
    assert engine.name == "mlx-lm"


async def test_mlx_lm_batches_unless_its_cache_is_quantised() -> None:
    launch = "mlx_lm.server --model m --kv-bits 4 --decode-concurrency 64"
    engine = await detect(by_hand("", UNKNOWN), Hints(launch=launch))
    facts = await engine.facts(Hints(launch=launch))
    assert facts.slots.value == 1 and "batching off" in str(facts.slots.reason)
