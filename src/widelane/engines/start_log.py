"""The start log of llama.cpp or vLLM → what HTTP hides: KV types and size, unified or split, parsers, batch sizes.

Forms read: llama.cpp b5000 to b11549 (KV types only at raised verbosity, `-lv 5`, in the newest), vLLM 0.6 to 0.32.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StartLog:
    """What a start log says; None where it says nothing.

    Attributes:
        engine: `llama.cpp` or `vllm`, None when the text is no start log of either.
        arguments: vLLM's "non-default args", None when the line is missing; what is not in it has its default.
        context_per_slot: tokens one sequence may hold.
        pool_tokens: tokens the KV cache holds in all.
        kv_types: data types of K and of V.
        state_types: data types of the recurrent state: (convolution, state).
        draft_layers: layers of the model that only draft (multi-token prediction).
        offloaded: layers on the GPU, layers in all.
        refused: the line that says why the server did not start, or died.
    """

    engine: str | None = None
    version: str | None = None
    arguments: Mapping[str, Any] | None = None
    slots: int | None = None
    context_per_slot: int | None = None
    context_trained: int | None = None
    unified: bool | None = None
    automatic_slots: bool = False
    pool_tokens: int | None = None
    max_concurrency: float | None = None
    kv_types: tuple[str, str] | None = None
    kv_bytes: float | None = None
    state_types: tuple[str, str] | None = None
    flash_attention: str | None = None
    batch: int | None = None
    micro_batch: int | None = None
    threads: int | None = None
    layers: int | None = None
    draft_layers: int | None = None
    kv_heads: int | None = None
    weights_bytes: float | None = None
    parameters: float | None = None
    offloaded: tuple[int, int] | None = None
    device: str | None = None
    architecture: str | None = None
    ready: bool = False
    refused: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_VLLM = re.compile(r"non-default args:|vLLM API server version|KV cache size: [\d,]+ tokens|\bvllm\.")
_LLAMA = re.compile(r"llama_context:|llama_kv_cache|print_info:|llm_load|load_model:|n_slots = |llama_new_context")


def read_start_log(text: str) -> StartLog:
    """What the log says. Text that is no start log gives a `StartLog` whose engine is None."""
    if _VLLM.search(text):
        return _vllm(text)
    if _LLAMA.search(text):
        return _llama_cpp(text)
    return StartLog()


def _llama_cpp(text: str) -> StartLog:
    """The first context and cache of the log are the main model's: a draft model's come later."""
    cache = re.search(
        r"size\s*=\s*([\d.]+) (\wiB)\s*\(\s*(\d+) cells,\s*(\d+) layers,\s*(\d+)/\s*(\d+) seqs\),"
        r"\s*K \((\w+)\):.*?V \((\w+)\):",
        text,
    )
    state = re.search(r"R \((\w+)\):.*?S \((\w+)\):", text)
    offloaded = re.search(r"offloaded (\d+)/(\d+) layers to GPU", text)
    unified = _first(text, r"kv_unified\s*=\s*'?(true|false)'?")
    slots = _int(text, r"n_slots = (\d+)", r"n_seq_max\s*=\s*(\d+)")
    layers, all_layers = _int(text, r"n_layer\s*=\s*(\d+)"), _int(text, r"n_layer_all\s*=\s*(\d+)")
    pool = int(cache[3]) * int(cache[6]) if cache else None
    return StartLog(
        engine="llama.cpp",
        version=_first(text, r"build_info: (b\d+-\w+)", r"\bbuild: (\d+ \(\w+\))"),
        slots=slots,
        context_per_slot=_int(
            text, r"n_ctx_slot = (\d+)", r"new slot,? n_ctx = (\d+)", r"n_ctx_(?:seq|per_seq)\s*=\s*(\d+)"
        ),
        context_trained=_int(text, r"n_ctx_train\s*=\s*(\d+)"),
        unified=None if unified is None else unified == "true",
        automatic_slots="n_parallel is set to auto" in text,
        pool_tokens=pool if pool is not None else _int(text, r"llama_context: n_ctx\s*=\s*(\d+)"),
        kv_types=(cache[7], cache[8]) if cache else None,
        kv_bytes=float(cache[1]) * _UNITS[cache[2]] if cache else None,
        state_types=(state[1], state[2]) if state else None,
        flash_attention=_first(text, r"flash_attn\s*=\s*(\w+)"),
        batch=_int(text, r"n_batch\s*=\s*(\d+)"),
        micro_batch=_int(text, r"n_ubatch\s*=\s*(\d+)"),
        threads=_int(text, r"n_threads = (\d+)"),
        layers=layers,
        draft_layers=all_layers - layers if all_layers is not None and layers is not None else None,
        kv_heads=_int(text, r"n_head_kv\s*=\s*(\d+)"),
        weights_bytes=_size(text, r"file size\s*=\s*([\d.]+) (\wiB)"),
        parameters=_size(text, r"model params\s*=\s*([\d.]+) ([KMBT])\b"),
        offloaded=(int(offloaded[1]), int(offloaded[2])) if offloaded else None,
        architecture=_first(text, r"arch\s*=\s*(\S+)"),
        ready=re.search(r"listening on|all slots are idle", text) is not None,
        refused=_first(text, r"(?m)^[\d.]+ E (.*)$", r"(?m)^.*(quantized V cache .*)$"),
    )


def _vllm(text: str) -> StartLog:
    size = re.search(r"(?:(GPU|CPU) )?KV cache size: ([\d,]+) tokens", text)
    concurrency = _first(text, r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x")
    extra = {
        "attention_block_tokens": _first(text, r"Setting attention block size to (\d+) tokens"),
        "mamba_page_padding_pct": _first(text, r"Padding mamba page size by ([\d.]+)%"),
        "mamba_cache_mode": _first(text, r"Mamba cache mode is set to '(\w+)'"),
    }
    return StartLog(
        engine="vllm",
        version=_first(text, r"vLLM API server version (\S+)", r"LLM engine \(v([^)]+)\)"),
        arguments=_arguments(text),
        context_per_slot=_int(text, r"Using max model len (\d+)"),
        pool_tokens=int(size[2].replace(",", "")) if size else None,
        max_concurrency=float(concurrency) if concurrency else None,
        weights_bytes=_size(text, r"[Mm]odel loading took ([\d.]+) (\wiB)"),
        device=size[1].lower() if size and size[1] else None,
        architecture=_first(text, r"Resolved architecture: (\w+)"),
        ready="Application startup complete" in text or "Route: /v1/chat/completions" in text,
        refused=_first(text, r"(?m)^.*ERROR.*?\] (.*Error: .*)$", r"(?m)^(?:\(.*?\) )?(\w*Error: .*)$"),
        extra={name: value for name, value in extra.items() if value is not None},
    )


def _arguments(text: str) -> Mapping[str, Any] | None:
    """The dictionary after "non-default args:". Values that are no plain literals are kept as text."""
    line = _first(text, r"non-default args: (\{.*\})")
    if line is None:
        return None
    try:
        read = ast.literal_eval(line)
    except (ValueError, SyntaxError):
        return dict(re.findall(r"'(\w+)': ('[^']*'|[^,}]+)", line))
    return read if isinstance(read, dict) else None


def _first(text: str, *patterns: str) -> str | None:
    """The first group of the first pattern that is found."""
    found = (re.search(pattern, text) for pattern in patterns)
    return next((match[1] for match in found if match), None)


def _int(text: str, *patterns: str) -> int | None:
    value = _first(text, *patterns)
    return int(value) if value is not None else None


def _size(text: str, pattern: str) -> float | None:
    """A number with a unit, in the unit's base."""
    match = re.search(pattern, text)
    return float(match[1]) * _UNITS[match[2]] if match else None
