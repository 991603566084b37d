"""llama.cpp: what its endpoints hide, and the difference between a shared and a split pool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.data_path import MISSING
from tests.engines.recordings import by_hand, folders, recorded
from widelane.engines.detect import detect
from widelane.engines.engine import Hints
from widelane.engines.hints import LocalProcess
from widelane.engines.llama_cpp import LlamaCpp
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Origin
from widelane.testing.recorded_server import load_recording


def props(slots: int, context: int) -> dict[str, Any]:
    return {"total_slots": slots, "default_generation_settings": {"n_ctx": context}}


def models(context: int, trained: int) -> dict[str, Any]:
    meta = {"n_ctx": context, "n_ctx_train": trained}
    return {"data": [{"id": "m.gguf", "owned_by": "llamacpp", "meta": meta}]}


async def facts_of(slots: int, context: int, trained: int, **hints: Any) -> ServerFacts:
    """Facts of a server with these numbers; the replies have the recorded form."""
    replies = {"/props": props(slots, context), "/v1/models": models(context, trained)}
    return await LlamaCpp(by_hand("llama.cpp", replies)).facts(Hints(**hints))


async def test_a_start_without_np_is_four_slots_that_share_one_pool() -> None:
    facts = await facts_of(4, 8192, 8192, launch="llama-server -m m.gguf -c 8192")
    assert facts.slots.value == 4 and "-np is not set" in str(facts.slots.reason)
    assert facts.unified_pool.value is True
    assert facts.pool_tokens.value == 8192


async def test_an_explicit_np_splits_the_context() -> None:
    facts = await facts_of(4, 2048, 8192, launch="llama-server -m m.gguf -np 4 -c 8192")
    assert facts.unified_pool.value is False
    assert facts.pool_tokens.value == 8192


async def test_np_with_kv_unified_shares_again() -> None:
    facts = await facts_of(4, 8192, 8192, launch="llama-server -m m.gguf -np 4 -c 8192 --kv-unified")
    assert (facts.unified_pool.value, facts.unified_pool.origin) == (True, Origin.READ)


@pytest.mark.parametrize(
    ("slots", "context", "trained", "unified"),
    [
        (1, 2048, 8192, False),  # nothing to share
        (16, 2048, 8192, False),  # sixteen were asked for
        (4, 8192, 8192, True),  # the default start
        (4, 2048, 8192, None),  # -np 4 -c 0 and -c 2048 look the same
    ],
)
async def test_without_launch_line_or_log_the_pool_is_inferred_or_unknown(
    slots: int, context: int, trained: int, unified: bool | None
) -> None:
    facts = await facts_of(slots, context, trained)
    assert facts.unified_pool.value is unified
    if unified is not None:
        assert facts.unified_pool.origin is Origin.INFERRED


async def test_the_kv_type_is_not_told_over_http() -> None:
    facts = await facts_of(4, 8192, 8192)
    assert facts.kv_dtype.value is None
    assert "--launch" in str(facts.kv_dtype.reason) and "--log" in str(facts.kv_dtype.reason)


async def test_the_kv_type_is_on_the_launch_line() -> None:
    both = await facts_of(4, 8192, 8192, launch="llama-server -m m -ctk q8_0 -ctv q8_0")
    mixed = await facts_of(4, 8192, 8192, launch="llama-server -m m --cache-type-k=q8_0")
    assert (both.kv_dtype.value, both.kv_dtype.origin) == ("q8_0", Origin.READ)
    assert mixed.kv_dtype.value == "q8_0/f16"


async def test_the_process_that_owns_the_port_tells_the_same_with_its_environment() -> None:
    process = LocalProcess(
        pid=7,
        argv=("llama-server", "-m", "m.gguf"),
        environ={"LLAMA_ARG_CACHE_TYPE_K": "q4_0", "LLAMA_ARG_N_PARALLEL": "4"},
    )
    facts = await facts_of(4, 2048, 8192, process=process)
    assert facts.kv_dtype.value == "q4_0/f16"
    assert facts.unified_pool.value is False
    assert str(facts.launch_command.value).endswith("llama-server -m m.gguf")


async def test_a_launch_line_of_another_engine_is_left_aside() -> None:
    facts = await facts_of(4, 8192, 8192, launch="vllm serve m --max-num-seqs 64")
    assert facts.slots.value == 4 and facts.kv_dtype.value is None
    assert "vllm" in str(facts.launch_command.reason)


async def test_a_launch_line_that_contradicts_the_server_is_named_not_believed() -> None:
    facts = await facts_of(4, 2048, 8192, launch="llama-server -m m.gguf -np 16 -c 8192")
    assert facts.slots.value == 4 and "but 16 on the launch line" in str(facts.slots.reason)


@pytest.fixture
def gauges_of() -> Any:
    async def read(folder: Path, prefer: str) -> Any:
        return await (await detect(recorded(folder, prefer=prefer))).gauges()

    return read


BUSY = [f for f in folders() if "llama_cpp" in f.parts and (f / "metrics_busy.txt").exists()]


@pytest.mark.parametrize("folder", BUSY or [None], ids=lambda f: f.name if f else "none")
async def test_a_busy_server_shows_running_and_waiting(folder: Path | None, gauges_of: Any) -> None:
    if folder is None:
        pytest.skip(MISSING)
    notes = [e.note for e in load_recording(folder).exchanges if e.name == "metrics_busy.txt"]
    in_flight, slots = (int(word) for word in notes[0].split() if word.isdigit())
    gauges = await gauges_of(folder, "metrics_busy")
    assert gauges.running <= slots
    assert gauges.running + gauges.waiting <= in_flight
    assert gauges.waiting > 0


async def test_slots_count_what_runs_where_metrics_are_off() -> None:
    slots = [{"id": 0, "is_processing": True}, {"id": 1, "is_processing": False}]
    server = by_hand("llama.cpp", {"/slots": slots})
    gauges = await LlamaCpp(server).gauges()
    assert gauges.running == 1
    assert gauges.waiting is None


def test_request_fields() -> None:
    engine = LlamaCpp(by_hand("llama.cpp", {}))
    assert engine.forced_text('say "hi"') == {"grammar": 'root ::= "say \\"hi\\""'}
    assert engine.fixed_length(64) == {"ignore_eos": True, "n_predict": 64}
    assert engine.no_prefix_cache() == {"cache_prompt": False}
    assert engine.thinking_off() == {"chat_template_kwargs": {"enable_thinking": False}}


def speculating() -> list[Path]:
    return [f for f in folders() if "--spec-type" in load_recording(f).made_with.get("args", "")]


@pytest.mark.parametrize("folder", speculating() or [None], ids=lambda f: f.name if f else "none")
async def test_speculation_is_seen_although_props_says_none(folder: Path | None) -> None:
    if folder is None:
        pytest.skip(MISSING)
    kind = load_recording(folder).made_with["args"].split("--spec-type ")[1].split()[0]
    facts = await (await detect(recorded(folder))).facts()
    assert (facts.speculation.value, facts.speculation.origin) == (kind, Origin.READ)
