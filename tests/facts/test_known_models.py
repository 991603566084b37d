"""Models known by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.data_path import DATA
from widelane.facts.known_models import known_model, known_names
from widelane.facts.shapes.hf_config import model_from_config

_FILES = sorted((DATA / "models").glob("*.json")) if DATA else []


@pytest.mark.parametrize(
    "word", ["Qwen/Qwen3.6-27B", "qwen3.6-27b", " QWEN3.6-27B ", "qwen/qwen3.6-27b", "Qwen3.6-27B-FP8"]
)
def test_case_organisation_and_ending_may_differ(word: str) -> None:
    facts = known_model(word)
    assert facts is not None
    assert facts.name == "Qwen/Qwen3.6-27B"


@pytest.mark.parametrize("word", ["", "qwen", "27b", "org/no-such-model", "/"])
def test_a_name_that_is_not_known_is_none(word: str) -> None:
    assert known_model(word) is None


@pytest.mark.parametrize("name", known_names())
def test_every_known_model_is_understood_whole(name: str) -> None:
    facts = known_model(name)
    assert facts is not None
    assert facts.assumed == ()
    assert facts.context_tokens is not None
    assert facts.kv_elements_per_token + facts.kv_elements_per_token_window > 0
    weights = facts.weights
    assert weights.total_bytes == (
        weights.read_bytes
        + weights.routed_expert_bytes
        + weights.embedding_bytes
        + weights.draft_head_bytes
        + weights.other_bytes
    )


def test_names_are_unique_even_without_their_organisations() -> None:
    short = [name.rsplit("/", 1)[-1].lower() for name in known_names()]
    assert len(set(short)) == len(short)


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_shipped_shapes_are_those_of_the_data(path: Path) -> None:
    config = json.loads(path.read_bytes())
    if config["_model_id"] not in known_names():
        pytest.skip(f"{config['_model_id']} is not shipped")
    known = known_model(config["_model_id"])
    read = model_from_config(config, name="x", source="x")
    assert known is not None
    assert known.parameters == read.parameters
    assert (known.attention, known.recurrent, known.experts) == (read.attention, read.recurrent, read.experts)


def test_the_known_checkpoints_that_are_published_packed_are_packed() -> None:
    gpt_oss, deepseek = known_model("gpt-oss-20b"), known_model("deepseek-v3")
    assert gpt_oss is not None
    assert deepseek is not None
    # 13.75e9 bytes: the experts in MXFP4, all else in bf16.
    assert gpt_oss.weights.quant == "mxfp4"
    assert gpt_oss.weights.total_bytes == 13_747_322_880
    assert deepseek.weights.quant == "fp8"


def test_an_ending_that_names_a_format_is_taken_at_its_word() -> None:
    plain, narrow = known_model("qwen3-8b"), known_model("nvidia/Qwen3-8B-FP8")
    assert plain is not None
    assert narrow is not None
    assert (plain.weights.quant, narrow.weights.quant) == ("bf16", "fp8")
    stated = known_model("qwen3-8b-fp8", quant="q4")
    assert stated is not None
    assert stated.weights.quant == "q4_k_m"
