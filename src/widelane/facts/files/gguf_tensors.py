"""A GGUF tensor table made whole: the bytes of each tensor, held against their offsets and the file's size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from widelane.facts.files.damage import cut_off, damaged, shown
from widelane.facts.files.tensor_types import GGML_TYPES, TensorInfo, ggml_bytes


class PlacedTensor(NamedTuple):
    """One line of the table. `kind` is the number of its ggml type, `offset` counts from the start of the data."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


def tensors_of(table: Sequence[PlacedTensor], *, data_bytes: int, path: Path) -> tuple[TensorInfo, ...]:
    """The tensors in the order of the table.

    A type without a known size (of a newer llama.cpp, or of a fork) takes what lies between its offset and the next.

    Raises:
        UnreadableModel: a name comes twice, rows are not whole blocks, tensors overlap, or one ends behind the file.
    """
    if len({tensor.name for tensor in table}) < len(table):
        raise damaged(path, f"{shown(_twice(table))} is in its tensor table twice")
    by_offset = sorted(range(len(table)), key=lambda index: table[index].offset)
    found: list[TensorInfo | None] = [None] * len(table)
    ends = data_bytes
    for index in reversed(by_offset):
        name, shape, number, offset = table[index]
        kind = GGML_TYPES.get(number)
        size = ends - offset if kind is None else ggml_bytes(kind, shape)
        if size is None:
            word = GGML_TYPES[number].name
            raise damaged(path, f"{shown(name)} of shape {shape} cannot be of type {word}, whose rows are whole blocks")
        if offset + max(0, size) > data_bytes:
            raise cut_off(path, name, end=offset + max(0, size), data_bytes=data_bytes)
        if offset + size > ends:
            raise damaged(path, f"its tensor {shown(name)} overlaps the next one")
        found[index] = TensorInfo(name, shape, kind.name if kind else f"type-{number}", size)
        ends = offset
    return tuple(tensor for tensor in found if tensor is not None)


def _twice(table: Sequence[PlacedTensor]) -> str:
    seen: set[str] = set()
    for tensor in table:
        if tensor.name in seen:
            return tensor.name
        seen.add(tensor.name)
    raise AssertionError("no name comes twice")
