"""Sizes and names of cache types."""

from __future__ import annotations

import pytest

from widelane.errors import UsageError
from widelane.plan.pool.dtypes import cache_dtypes, check_cache_dtype, dtype_name, element_bytes


@pytest.mark.parametrize(
    ("dtype", "block_bytes"),
    [
        ("f32", 128),
        ("float16", 64),
        ("bfloat16", 64),
        ("fp8", 32),
        ("fp8_e5m2", 32),
        ("q8_0", 34),
        ("q5_1", 24),
        ("q5_0", 22),
        ("q4_1", 20),
        ("q4_0", 18),
        ("iq4_nl", 18),
        ("nvfp4", 18),
    ],
)
def test_bytes_of_32_elements(dtype: str, block_bytes: int) -> None:
    assert element_bytes(dtype) * 32 == block_bytes


def test_one_name_for_all_spellings() -> None:
    assert {dtype_name(text) for text in ("f16", "FP16", "half", " float16 ")} == {"f16"}
    assert dtype_name("auto") == "auto"


def test_an_unknown_type_names_what_is_near() -> None:
    with pytest.raises(UsageError, match="Did you mean q8_0"):
        element_bytes("q8_01")
    with pytest.raises(UsageError, match="Known: f32"):
        element_bytes("zzzzz")


def test_auto_alone_has_no_size() -> None:
    with pytest.raises(UsageError, match="say which type it stands for"):
        element_bytes("auto")


def test_every_engines_types_have_a_size() -> None:
    for engine in ("vllm", "sglang", "llama.cpp", "ollama"):
        assert cache_dtypes(engine)
        assert all(element_bytes(dtype) > 0 for dtype in cache_dtypes(engine))


def test_a_type_is_checked_against_the_engine() -> None:
    assert check_cache_dtype("vllm", "fp8") == "fp8_e4m3"
    assert check_cache_dtype("vllm", "auto") == "auto"
    with pytest.raises(UsageError, match="ollama has no KV cache of type q4_1: it takes f16, q8_0, q4_0"):
        check_cache_dtype("ollama", "q4_1")
