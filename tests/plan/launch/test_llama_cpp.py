"""llama.cpp's command: slots with the context they need, a cache that starts, flags of the right build."""

import pytest

from tests.plan.launch.samples import DENSE, flags_of, left_out, model, planned, reason_of, value_of
from widelane.errors import UsageError
from widelane.plan.launch.choice import Accelerator
from widelane.plan.launch.llama_cpp import with_threads
from widelane.plan.report import Use

GGUF = "/models/qwen3.6-27b-q4_k_m.gguf"


def test_slots_come_with_the_context_that_all_of_them_need() -> None:
    plan = planned(DENSE, "llama.cpp", model=GGUF, slots=8, context_tokens=5000)
    assert value_of(plan, "-np") == "8"
    assert value_of(plan, "-c") == "40960"  # 5000 is 5120 in steps of 256, times 8
    assert "-np splits it: 8 slots of 5120 tokens each" in reason_of(plan, "-c")
    assert "--kv-unified" not in flags_of(plan)
    assert "fails every running request" in left_out(plan)["--kv-unified"]


def test_a_pool_that_cannot_hold_every_slot_in_full_is_shared_and_says_what_that_risks() -> None:
    plan = planned(DENSE, "llama.cpp", model=GGUF, slots=16, context_tokens=16384, pool_tokens=100_000)
    assert value_of(plan, "-c") == "99840"  # 100,000 rounded down to a multiple of 256
    assert "16 slots of 16384 would need 262144" in reason_of(plan, "-c")
    assert "keep the tokens in flight below 99840" in reason_of(plan, "--kv-unified")
    assert value_of(plan, "--kv-unified-per-slot") == "16384"


def test_a_slot_never_gets_less_than_the_longest_request() -> None:
    plan = planned(DENSE, "llama.cpp", model=GGUF, slots=4, context_tokens=16384, pool_tokens=9000)
    assert value_of(plan, "-c") == "16384"


def test_one_session_has_one_slot_and_a_context_of_its_own() -> None:
    plan = planned(DENSE, "llama.cpp", model=GGUF, slots=1, context_tokens=32768, use=Use.INTERACTIVE, pool_tokens=100)
    assert (value_of(plan, "-np"), value_of(plan, "-c")) == ("1", "32768")
    assert not {"--kv-unified", "--no-kv-unified"} & flags_of(plan)


def test_there_are_at_most_256_slots() -> None:
    plan = planned(DENSE, "llama.cpp", model=GGUF, slots=300, context_tokens=256)
    assert value_of(plan, "-np") == "256"
    assert plan.notes == ("llama.cpp has at most 256 slots; 300 were wanted.",)


@pytest.mark.parametrize(
    ("dtype", "word"), [("q8_0", "q8_0"), ("fp8", "q8_0"), ("q4_0", "q4_0"), ("bf16", "bf16"), ("F32", "f32")]
)
def test_the_cache_is_named_as_llama_cpp_names_it(dtype: str, word: str) -> None:
    plan = planned(DENSE, "llama.cpp", model=GGUF, kv_dtype=dtype)
    assert (value_of(plan, "-ctk"), value_of(plan, "-ctv")) == (word, word)
    assert ("-fa" in flags_of(plan)) == word.startswith("q")


def test_a_quantised_v_comes_with_flash_attention_spelled_as_the_build_takes_it() -> None:
    new = planned(DENSE, "llama.cpp", model=GGUF, kv_dtype="q8_0", version="b11549")
    old = planned(DENSE, "llama.cpp", model=GGUF, kv_dtype="q8_0", version="b6000")
    assert value_of(new, "-fa") == "on" and "-ctv q8_0 -fa on " in new.command
    assert value_of(old, "-fa") is None and "-ctv q8_0 -fa --" in old.command
    assert "refuses to start without it" in reason_of(new, "-fa")


@pytest.mark.parametrize("dtype", [None, "auto", "f16", "float16"])
def test_the_default_cache_is_left_out(dtype: str | None) -> None:
    plan = planned(DENSE, "llama.cpp", model=GGUF, kv_dtype=dtype)
    assert not {"-ctk", "-ctv", "-fa"} & flags_of(plan)
    assert "-ctk, -ctv" in left_out(plan)


