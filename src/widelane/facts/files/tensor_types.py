"""One tensor as a file's header describes it, and how many bytes each element type takes.

Block sizes are those of ggml (`ggml.h`: `enum ggml_type`, `ggml-common.h`) and of safetensors
(`safetensors/src/tensor.rs`: `enum Dtype`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor.

    Attributes:
        shape: outermost dimension first, as in PyTorch and safetensors (a GGUF file holds them the other way round). A
            matrix is (rows out, columns in); experts are the first dimension of their stack.
        type: `Q4_K`, `F32`, `BF16`, `F8_E4M3`, …; `type-137` where this ggml type has no name here.
        bytes: what it takes in the file, without padding.
    """

    name: str
    shape: tuple[int, ...]
    type: str
    bytes: int

    @property
    def elements(self) -> int:
        """Stored elements: of packed 4-bit weights in an integer tensor, the integers."""
        return math.prod(self.shape)


class GgmlType(NamedTuple):
    """A ggml element type: `block_elements` elements of a row take `block_bytes` bytes together."""

    name: str
    block_elements: int
    block_bytes: int


GGML_TYPES: dict[int, GgmlType] = {
    0: GgmlType("F32", 1, 4),
    1: GgmlType("F16", 1, 2),
    2: GgmlType("Q4_0", 32, 18),
    3: GgmlType("Q4_1", 32, 20),
    6: GgmlType("Q5_0", 32, 22),
    7: GgmlType("Q5_1", 32, 24),
    8: GgmlType("Q8_0", 32, 34),
    9: GgmlType("Q8_1", 32, 36),
    10: GgmlType("Q2_K", 256, 84),
    11: GgmlType("Q3_K", 256, 110),
    12: GgmlType("Q4_K", 256, 144),
    13: GgmlType("Q5_K", 256, 176),
    14: GgmlType("Q6_K", 256, 210),
    15: GgmlType("Q8_K", 256, 292),
    16: GgmlType("IQ2_XXS", 256, 66),
    17: GgmlType("IQ2_XS", 256, 74),
    18: GgmlType("IQ3_XXS", 256, 98),
    19: GgmlType("IQ1_S", 256, 50),
    20: GgmlType("IQ4_NL", 32, 18),
    21: GgmlType("IQ3_S", 256, 110),
    22: GgmlType("IQ2_S", 256, 82),
    23: GgmlType("IQ4_XS", 256, 136),
    24: GgmlType("I8", 1, 1),
    25: GgmlType("I16", 1, 2),
    26: GgmlType("I32", 1, 4),
    27: GgmlType("I64", 1, 8),
    28: GgmlType("F64", 1, 8),
    29: GgmlType("IQ1_M", 256, 56),
    30: GgmlType("BF16", 1, 2),
    # Q4_0 and IQ4_NL in repacked order: no longer written, but files of 2024 hold them.
    31: GgmlType("Q4_0_4_4", 32, 18),
    32: GgmlType("Q4_0_4_8", 32, 18),
    33: GgmlType("Q4_0_8_8", 32, 18),
    34: GgmlType("TQ1_0", 256, 54),
    35: GgmlType("TQ2_0", 256, 66),
    36: GgmlType("IQ4_NL_4_4", 32, 18),
    37: GgmlType("IQ4_NL_4_8", 32, 18),
    38: GgmlType("IQ4_NL_8_8", 32, 18),
    39: GgmlType("MXFP4", 32, 17),
    40: GgmlType("NVFP4", 64, 36),
    41: GgmlType("Q1_0", 128, 18),
}
"""Number in the file → type. A number that is not here is no error: the tensor's bytes follow from the offsets."""

SAFETENSORS_BITS: dict[str, int] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""Bits of one element by safetensors' word for its type."""


def ggml_bytes(kind: GgmlType, shape: tuple[int, ...]) -> int | None:
    """Bytes of a tensor of a ggml type; None when its rows are not whole blocks."""
    row = shape[-1] if shape else 1
    if row % kind.block_elements:
        return None
    return math.prod(shape) // kind.block_elements * kind.block_bytes


def safetensors_bytes(word: str, shape: tuple[int, ...]) -> int | None:
    """Bytes of a tensor of a safetensors type; None when the type is not known or does not fill whole bytes."""
    bits = SAFETENSORS_BITS.get(word)
    total = None if bits is None else math.prod(shape) * bits
    return None if total is None or total % 8 else total // 8
