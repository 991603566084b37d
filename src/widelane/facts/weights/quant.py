"""Formats of weights: from a word (`fp8`, `q4_k_m`, `awq`) to bits an element of each part of a model.

Bits include block scales. llama.cpp's mixes are the averages of `tools/quantize/README.md` (Llama-3.1-8B); the others
follow from their block sizes: nvfp4 16 elements and an 8-bit scale, mxfp4 32 and 8 bits, int4 in groups of 128 with a
16-bit scale and a 4-bit zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from widelane.errors import UsageError

BF16 = 16.0
_NVFP4 = 4.5
_MXFP4 = 4.25
_INT4 = 4.0 + 20 / 128
_FP8 = 8.0 + 32 / (128 * 128)
_K_OUTPUT = 6.5625
"""Q6_K, in which llama.cpp's mixes of 2 to 6 bits keep the output layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """Bits an element by part of the model, scales included.

    Attributes:
        name: one word, as in `Weights.quant`.
        mixers: attention and recurrent mixers.
        mlps: plain MLPs and shared experts.
        experts: routed experts.
        embedding: the input embedding; a tied one is stored in the wider of this and `output`.
        output: the output layer.
        draft: layers that draft.
        tower: vision and audio towers.
    """

    name: str
    mixers: float
    mlps: float
    experts: float
    embedding: float = BF16
    output: float = BF16
    draft: float = BF16
    tower: float = BF16


def uniform(name: str, bits: float) -> Format:
    """Everything in one type, as plain checkpoints and most GGUF and MLX files are."""
    return Format(name=name, mixers=bits, mlps=bits, experts=bits, embedding=bits, output=bits, draft=bits)


def linears_only(name: str, bits: float, *, draft: float | None = None) -> Format:
    """Linear layers in one type, embedding and output in bf16: what engines' own checkpoints look like."""
    return Format(name=name, mixers=bits, mlps=bits, experts=bits, draft=bits if draft is None else draft)


def _mix(name: str, bits: float, embedding: float) -> Format:
    """A llama.cpp mix: the output layer wider than the rest, the embedding in the base type."""
    return Format(
        name=name,
        mixers=bits,
        mlps=bits,
        experts=bits,
        embedding=embedding,
        output=max(_K_OUTPUT, embedding),
        draft=max(bits, embedding),
    )


_PLAIN = {"f32": 32.0, "bf16": BF16, "f16": 16.0}
_GGUF_TYPES = {"q8_0": 8.5, "q6_k": 6.5625, "q5_1": 6.0, "q5_0": 5.5, "q4_1": 5.0, "q4_0": 4.5, "tq1_0": 1.6875}
_MIXES = {
    "iq1_s": (2.0, 2.625),
    "iq1_m": (2.15, 2.625),
    "iq2_xxs": (2.38, 2.625),
    "iq2_xs": (2.59, 2.625),
    "iq2_s": (2.74, 2.625),
    "iq2_m": (2.93, 2.625),
    "iq3_xxs": (3.25, 3.4375),
    "iq3_xs": (3.5, 3.4375),
    "iq3_s": (3.66, 3.4375),
    "iq3_m": (3.76, 3.4375),
    "iq4_xs": (4.46, 4.25),
    "iq4_nl": (4.68, 4.5),
    "q2_k_s": (2.97, 2.625),
    "q2_k": (3.16, 2.625),
    "q2_k_l": (3.3, 8.5),
    "q3_k_s": (3.64, 3.4375),
    "q3_k_m": (4.0, 3.4375),
    "q3_k_l": (4.3, 3.4375),
    "q4_k_s": (4.67, 4.5),
    "q4_k_m": (4.89, 4.5),
    "q4_k_l": (4.89, 8.5),
    "q4_k_xl": (4.9, 4.5),
    "q5_k_s": (5.57, 5.5),
    "q5_k_m": (5.7, 5.5),
    "q5_k_l": (5.7, 8.5),
    "q5_k_xl": (5.75, 5.5),
    "q6_k_xl": (7.0, 8.5),
    "q8_k_xl": (9.2, 8.5),
    "q2_k_xl": (3.3, 4.5),
    "q3_k_xl": (4.1, 4.5),
    "tq2_0": (2.0625, 4.5),
    "q2_0": (2.125, 4.5),
}
_MLX = {"3bit": 3.5, "4bit": 4.5, "5bit": 5.5, "6bit": 6.5, "8bit": 8.5}