def test_an_unknown_cache_type_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"no KV cache type 'q3_0'; it has f32, f16, bf16, q8_0"):
        planned(DENSE, "llama.cpp", model=GGUF, kv_dtype="q3_0")


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (None, "--spec-type draft-simple --spec-draft-model /models/d.gguf --spec-draft-n-max 4"),
        ("b0-unknown", "--spec-type draft-simple --spec-draft-model /models/d.gguf --spec-draft-n-max 4"),
        ("b9000", "--spec-draft-model /models/d.gguf --spec-draft-n-max 4"),
        ("b8000", "-md /models/d.gguf --draft-max 4"),
    ],
)
def test_a_draft_model_is_named_as_the_build_takes_it(version: str | None, words: str) -> None:
    plan = planned(DENSE, "llama.cpp", model=GGUF, version=version, draft_depth=4, draft_model="/models/d.gguf")
    assert words in plan.command


def test_the_models_own_head_drafts_where_the_build_can() -> None:
    plan = planned(model(), "llama.cpp", model=GGUF, draft_depth=2)
    assert "--spec-type draft-mtp --spec-draft-n-max 2" in plan.command
    assert "each slot holds 3 states" in reason_of(plan, "--spec-draft-n-max")  # recurrent: one state a draft and one
    old = planned(model(), "llama.cpp", model=GGUF, draft_depth=2, version="b9000")
    assert "--spec-type" not in flags_of(old) and "since b9180" in left_out(old)["--spec-type draft-mtp"]


def test_a_model_without_a_head_says_so_instead_of_drafting() -> None:
    plan = planned(DENSE, "llama.cpp", model=GGUF, draft_depth=2)
    assert "--spec-type" not in flags_of(plan)
    assert "ships no draft head" in left_out(plan)["--spec-type draft-mtp"]


def test_why_nothing_drafts_depends_on_the_use_and_the_model() -> None:
    alone = planned(DENSE, "llama.cpp", model=GGUF, slots=1, use=Use.INTERACTIVE)
    experts = planned(model(experts=True), "llama.cpp", model=GGUF)
    assert "speed up a single session" in left_out(alone)["--spec-type"]
    assert "visits further experts" in left_out(experts)["--spec-type"]


def test_it_can_be_seen_from_outside_and_reached_only_from_here() -> None:
    plan = planned(DENSE, "llama.cpp", model=GGUF)
    assert "--metrics" in flags_of(plan)
    assert (value_of(plan, "--host"), value_of(plan, "--port")) == ("127.0.0.1", "8080")
    assert "before --host is widened" in left_out(plan)["--api-key"]


def test_a_wider_address_says_how_to_set_a_key_without_showing_it() -> None:
    plan = planned(DENSE, "llama.cpp", model=GGUF, host="0.0.0.0", port=9000)
    assert (value_of(plan, "--host"), value_of(plan, "--port")) == ("0.0.0.0", "9000")
    assert "LLAMA_API_KEY in the server's environment" in left_out(plan)["--api-key"]


def test_all_layers_are_on_the_gpu_and_none_are_spoken_of_on_a_cpu() -> None:
    gpu = planned(DENSE, "llama.cpp", model=GGUF)
    cpu = with_threads(planned(DENSE, "llama.cpp", model=GGUF, accelerator=Accelerator.CPU), 6)
    assert value_of(gpu, "-ngl") == "999"
    assert "-ngl" not in flags_of(cpu) and " -t 6 -np 16 " in cpu.command


def test_older_builds_are_told_what_newer_ones_do_by_themselves() -> None:
    new, old = (planned(DENSE, "llama.cpp", model=GGUF, version=version) for version in ("b11549", "b6000"))
    assert not {"--jinja", "--no-context-shift"} & flags_of(new)
    assert {"--jinja", "--no-context-shift"} <= flags_of(old)


def test_builds_that_take_one_slot_for_the_automatic_four_are_named() -> None:
    between = planned(DENSE, "llama.cpp", model=GGUF, slots=1, version="b7079")
    after = planned(DENSE, "llama.cpp", model=GGUF, slots=1, version="b8000")
    assert "take this 1 for the automatic 4" in reason_of(between, "-np")
    assert "automatic 4" not in reason_of(after, "-np")


def test_a_repository_is_fetched_and_a_missing_file_is_asked_for() -> None:
    fetched = planned(DENSE, "llama.cpp", model="Qwen/Qwen3-8B-GGUF:Q4_K_M")
    nothing = planned(DENSE, "llama.cpp", model="Qwen/Qwen3-8B")  # safetensors: llama.cpp cannot read them
    assert value_of(fetched, "-hf") == "Qwen/Qwen3-8B-GGUF:Q4_K_M"
    assert value_of(nothing, "-m") == "MODEL.gguf"


def test_the_state_of_a_hybrid_model_is_said_to_have_no_flag() -> None:
    assert "f32" in left_out(planned(model(), "llama.cpp", model=GGUF, state_dtype="float16"))["(state type)"]
