"""Writes model files without weights: true headers before sparse data, of any size and on no disk space.

For tests and benchmarks of readers. Nothing is checked: whatever is asked for is written, right or wrong.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from widelane.facts.files.tensor_types import GGML_TYPES, TensorInfo, ggml_bytes, safetensors_bytes

_TYPE_NUMBERS = {kind.name: number for number, kind in GGML_TYPES.items()}
_FORMS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_U32, _I32, _F32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
ALIGNMENT = 32


class Typed(NamedTuple):
    """A metadata number of a stated GGUF type, where the usual one will not do."""

    type: int
    value: int | float | bool


Value = bool | int | float | str | Typed | Sequence[str] | Sequence[int] | Sequence[float]
"""An int is written as uint32, a float as float32; in arrays an int is an int32."""


def tensor(name: str, shape: tuple[int, ...], kind: str) -> TensorInfo:
    """A tensor of a ggml or safetensors type, with its bytes; `shape` is outermost first."""
    number = _TYPE_NUMBERS.get(kind)
    size = safetensors_bytes(kind, shape) if number is None else ggml_bytes(GGML_TYPES[number], shape)
    if size is None:
        raise ValueError(f"{name}: no tensor of type {kind} has the shape {shape}")
    return TensorInfo(name, shape, kind, size)


def gguf_header(metadata: Mapping[str, Value], tensors: Sequence[TensorInfo], *, version: int = 3) -> bytes:
    """The header of a GGUF file, padded to where the data begins."""
    pieces = [struct.pack("<4sIQQ", b"GGUF", version, len(tensors), len(metadata))]
    for key, value in metadata.items():
        pieces += [gguf_text(key), gguf_value(value)]
    offset = 0
    for each in tensors:
        shape = each.shape[::-1]
        place = struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, _TYPE_NUMBERS[each.type], offset)
        pieces += [gguf_text(each.name), place]
        offset += _padded(each.bytes)
    header = b"".join(pieces)
    return header.ljust(_padded(len(header)), b"\0")


def write_gguf(
    path: Path, metadata: Mapping[str, Value], tensors: Sequence[TensorInfo] = (), *, version: int = 3
) -> Path:
    """A GGUF file whose weights are a hole."""
    header = gguf_header(metadata, tensors, version=version)
    return write_sparse(path, header, data_bytes=sum(_padded(each.bytes) for each in tensors))


def write_safetensors(path: Path, tensors: Iterable[TensorInfo], *, metadata: Mapping[str, str] | None = None) -> Path:
    """A safetensors file whose weights are a hole."""
    entries: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    offset = 0
    for each in tensors:
        offsets = [offset, offset + each.bytes]
        entries[each.name] = {"dtype": each.type, "shape": each.shape, "data_offsets": offsets}
        offset += each.bytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    return write_sparse(path, struct.pack("<Q", len(text)) + text, data_bytes=offset)


def write_sparse(path: Path, header: bytes, *, data_bytes: int) -> Path:
    """A file that begins with `header` and goes on as a hole."""
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + data_bytes)
    return path


def gguf_text(text: str | bytes) -> bytes:
    """A string as GGUF writes it: its length, then its bytes."""
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def gguf_value(value: Value) -> bytes:
    """A metadata value with its type before it."""
    if isinstance(value, Typed):
        return struct.pack(f"<I{_FORMS[value.type]}", value.type, value.value)
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + gguf_text(value)
    if isinstance(value, bool):
        return struct.pack("<I?", _BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", _U32, value)
    if isinstance(value, float):
        return struct.pack("<If", _F32, value)
    return struct.pack("<I", _ARRAY) + _array(value)


def _array(values: Sequence[str] | Sequence[int] | Sequence[float]) -> bytes:
    first = values[0] if values else ""
    if isinstance(first, str):
        return struct.pack("<IQ", _STRING, len(values)) + b"".join(gguf_text(str(value)) for value in values)
    kind = _BOOL if isinstance(first, bool) else _I32 if isinstance(first, int) else _F32
    return struct.pack(f"<IQ{len(values)}{_FORMS[kind]}", kind, len(values), *values)


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
