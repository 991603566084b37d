"""Bytes of one cached element, by the names the engines use for their cache and state types.

Block formats of ggml hold 32 elements: q8_0 is 32 bytes and a 2-byte scale (34/32), q4_0 16 and 2, q4_1 16 and two of
2, q5_0 16 + 4 (fifth bits) + 2, q5_1 24 (ggml-common.h). NVFP4 holds 16 elements in 8 bytes and one of scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from widelane.errors import UsageError

_SPELLINGS: Mapping[str, str] = {
    "float32": "f32",
    "fp32": "f32",
    "float": "f32",
    "float16": "f16",
    "fp16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "fp8": "fp8_e4m3",
    "fp8_inc": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
    "q8": "q8_0",
    "q4": "q4_0",
    "q5": "q5_0",
    "fp4": "fp4_e2m1",
}
"""Other ways to write a type → its name here."""

_BYTES: Mapping[str, float] = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "int8": 1.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
    "nvfp4": 9 / 16,
    "fp4_e2m1": 9 / 16,
}

_BY_ENGINE: Mapping[str, tuple[str, ...]] = {
    "vllm": ("f32", "f16", "bf16", "fp8_e4m3", "fp8_e5m2", "nvfp4"),
    "sglang": ("bf16", "f16", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1"),
    "llama.cpp": ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"),
    "ollama": ("f16", "q8_0", "q4_0"),
}
"""Cache types an engine takes, its default's kin first: vLLM `--kv-cache-dtype`, llama.cpp `-ctk`/`-ctv`, SGLang
`--kv-cache-dtype`, Ollama `OLLAMA_KV_CACHE_TYPE`. vLLM keeps the model's own type with `auto`, so float32 counts."""

AUTO = "auto"


def dtype_name(dtype: str) -> str:
    """The one name of a type: `bfloat16` → `bf16`, `FP8` → `fp8_e4m3`. `auto` stays.

    Raises:
        UsageError: the type is not known.
    """
    lower = dtype.strip().lower()
    name = _SPELLINGS.get(lower, lower)
    if name != AUTO and name not in _BYTES:
        near = get_close_matches(lower, [*_BYTES, *_SPELLINGS], n=3)
        hint = f" Did you mean {' or '.join(near)}?" if near else f" Known: {', '.join(_BYTES)}."
        raise UsageError(f"{dtype!r} is no cache type that this knows the size of.{hint}")
    return name


def element_bytes(dtype: str) -> float:
    """Bytes of one element; block formats count their scales.

    Raises:
        UsageError: the type is not known, or is `auto` (which depends on the model).
    """
    name = dtype_name(dtype)
    if name == AUTO:
        raise UsageError("the cache type auto has a size only together with a model: say which type it stands for.")
    return _BYTES[name]


def cache_dtypes(engine: str) -> tuple[str, ...]:
    """Cache types that an engine takes, empty for an engine of which this is not known."""
    return _BY_ENGINE.get(engine, ())


def check_cache_dtype(engine: str, dtype: str) -> str:
    """The one name of a cache type that this engine takes (`auto` stays).

    Raises:
        UsageError: the engine has no such cache type.
    """
    name, known = dtype_name(dtype), cache_dtypes(engine)
    if name != AUTO and known and name not in known:
        raise UsageError(f"{engine} has no KV cache of type {dtype}: it takes {', '.join(known)}.")
    return name
