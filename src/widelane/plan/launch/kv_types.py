"""What each engine calls the types of a KV cache; a type known by another engine's word is translated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from widelane.errors import UsageError


class KvTypes(NamedTuple):
    """The words of one engine: those it takes, its default, and what others call them."""

    words: tuple[str, ...]
    default: str
    translated: Mapping[str, str]


_16_BITS = ("f16", "fp16", "bf16", "float16", "bfloat16")
_FP8 = ("fp8", "q8_0", "q8")
KV_TYPES: Mapping[str, KvTypes] = {
    "llama.cpp": KvTypes(
        ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"),
        "f16",
        {"fp8": "q8_0", "q8": "q8_0", "q4": "q4_0", "fp16": "f16", "float16": "f16", "bfloat16": "bf16"},
    ),
    "vllm": KvTypes(
        ("auto", "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4"),
        "auto",
        {**dict.fromkeys(_16_BITS, "auto"), **dict.fromkeys(_FP8, "fp8")},
    ),
    "sglang": KvTypes(
        ("auto", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1"),
        "auto",
        {**dict.fromkeys(_16_BITS, "auto"), **dict.fromkeys(_FP8, "fp8_e4m3")},
    ),
    "ollama": KvTypes(
        ("f16", "q8_0", "q4_0"),
        "f16",
        {**dict.fromkeys(_16_BITS, "f16"), **dict.fromkeys(_FP8, "q8_0"), "q4": "q4_0"},
    ),
}


def kv_type(engine: str, dtype: str | None) -> str:
    """The engine's word for a KV type; None and `auto` are its default.

    Raises:
        UsageError: it has none.
    """
    types = KV_TYPES[engine]
    word = (dtype or "auto").lower()
    word = types.default if word == "auto" else types.translated.get(word, word)
    if word not in types.words:
        raise UsageError(f"{engine} has no KV cache type {dtype!r}; it has {', '.join(types.words)}")
    return word
