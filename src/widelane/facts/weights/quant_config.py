"""The format of a checkpoint's weights as its config states it: `quantization_config`, MLX `quantization`, or a dtype.

Understood: fp8 (block and tensor), compressed-tensors, ModelOpt (NVFP4, FP8, mixed), mxfp4 (gpt-oss), AWQ, GPTQ,
AutoRound, bitsandbytes, and MLX. Which modules stay in bf16 is read from the lists of exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from widelane.facts.shapes.config_keys import ConfigKeys
from widelane.facts.weights.quant import BF16, Format, find_format, format_of, linears_only, uniform

_EXCEPTIONS = ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers", "modules_to_not_quantize")
_MIXERS = ("attn", "attention", "mamba", "mixer", "linear_attn")
_SMALL_PARTS = ("in_proj_a", "in_proj_b", "in_proj_ba", "conv1d", "gate")
_LONG_LIST = 16
"""More exceptions than this of one kind are one for each layer."""
_SHARED = ("shared_expert", "shared_mlp", "mlp.gate_proj", "mlp.down_proj", "re:.*mlp\\.(gate|up")


def stated_format(config: Mapping[str, object], keys: ConfigKeys) -> Format | None:
    """The format that a config states, None when it says nothing of it."""
    top = ConfigKeys(config, source=keys.source, assumed=keys.assumed)
    for holder in (top, keys):
        section = holder.section("quantization_config", "quantization", "compression_config")
        found = _of_section(section) if section is not None else None
        if found is not None:
            return found
    dtype = top.text("dtype", "torch_dtype") or keys.text("dtype", "torch_dtype")
    return find_format(dtype) if dtype else None


def _of_section(section: ConfigKeys) -> Format | None:
    method = (section.text("quant_method", "quant_library") or "").lower()
    bits = section.maybe("bits", "w_bit", "weight_bits")
    group = section.maybe("group_size", "q_group_size") if section.number("group_size") != -1 else 0
    algorithm = section.text("quant_algo")
    nested = section.section("quantization")
    if algorithm is None and nested is not None:
        algorithm = nested.text("quant_algo")
    if method == "mxfp4":
        return format_of("mxfp4")
    if algorithm:
        return _spared(_of_algorithm(algorithm), section)
    if method == "compressed-tensors":
        return _spared(_compressed(section), section)
    if method in {"fp8", "fbgemm_fp8"}:
        return _spared(format_of("fp8"), section)
    if method == "bitsandbytes":
        return format_of("nf4" if section.flag("load_in_4bit", "_load_in_4bit") else "w8a8")
    if not method and bits:
        return _mlx(section, bits, group)
    if bits:
        return _spared(_grouped(f"int{bits}", bits, group), section)
    return None if not method else find_format(method)


def _of_algorithm(word: str) -> Format:
    """ModelOpt's `quant_algo`."""
    name = word.upper()
    if "NVFP4" in name or "MIXED" in name:
        return format_of("nvfp4")
    if "FP8" in name:
        return format_of("fp8")
    return format_of("int4" if "W4" in name or "INT4" in name else "w8a8")


def _compressed(section: ConfigKeys) -> Format:
    """compressed-tensors: the first group of weights decides."""
    groups = section.section("config_groups")
    words = groups.first_section() if groups is not None else None
    weights = words.section("weights") if words is not None else None
    if weights is None:
        return find_format(section.text("format") or "") or format_of("fp8")
    bits = weights.maybe("num_bits") or 8
    if weights.text("type") == "float":
        return linears_only("nvfp4", 4.5) if bits == 4 else format_of("fp8")
    return _grouped(f"int{bits}", bits, weights.maybe("group_size"))


def _grouped(name: str, bits: int, group: int | None) -> Format:
    """Integer weights with a 16-bit scale and a zero point for each group."""
    scales = (16 + bits) / group if group else 0.0
    return replace(linears_only(name, bits + scales), draft=BF16)


def _mlx(section: ConfigKeys, bits: int, group: int | None) -> Format:
    """MLX quantises every matrix, embedding and output included; affine groups hold a scale and a bias of 16 bits."""
    mode = section.text("mode") or "affine"
    if mode != "affine":
        return uniform(mode, bits + 8 / (group or 32))
    return uniform(f"{bits}bit", bits + 32 / (group or 64))


def _spared(made: Format, section: ConfigKeys) -> Format:
    """The format without the modules that the config leaves in bf16."""
    listed = [word.lower() for name in _EXCEPTIONS for word in section.words(name) or ()]
    words = [word for word in listed if "vis" not in word]
    if _spare(words, _MIXERS):
        made = replace(made, mixers=BF16)
    if _spare(words, _SHARED):
        made = replace(made, mlps=BF16)
    if any("mtp" in word or "nextn" in word for word in words):
        made = replace(made, draft=BF16)
    return made


def _spare(words: list[str], signs: tuple[str, ...]) -> bool:
    """Whether exceptions name a kind of module as a whole: by a pattern, a bare name, or a long list by layer.

    Small parts that every format spares (decay and gate projections, convolutions) do not count.
    """
    named = [word for word in words if any(sign in word for sign in signs) and not word.endswith(_SMALL_PARTS)]
    return len(named) > _LONG_LIST or any("*" in word or "." not in word for word in named)
