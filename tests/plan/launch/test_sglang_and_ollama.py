"""SGLang by flags, Ollama by its environment; and Ollama's models that run one request at a time."""

import pytest

from tests.plan.launch.samples import DENSE, XML_TEMPLATE, flags_of, left_out, model, planned, reason_of, value_of
from widelane.errors import UsageError


def test_sglangs_command() -> None:
    plan = planned(
        model(template=XML_TEMPLATE),
        "sglang",
        model="Qwen/Qwen3.6-27B",
        kv_dtype="fp8",
        state_dtype="float16",
        draft_depth=2,
        memory_utilization=0.8,
    )
    assert plan.command == (
        "python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-27B --host 127.0.0.1 --port 30000 "
        "--max-running-requests 16 --context-length 16384 --mem-fraction-static 0.8 --kv-cache-dtype fp8_e4m3 "
        "--mamba-ssm-dtype bfloat16 --tool-call-parser qwen3_coder --reasoning-parser qwen3 "
        "--speculative-algorithm NEXTN --speculative-num-steps 2 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 3 --enable-metrics"
    )


def test_sglang_drafts_with_a_small_model_too() -> None:
    plan = planned(DENSE, "sglang", model="m/m", draft_depth=4, draft_model="Qwen/Qwen3-0.6B")
    assert value_of(plan, "--speculative-algorithm") == "STANDALONE"
    assert value_of(plan, "--speculative-draft-model-path") == "Qwen/Qwen3-0.6B"
    assert value_of(plan, "--speculative-num-draft-tokens") == "5"


def test_sglang_leaves_out_what_it_decides_well() -> None:
    plan = planned(model(), "sglang", model="m/m")
    assert {"--mem-fraction-static", "--kv-cache-dtype", "--mamba-ssm-dtype"} <= set(left_out(plan))
    assert not {"--mem-fraction-static", "--kv-cache-dtype", "--mamba-ssm-dtype"} & flags_of(plan)


def test_ollama_is_set_by_its_environment() -> None:
    plan = planned(DENSE, "ollama", model="/models/my model.gguf", slots=8, context_tokens=5000, kv_dtype="q8_0")
    assert plan.command == (
        "OLLAMA_HOST=127.0.0.1:11434 OLLAMA_NUM_PARALLEL=8 OLLAMA_CONTEXT_LENGTH=5120 OLLAMA_KV_CACHE_TYPE=q8_0 "
        "OLLAMA_FLASH_ATTENTION=1 OLLAMA_KEEP_ALIVE=-1 OLLAMA_MAX_LOADED_MODELS=1 ollama serve"
    )
    assert plan.afterwards == (
        "printf 'FROM %s\\n' '/models/my model.gguf' > Modelfile",
        "ollama create qwen3-8b -f Modelfile",
    )
    assert "8 times that is allocated" in reason_of(plan, "OLLAMA_CONTEXT_LENGTH")


@pytest.mark.parametrize("architecture", ["qwen3_5", "qwen35moe", "qwen3_next", "nemotron_h", "lfm2"])
def test_ollama_runs_some_models_one_request_at_a_time_and_the_command_says_so(architecture: str) -> None:
    plan = planned(model(architecture=architecture), "ollama", slots=8)
    assert "OLLAMA_NUM_PARALLEL" not in flags_of(plan)
    assert "one request at a time whatever it says" in left_out(plan)["OLLAMA_NUM_PARALLEL"]
    assert any("Plan with --engine llama.cpp" in note for note in plan.notes)


def test_one_session_on_such_a_model_needs_no_warning() -> None:
    assert not any("llama.cpp" in note for note in planned(model(), "ollama", slots=1, model="x").notes)


def test_an_ollama_without_the_variable_is_told_by_a_modelfile() -> None:
    plan = planned(DENSE, "ollama", model="qwen3:8b", version="0.5.7")
    assert "OLLAMA_CONTEXT_LENGTH" not in flags_of(plan)
    assert plan.notes == ("Before 0.5.13 only `PARAMETER num_ctx 16384` in a Modelfile sets it.",)
    assert plan.afterwards == ("ollama pull qwen3:8b",)


def test_ollama_reached_from_elsewhere_is_warned_of() -> None:
    plan = planned(DENSE, "ollama", host="0.0.0.0")
    assert "Ollama knows no key" in reason_of(plan, "OLLAMA_HOST") and "firewall" in reason_of(plan, "OLLAMA_HOST")


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ("qwen3:8b", "ollama pull qwen3:8b"),
        ("Qwen/Qwen3-8B-GGUF", "ollama pull hf.co/Qwen/Qwen3-8B-GGUF"),
        ("Qwen/Qwen3-8B", "ollama pull qwen3-8b"),
        (None, "ollama pull qwen3-8b"),
    ],
)
def test_ollama_is_told_the_model_once_it_answers(given: str | None, command: str) -> None:
    plan = planned(DENSE, "ollama", model=given)
    assert plan.afterwards == (command,)
    assert bool(plan.notes) == (command == "ollama pull qwen3-8b")  # then it is a guess, and says so


def test_a_cache_that_an_engine_cannot_have_is_refused() -> None:
    for engine, dtype in (("ollama", "q5_1"), ("sglang", "q4_0")):
        with pytest.raises(UsageError, match="no KV cache type"):
            planned(DENSE, engine, kv_dtype=dtype)


def test_ollama_listens_on_an_ipv6_address_in_brackets() -> None:
    plan = planned(DENSE, "ollama", model="/m.gguf", host="::1")
    assert next(one.value for one in plan.environ if one.flag == "OLLAMA_HOST") == "[::1]:11434"


def test_a_name_that_ollama_is_to_pull_is_quoted() -> None:
    assert planned(DENSE, "ollama", model="a;b $(id)").afterwards == ("ollama pull 'a;b $(id)'",)
