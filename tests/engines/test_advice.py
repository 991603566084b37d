"""From a finding to the exact flag, by engine and version, and the whole command."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from widelane.engines.advice import fix_for
from widelane.engines.launch_line import parse_launch
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Figure, Origin, unknown


def facts(engine: str, **known: Any) -> ServerFacts:
    """Facts with these values read, everything else unknown."""
    extra = known.pop("extra", {})
    names = [name for name in ServerFacts.__slots__ if name not in ("engine", "extra")]
    figures = {
        name: Figure(known[name], "", Origin.READ) if name in known else unknown("", "not told in this test")
        for name in names
    }
    return ServerFacts(engine=engine, extra={k: Figure(v, "", Origin.READ) for k, v in extra.items()}, **figures)


AUTOMATIC = facts(
    "llama.cpp", slots=4, context_per_slot=8192, pool_tokens=8192, unified_pool=True, version="b11549-abc"
)
SPLIT = facts("llama.cpp", slots=4, context_per_slot=2048, pool_tokens=8192, unified_pool=False, version="b11549-abc")


def test_more_slots_for_llama_cpp_come_with_the_context_they_need() -> None:
    fix = fix_for("too-few-slots", AUTOMATIC, slots=16)
    assert fix is not None
    assert fix.flag == "-np 16 -c 32768"  # each slot keeps its share of the pool so far, 8192 / 4
    assert "splits -c" in str(fix.reason) and "turns the shared pool off" in str(fix.reason)
    assert (fix.engine, fix.checked_on, fix.command) == ("llama.cpp", "b11549", None)


def test_a_split_pool_keeps_the_context_of_a_slot() -> None:
    fix = fix_for("too-few-slots", SPLIT, slots=8)
    assert fix is not None and fix.flag == "-np 8 -c 16384"


def test_a_stated_need_decides_the_context() -> None:
    fix = fix_for("too-few-slots", AUTOMATIC, slots=8, context=3000)
    assert fix is not None and fix.flag == "-np 8 -c 24576"  # 3072, a multiple of 256, each


def test_llama_cpp_has_at_most_256_slots() -> None:
    fix = fix_for("too-few-slots", SPLIT, slots=1000)
    assert fix is not None and fix.flag.startswith("-np 256 ")


def test_the_command_is_the_old_one_with_the_change() -> None:
    launched = Figure("llama-server -m 'my model.gguf' --parallel=4 -kvu -c 8192 --metrics", "", Origin.READ)
    fix = fix_for("too-few-slots", replace(AUTOMATIC, launch_command=launched), slots=16)
    assert fix is not None
    assert fix.command == "llama-server -m 'my model.gguf' --parallel=16 -c 32768 --metrics"


def test_overflow_of_a_shared_pool_is_cured_by_splitting_it() -> None:
    fix = fix_for("shared-pool-overflow", AUTOMATIC, slots=4, context=4096)
    assert fix is not None and fix.flag == "-np 4 -c 16384 --no-kv-unified"


def test_a_narrower_cache_needs_flash_attention() -> None:
    new, old = (
        fix_for("kv-wider-than-needed", SPLIT),
        fix_for("kv-wider-than-needed", _version(SPLIT, "b5142-80f19b41")),
    )
    assert new is not None and new.flag == "-ctk q8_0 -ctv q8_0 -fa on"
    assert old is not None and old.flag == "-ctk q8_0 -ctv q8_0 -fa"


@pytest.mark.parametrize(
    ("version", "flag"),
    [
        ("b11549-abc", "--spec-type draft-simple --spec-draft-model DRAFT.gguf --spec-draft-n-max 8"),
        ("b0-unknown", "--spec-type draft-simple --spec-draft-model DRAFT.gguf --spec-draft-n-max 8"),
        ("b6000-abc", "-md DRAFT.gguf --draft-max 8"),
    ],
)
def test_speculation_is_spelled_as_the_build_takes_it(version: str, flag: str) -> None:
    fix = fix_for("no-speculation", _version(SPLIT, version))
    assert fix is not None and fix.flag == flag


def test_harmful_speculation_goes_out_of_the_command() -> None:
    launched = Figure(
        "llama-server -m a --spec-type draft-simple -md d.gguf --spec-draft-n-max 8 -np 2", "", Origin.READ
    )
    fix = fix_for("harmful-speculation", replace(SPLIT, launch_command=launched))
    assert fix is not None and fix.command == "llama-server -m a -np 2"


@pytest.mark.parametrize(
    ("code", "known", "flag"),
    [
        ("too-few-slots", {"slots": 64}, "--max-num-seqs 64"),
        ("small-context", {"context": 32768}, "--max-model-len 32768"),
        ("kv-wider-than-needed", {}, "--kv-cache-dtype fp8"),
        ("state-float32", {}, "--mamba-ssm-cache-dtype float16"),
        ("reasoning-leak", {}, "--reasoning-parser qwen3"),
        ("tool-calls-in-text", {}, "--enable-auto-tool-choice --tool-call-parser hermes"),
        (
            "tool-calls-in-text",
            {"text": "<tool_call>\n<function=f>"},
            "--enable-auto-tool-choice --tool-call-parser qwen3_xml",
        ),
        ("prefix-cache-off", {}, "--enable-prefix-caching"),
        ("harmful-speculation", {}, "without --speculative-config"),
        ("schema-not-enforced", {"cured_by_off": True}, '"chat_template_kwargs": {"enable_thinking": false}'),
    ],
)
def test_vllm_flags(code: str, known: dict[str, Any], flag: str) -> None:
    fix = fix_for(code, facts("vllm", version="0.32.0", model="Qwen/Qwen3-8B"), **known)
    assert fix is not None and fix.flag == flag


def test_the_state_flag_says_what_the_other_flag_does_not_do() -> None:
    fix = fix_for("state-float32", facts("vllm", launch_command="vllm serve m --mamba-cache-dtype float16"))
    assert fix is not None
    assert "--mamba-cache-dtype alone changes only the small convolution part" in str(fix.reason)
    assert fix.command == "vllm serve m --mamba-cache-dtype float16 --mamba-ssm-cache-dtype float16"
    assert "0.32.0" in str(fix.checked_on) and "0.17.1" in str(fix.checked_on)


@pytest.mark.parametrize(("version", "parser"), [("0.32.0", "qwen3_xml"), ("0.10.1", "qwen3_coder")])
def test_the_tool_parser_is_one_that_the_version_has(version: str, parser: str) -> None:
    fix = fix_for("tool-calls-in-text", facts("vllm", version=version, model="Qwen/Qwen3-Coder-30B-A3B-Instruct"))
    assert fix is not None and fix.flag.endswith(f" {parser}")


def test_ollama_by_environment_and_not_at_all_for_forced_architectures() -> None:
    launched = facts(
        "ollama", slots=1, context_per_slot=4096, launch_command="ollama serve", extra={"architecture": "llama"}
    )
    fix = fix_for("too-few-slots", launched, slots=8)
    assert (
        fix is not None and fix.flag == "OLLAMA_NUM_PARALLEL=8" and fix.command == "OLLAMA_NUM_PARALLEL=8 ollama serve"
    )
    forced = facts("ollama", slots=1, context_per_slot=4096, extra={"architecture": "qwen3next"})
    other = fix_for("too-few-slots", forced, slots=8)
    assert other is not None and other.flag == "llama-server -m MODEL.gguf -np 8 -c 32768"
    assert "whatever OLLAMA_NUM_PARALLEL says" in str(other.reason)


@pytest.mark.parametrize(
    ("engine", "code", "flag"),
    [
        ("sglang", "too-few-slots", "--max-running-requests 16"),
        ("sglang", "state-float32", "--mamba-ssm-dtype bfloat16"),
        ("ollama", "prompt-truncated", "OLLAMA_CONTEXT_LENGTH=8192"),
        ("lm-studio", "too-few-slots", "lms load MODEL --parallel 16"),
        ("mlx-lm", "too-few-slots", "--decode-concurrency 16 (without --kv-bits and --draft-model)"),
        ("tensorrt-llm", "too-few-slots", "--max_batch_size 16"),
        ("llama-cpp-python", "too-few-slots", "llama-server -m MODEL.gguf -np 16 -c 65536"),
        ("openai-compatible", "buffering-proxy", "proxy_buffering off;"),
        ("mlx-lm", "n-ignored", "several requests with n = 1"),
    ],
)
def test_other_engines(engine: str, code: str, flag: str) -> None:
    fix = fix_for(code, facts(engine), slots=16)
    assert fix is not None and fix.flag == flag


def test_nothing_known_is_no_fix() -> None:
    assert fix_for("too-few-slots", facts("openai-compatible"), slots=16) is None
    assert fix_for("no-such-code", SPLIT) is None


def test_every_command_can_be_read_again_and_holds_the_change() -> None:
    launched = replace(
        SPLIT, launch_command=Figure("llama-server -m a -c 8192 --no-cache-prompt -n 64", "", Origin.READ)
    )
    codes = (
        "too-few-slots",
        "small-context",
        "kv-wider-than-needed",
        "reasoning-leak",
        "prefix-cache-off",
        "partial-offload",
    )
    for code in codes:
        fix = fix_for(code, launched, slots=8, context=4096)
        assert fix is not None and fix.command is not None and fix.command != launched.launch_command.value, code
        assert parse_launch(fix.command).engine == "llama.cpp"


def _version(base: ServerFacts, version: str) -> ServerFacts:
    return replace(base, version=Figure(version, "", Origin.READ))
