"""vLLM: dtypes by label, sequences by launch line or log, and fields by version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data_path import DATA, MISSING
from tests.engines.recordings import by_hand, files
from widelane.engines.engine import Hints
from widelane.engines.vllm import Vllm
from widelane.figures import Origin
from widelane.plan.launch.versions import version_of

LABELS = {"cache_dtype": "auto", "kv_cache_size_tokens": "1000", "enable_prefix_caching": "True", "block_size": "16"}


def metrics(**labels: str) -> str:
    pairs = ",".join(f'{name}="{value}"' for name, value in {**LABELS, **labels}.items())
    return f"vllm:cache_config_info{{{pairs}}} 1.0\nvllm:num_requests_waiting 0\n"


def server(model: str = "m", text: str = "") -> Any:
    listed = {"data": [{"id": model, "owned_by": "vllm", "max_model_len": 4096}]}
    return by_hand("vllm", {"/version": {"version": "0.32.0"}, "/v1/models": listed, "/metrics": text or metrics()})


def pools() -> list[tuple[Path, dict[str, Any]]]:
    """Each measured pool with the metrics text of the same name."""
    found = []
    for path in files("pools.json"):
        for pool in json.loads(path.read_text())["pools"]:
            text = path.parent / f"metrics_{pool['name']}.txt"
            if text.exists():
                found.append((text, pool))
    return found


@pytest.mark.parametrize(("path", "pool"), pools() or [(None, {})], ids=lambda value: str(getattr(value, "stem", "")))
async def test_hybrid_pools_state_type_and_tokens_are_those_of_the_labels(
    path: Path | None, pool: dict[str, Any]
) -> None:
    if path is None:
        pytest.skip(MISSING)
    facts = await Vllm(by_hand("vllm", {"/metrics": path.read_text()})).facts(
        Hints(launch=f"vllm serve m {pool['args']}")
    )
    assert (facts.pool_tokens.value, facts.pool_tokens.origin) == (pool["log_kv_cache_tokens"], Origin.READ)
    assert facts.extra["kv_cache_max_concurrency"].value == pool["log_max_concurrency"]
    assert facts.extra["block_size"].value == pool["attention_block_size"]
    ssm, conv = pool["labels"]["mamba_ssm_cache_dtype"], pool["labels"]["mamba_cache_dtype"]
    assert facts.state_dtype.value == (ssm if ssm != "auto" else conv)
    assert facts.extra["mamba_cache_dtype"].value == conv


@pytest.mark.parametrize(("path", "pool"), pools() or [(None, {})], ids=lambda value: str(getattr(value, "stem", "")))
async def test_a_float32_state_halves_the_pool_of_the_same_model(path: Path | None, pool: dict[str, Any]) -> None:
    """The measured pools say which state type was in force; the reading must agree with the size."""
    if path is None or DATA is None:
        pytest.skip(MISSING)
    facts = await Vllm(by_hand("vllm", {"/metrics": path.read_text()})).facts()
    largest = max(other["log_kv_cache_tokens"] for _, other in pools())
    assert (facts.state_dtype.value == "float32") is (pool["log_kv_cache_tokens"] < largest)


async def test_a_dense_model_has_no_state_type() -> None:
    facts = await Vllm(
        server(text=metrics(mamba_block_size="None", mamba_cache_mode="none", mamba_ssm_cache_dtype="auto"))
    ).facts()
    assert facts.state_dtype.value is None and "no recurrent state" in str(facts.state_dtype.reason)


async def test_auto_means_float32_for_families_whose_checkpoints_say_so() -> None:
    text = metrics(
        mamba_block_size="16", mamba_cache_mode="align", mamba_ssm_cache_dtype="auto", mamba_cache_dtype="float16"
    )
    facts = await Vllm(server("Qwen/Qwen3.5-27B", text)).facts()
    assert (facts.state_dtype.value, facts.state_dtype.origin) == ("float32", Origin.INFERRED)
    assert facts.extra["mamba_cache_dtype"].value == "float16"
    assert facts.extra["draft_head"].value is True


async def test_the_number_of_sequences_is_assumed_with_its_range_when_nothing_tells_it() -> None:
    facts = await Vllm(server()).facts()
    assert (facts.slots.value, facts.slots.origin, facts.slots.low, facts.slots.high) == (
        256,
        Origin.ASSUMED,
        128,
        1024,
    )
    assert "1024" in str(facts.slots.reason) and "--launch" in str(facts.slots.reason)


async def test_on_a_cpu_the_default_is_128() -> None:
    facts = await Vllm(server()).facts(Hints(launch="VLLM_CPU_KVCACHE_SPACE=1 vllm serve m"))
    assert (facts.slots.value, facts.slots.origin) == (128, Origin.ASSUMED)


async def test_kv_auto_is_named_by_the_models_type() -> None:
    plain = await Vllm(server()).facts()
    named = await Vllm(server()).facts(Hints(launch="vllm serve m --dtype=half"))
    fp8 = await Vllm(server(text=metrics(cache_dtype="fp8"))).facts()
    assert [figure.kv_dtype.value for figure in (plain, named, fp8)] == ["auto", "float16", "fp8"]


async def test_blocks_times_size_is_the_pool_of_older_versions() -> None:
    text = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="100",cache_dtype="auto"} 1.0'
    facts = await Vllm(server(text=text)).facts()
    assert facts.pool_tokens.value == 1600


LOGS = [path for path in files("startup_logs/*.log") if "vllm" in path.parts]


@pytest.mark.parametrize("path", LOGS or [None], ids=lambda p: p.stem if p else "none")
async def test_a_start_log_tells_sequences_and_parsers(path: Path | None) -> None:
    if path is None:
        pytest.skip(MISSING)
    text = path.read_text()
    facts = await Vllm(server()).facts(Hints(log=text))
    for name, figure in (("max_num_seqs", facts.slots), ("reasoning_parser", facts.reasoning_parser)):
        line = next(line for line in text.splitlines() if "non-default args" in line)
        if f"'{name}'" in line:
            assert figure.origin is Origin.READ and f"'{name}': {figure.value!r}" in line
        else:
            assert figure.value in (128, False)
    spec = facts.speculation.value
    assert spec == ("ngram" if "speculative_config" in text else False)


async def test_gauges_accept_old_and_underscored_names() -> None:
    text = "vllm_num_requests_running 3\nvllm:num_requests_waiting 2\n"
    text += "vllm:gpu_cache_usage_perc 0.5\nvllm:num_preemptions 4\n"
    gauges = await Vllm(server(text=text)).gauges()
    assert (gauges.running, gauges.waiting, gauges.kv_usage, gauges.preemptions_total) == (3, 2, 0.5, 4)


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        ("0.32.0", {"structured_outputs": {"choice": ["Hi"]}}),
        ("0.11.0", {"structured_outputs": {"choice": ["Hi"]}}),
        ("0.10.2", {"guided_choice": ["Hi"]}),
        (None, {"structured_outputs": {"choice": ["Hi"]}}),
    ],
)
def test_forced_text_follows_the_version(version: str | None, fields: dict[str, Any]) -> None:
    assert Vllm(server(), version=version).forced_text("Hi") == fields


def test_request_fields() -> None:
    engine = Vllm(server())
    assert engine.fixed_length(32) == {"min_tokens": 32, "ignore_eos": True}
    assert engine.no_prefix_cache() == {}


def test_versions_are_compared_as_numbers() -> None:
    assert version_of("0.32.0+cpu") == (0, 32, 0)
    assert version_of("0.9.1") < version_of("0.11")  # type: ignore[operator]
    assert version_of("dev") is None
