"""vLLM's command: the field report's four flags that break something silently by their absence, and the rest."""

import json

import pytest

from tests.plan.launch.samples import (
    DENSE,
    XML_TEMPLATE,
    flags_of,
    left_out,
    model,
    planned,
    reason_of,
    value_of,
)
from widelane.errors import UsageError
from widelane.plan.launch.choice import Accelerator
from widelane.plan.report import Use

FP8 = "Qwen/Qwen3.6-27B-FP8"


def test_the_field_reports_command_with_the_state_flag_that_works() -> None:
    plan = planned(
        model(template=XML_TEMPLATE),
        "vllm",
        model=FP8,
        kv_dtype="fp8",
        state_dtype="float16",
        draft_depth=2,
        memory_utilization=0.85,
    )
    assert plan.command == (
        "vllm serve Qwen/Qwen3.6-27B-FP8 --host 127.0.0.1 --port 8000 --max-num-seqs 16 --max-model-len 16384 "
        "--gpu-memory-utilization 0.85 --kv-cache-dtype fp8 --mamba-ssm-cache-dtype float16 --enable-auto-tool-choice "
        "--tool-call-parser qwen3_xml --reasoning-parser qwen3 "
        '--speculative-config \'{"method":"mtp","num_speculative_tokens":2}\' --enable-prompt-tokens-details'
    )
    assert "small convolution part" in left_out(plan)["--mamba-cache-dtype"]
    assert "0.17.1" in reason_of(plan, "--mamba-ssm-cache-dtype")
    assert plan.checked_on == "0.32.0"


def test_every_flag_has_a_reason() -> None:
    plan = planned(model(), "vllm", model=FP8, kv_dtype="fp8", state_dtype="float16", draft_depth=2)
    assert all(part.reason for part in plan.argv if part.flag is not None)
    assert all(left.reason for left in plan.left_out)


def test_a_state_that_stays_wide_is_left_out_with_what_halving_would_give() -> None:
    plan = planned(model(), "vllm", model=FP8)
    assert "float32" in left_out(plan)["--mamba-ssm-cache-dtype"]
    assert "--mamba-ssm-cache-dtype" not in flags_of(plan)


def test_a_version_without_the_narrow_state_is_not_given_the_flag() -> None:
    plan = planned(model(), "vllm", model=FP8, state_dtype="float16", version="0.10.2")
    assert "--mamba-ssm-cache-dtype" not in flags_of(plan)
    assert "since 0.17" in left_out(plan)["--mamba-ssm-cache-dtype"]


def test_a_dense_model_has_no_state_flags() -> None:
    plan = planned(DENSE, "vllm", model="Qwen/Qwen3-8B", state_dtype="float16")
    assert not any("mamba" in flag for flag in (*flags_of(plan), *left_out(plan)))


@pytest.mark.parametrize("dtype", [None, "auto", "bf16", "f16", "float16", "bfloat16"])
def test_sixteen_bits_are_the_default_of_the_cache(dtype: str | None) -> None:
    assert "--kv-cache-dtype" not in flags_of(planned(DENSE, "vllm", model=FP8, kv_dtype=dtype))


def test_a_cache_type_of_another_engine_is_translated_and_an_unknown_one_refused() -> None:
    assert value_of(planned(DENSE, "vllm", model=FP8, kv_dtype="q8_0"), "--kv-cache-dtype") == "fp8"
    with pytest.raises(UsageError, match="no KV cache type 'q4_1'"):
        planned(DENSE, "vllm", model=FP8, kv_dtype="q4_1")


@pytest.mark.parametrize(
    ("version", "architecture", "method"),
    [
        (None, "qwen3_5", "mtp"),
        ("0.32.0", "deepseek_v3", "mtp"),
        ("0.10.2", "qwen3_next", "qwen3_next_mtp"),
        ("0.10.2", "deepseek_v3", "deepseek_mtp"),
        ("0.10.2", "glm4_moe", "glm4_moe_mtp"),
    ],
)
def test_a_draft_head_goes_by_the_name_the_version_knows(version: str | None, architecture: str, method: str) -> None:
    plan = planned(model(architecture=architecture), "vllm", model=FP8, draft_depth=1, version=version)
    config = json.loads(value_of(plan, "--speculative-config") or "")
    assert config == {"method": method, "num_speculative_tokens": 1}


def test_before_there_was_one_object_speculation_had_flags_of_its_own() -> None:
    plan = planned(DENSE, "vllm", model=FP8, draft_depth=3, draft_model="Qwen/Qwen3-0.6B", version="0.7.3")
    assert "--speculative-model Qwen/Qwen3-0.6B --num-speculative-tokens 3" in plan.command


def test_a_draft_model_is_left_out_where_the_engine_took_none() -> None:
    old, new = (
        planned(DENSE, "vllm", model=FP8, draft_depth=3, draft_model="Qwen/Qwen3-0.6B", version=version)
        for version in ("0.11.0", "0.32.0")
    )
    assert "--speculative-config" in left_out(old) and "--speculative-config" not in flags_of(old)
    assert json.loads(value_of(new, "--speculative-config") or "")["model"] == "Qwen/Qwen3-0.6B"


def test_an_agents_hybrid_model_keeps_its_prefixes() -> None:
    agents = planned(model(), "vllm", model=FP8, use=Use.AGENTS)
    batch = planned(model(), "vllm", model=FP8, use=Use.BATCH)
    assert "--enable-prefix-caching" in flags_of(agents)
    assert "--enable-prefix-caching" in left_out(batch)


def test_a_cpu_gets_its_pool_by_the_environment() -> None:
    plan = planned(
        DENSE,
        "vllm",
        model="/models/qwen",
        accelerator=Accelerator.CPU,
        pool_bytes=3 * 2**30 + 5,
        memory_utilization=0.9,
    )
    assert plan.command.startswith(
        "VLLM_CPU_KVCACHE_SPACE=3 vllm serve /models/qwen --served-model-name Qwen/Qwen3-8B "
    )
    assert "--gpu-memory-utilization" not in flags_of(plan)


def test_several_cards_hold_the_model_together() -> None:
    assert value_of(planned(DENSE, "vllm", model=FP8, device_count=2), "--tensor-parallel-size") == "2"


def test_old_versions_need_a_second_flag_for_reasoning() -> None:
    plan = planned(DENSE, "vllm", model=FP8, version="0.8.5")
    assert "--enable-reasoning --reasoning-parser qwen3" in plan.command


def test_a_plan_without_weights_holds_a_place_for_their_name() -> None:
    assert planned(DENSE, "vllm").command.startswith("vllm serve ORG/MODEL ")
