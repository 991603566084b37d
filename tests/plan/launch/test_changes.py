"""Borders between versions: the first that has a change, and what counts as new."""

import pytest

from widelane.plan.launch.changes import (
    FLASH_ATTENTION_VALUE,
    SPECULATIVE_CONFIG,
    XML_PARSER,
    mtp_method,
    no_draft_model,
)
from widelane.plan.launch.versions import build_of, is_version, version_of


@pytest.mark.parametrize(
    ("version", "has"),
    [("b6329", False), ("b6330", True), ("6330", True), ("b11549-abc", True), ("b0-unknown", True), (None, True)],
)
def test_builds_of_llama_cpp(version: str | None, has: bool) -> None:
    assert FLASH_ATTENTION_VALUE.is_in(version) is has


@pytest.mark.parametrize(
    ("version", "has"),
    [("0.8.2", False), ("0.8.3", True), ("0.10.0", True), ("v0.32.0", True), ("dev", True), (None, True)],
)
def test_releases_of_vllm(version: str | None, has: bool) -> None:
    assert SPECULATIVE_CONFIG.is_in(version) is has


def test_a_border_is_written_as_a_person_writes_it() -> None:
    assert (FLASH_ATTENTION_VALUE.since_text, XML_PARSER.since_text) == ("b6330", "0.11.1")


def test_older_methods_go_by_architecture_or_name() -> None:
    assert mtp_method("0.10.0", "Qwen3-Next-80B-A3B-Instruct") == "qwen3_next_mtp"
    assert mtp_method("0.10.0", "something_else") == "mtp"
    assert mtp_method("0.32.0", "deepseek_v3") == "mtp"


def test_numbers_that_are_no_version_are_none() -> None:
    assert build_of("b" + "9" * 5000) is None and version_of("9" * 5000 + ".1") is None


@pytest.mark.parametrize(
    ("engine", "text", "understood"),
    [
        ("vllm", "0.20.0", True),
        ("vllm", "v0.21.0rc1", True),
        ("vllm", "garbage", False),
        ("vllm", "0,9", False),
        ("vllm", "", False),
        ("llama.cpp", "b9180", True),
        ("llama.cpp", "11549 (abc)", True),
        ("llama.cpp", "0.9.1", False),
        ("ollama", "b9180", False),
    ],
)
def test_a_version_that_a_person_may_name(engine: str, text: str, understood: bool) -> None:
    assert is_version(engine, text) is understood


@pytest.mark.parametrize(
    ("engine", "version", "takes"),
    [
        ("ollama", None, False),
        ("vllm", "0.12", False),
        ("vllm", "0.15", True),
        ("vllm", None, True),
        ("sglang", "0.5", True),
    ],
)
def test_which_engines_draft_with_a_model_of_ones_own(engine: str, version: str | None, takes: bool) -> None:
    assert (no_draft_model(engine, version) is None) is takes