_ALIASES = {
    "fp32": "f32",
    "float32": "f32",
    "fp16": "f16",
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "e4m3": "fp8",
    "float8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_block": "fp8",
    "fp8_dynamic": "fp8",
    "w8a8_fp8": "fp8",
    "fp4": "nvfp4",
    "int8": "w8a8",
    "w8a16": "w8a8",
    "int4": "int4",
    "w4a16": "int4",
    "w4a8": "int4",
    "awq": "int4",
    "awq4": "int4",
    "awq_int4": "int4",
    "gptq": "int4",
    "gptq_int4": "int4",
    "autoround": "int4",
    "auto_round": "int4",
    "bnb_4bit": "nf4",
    "bnb": "nf4",
    "q8": "q8_0",
    "q6": "q6_k",
    "q5": "q5_k_m",
    "q4": "q4_k_m",
    "q3": "q3_k_m",
    "q2": "q2_k",
    "4_bit": "4bit",
    "8_bit": "8bit",
    "6_bit": "6bit",
    "mlx_4bit": "4bit",
    "mlx_8bit": "8bit",
    "mlx_6bit": "6bit",
    "mxfp4_moe": "mxfp4",
}


def _formats() -> dict[str, Format]:
    formats = [uniform(name, bits) for name, bits in {**_PLAIN, **_GGUF_TYPES, **_MLX}.items()]
    formats += [_mix(name, bits, embedding) for name, (bits, embedding) in _MIXES.items()]
    formats += [
        linears_only("fp8", _FP8),
        linears_only("w8a8", 8.0, draft=BF16),
        linears_only("int4", _INT4, draft=BF16),
        linears_only("nf4", 4.127, draft=BF16),
        linears_only("mxfp8", 8.25, draft=BF16),
        # NVIDIA's checkpoints: MLPs and experts in four bits, attention in eight.
        Format(name="nvfp4", mixers=_FP8, mlps=_NVFP4, experts=_NVFP4),
        # gpt-oss: only the routed experts.
        Format(name="mxfp4", mixers=BF16, mlps=BF16, experts=_MXFP4),
    ]
    return {made.name: made for made in formats}


_FORMATS = _formats()
_SEPARATORS = re.compile(r"[\s\-.]+")


def format_names() -> tuple[str, ...]:
    """The words that `format_of` knows, without aliases."""
    return tuple(sorted(_FORMATS))


def format_of(word: str) -> Format:
    """The format that a word means. Case, `-` and a trailing `GGUF` do not matter; text in brackets is ignored.

    Raises UsageError naming the known words.
    """
    found = _FORMATS.get(_named(word))
    if found is None:
        raise UsageError(
            f"The weight format {word!r} is not known. Known are: {', '.join(format_names())}, and the usual other "
            "names of these (awq, gptq, fp16, q4, …)."
        )
    return found


def find_format(word: str) -> Format | None:
    """The format that a note such as `nvfp4 A-nv-marlin` begins with, None where it means nothing here."""
    name = _named(word)
    first = re.split(r"[_/]", name)[0]
    return _FORMATS.get(name) or _FORMATS.get(_ALIASES.get(first, first))


def _named(word: str) -> str:
    """A word in the one spelling of this file."""
    text = re.sub(r"\(.*?\)", " ", word).strip().lower()
    text = _SEPARATORS.sub("_", text).strip("_").removesuffix("_gguf").removeprefix("ud_")
    return _ALIASES.get(text, text)


def format_of_bits(bits: float) -> Format:
    """The common format nearest to an average of `bits` an element, for a size that comes without a word."""
    common = ("f32", "bf16", "fp8", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k")
    return min((_FORMATS[name] for name in common), key=lambda made: abs(made.mlps - bits))
