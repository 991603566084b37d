"""The tensors of a safetensors model, single or sharded, from the headers alone.

Form: huggingface/safetensors `README.md`, "Format": 8 bytes of length, that much JSON, then the data without holes.
Sizes are checked before anything is read, and how much the JSON holds before it is decoded.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from widelane.errors import UnreadableModel
from widelane.facts.files.damage import cut_off, damaged, shown
from widelane.facts.files.regular_file import open_regular, read_some, read_whole, size_of
from widelane.facts.files.tensor_types import TensorInfo, safetensors_bytes

HEADER_LIMIT_BYTES = 16 << 20
"""Longest header that is read. The format itself allows 100 MB, which no model comes near."""
INDEX_LIMIT_BYTES = 48 << 20
_MOST_TENSORS = 300_000
"""In all shards together. A model of 10^12 parameters in NVFP4 has 280,000: each expert's matrix with three scales."""
_MOST_TENSORS_IN_FILE = 100_000
_MOST_VALUES = 1_000_000
"""Commas in a header before it is decoded; one tensor of two dimensions has four or five."""
_MOST_SHARDS = 4096
_LENGTH = struct.Struct("<Q")


_Size = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class _Entry(msgspec.Struct, frozen=True, gc=False):
    """One tensor, or the `__metadata__` beside them, whose own keys are passed over."""

    dtype: str | None = None
    shape: Annotated[tuple[_Size, ...], msgspec.Meta(max_length=16)] | None = None
    data_offsets: tuple[_Size, _Size] | None = None


class _IndexMetadata(msgspec.Struct, frozen=True):
    total_size: int | float | str | None = None


class _Index(msgspec.Struct, frozen=True):
    weight_map: dict[str, str]
    metadata: _IndexMetadata | None = None


class SafetensorsIndex(msgspec.Struct, frozen=True):
    """What `model.safetensors.index.json` says.

    Attributes:
        files: the shards it names, sorted; beside the index.
        total_bytes: of all tensors, None when it does not say.
    """

    files: tuple[Path, ...]
    total_bytes: int | None


def read_safetensors(path: Path) -> tuple[TensorInfo, ...]:
    """Tensors of a `.safetensors` file, or of all shards that a `.safetensors.index.json` names.

    Raises:
        UnreadableModel: not in this form, cut off, damaged, or a shard is missing.
    """
    if path.name.endswith(".json"):
        return read_shards(read_index(path).files)
    return read_shards([path])


def read_shards(files: Sequence[Path]) -> tuple[TensorInfo, ...]:
    """Tensors of several files that are one model.

    Raises:
        UnreadableModel: as `read_safetensors`; or two of them hold the same tensor.
    """
    tensors: list[TensorInfo] = []
    for file in files:
        tensors += _read_header(file, most=_MOST_TENSORS - len(tensors))
    seen: set[str] = set()
    for tensor in tensors:
        if tensor.name in seen:
            raise UnreadableModel(
                f"{files[0].parent} holds the tensor {tensor.name[:80]!r} twice, so its files are not one model.\n"
                "Name the file that is meant, or the index."
            )
        seen.add(tensor.name)
    return tuple(tensors)


def read_index(path: Path) -> SafetensorsIndex:
    """The shards that an index names; they need not be there.

    Raises:
        UnreadableModel: no index, or it names files outside its own folder.
    """
    data = read_whole(path, limit_bytes=INDEX_LIMIT_BYTES)
    if data.count(b'"') > 4 * _MOST_TENSORS + 100:
        raise UnreadableModel(f"{path} names more than {_MOST_TENSORS:,} tensors, far more than any model has.")
    try:
        index = msgspec.json.decode(data, type=_Index)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableModel(f"{path} is no index of safetensors files: {error}.") from error
    names = sorted(set(index.weight_map.values()))
    if not names or len(names) > _MOST_SHARDS:
        raise UnreadableModel(f"{path} names {len(names):,} files; between 1 and {_MOST_SHARDS:,} are expected.")
    for name in names:
        if not _is_plain(name):
            raise UnreadableModel(
                f"{path} names {name[:80]!r}, which is no safetensors file in its own folder. Not read."
            )
    return SafetensorsIndex(tuple(path.with_name(name) for name in names), _total(index.metadata))


def _is_plain(name: str) -> bool:
    return name.endswith(".safetensors") and not any(sign in name for sign in "/\\\0") and len(name) <= 255


def _total(metadata: _IndexMetadata | None) -> int | None:
    """Some writers state it as a float or a text."""
    stated = metadata.total_size if metadata else None
    try:
        total = int(stated) if stated is not None else 0
    except (ValueError, OverflowError):
        return None
    return total if total > 0 else None


# --- one file


def _read_header(path: Path, *, most: int) -> list[TensorInfo]:
    with open_regular(path) as file:
        size = size_of(file)
        opening = read_some(file, path, _LENGTH.size)
        if len(opening) < _LENGTH.size:
            raise UnreadableModel(f"{path} is no safetensors file: it has {size:,} bytes.")
        (length,) = _LENGTH.unpack(opening)
        if length > min(size - _LENGTH.size, HEADER_LIMIT_BYTES):
            raise UnreadableModel(
                f"{path} is no whole safetensors file: it has {size:,} bytes and claims a header of {length:,} "
                f"(at most {HEADER_LIMIT_BYTES:,} are read).\nIt is cut off, damaged or another kind of file."
            )
        header = read_some(file, path, length)
    return _placed(_decoded(header, path, most=most), path, data_bytes=size - _LENGTH.size - length)


def _decoded(header: bytes, path: Path, *, most: int) -> dict[str, _Entry]:
    most = min(most, _MOST_TENSORS_IN_FILE)
    # Counted first, because decoded JSON can take thirty times its own bytes.
    if header.count(b",") > _MOST_VALUES or header.count(b"{") > most + 2:
        raise damaged(path, "its header holds far more tensors than any model has")
    try:
        entries = msgspec.json.decode(header, type=dict[str, _Entry])
    except (msgspec.DecodeError, RecursionError) as error:
        raise damaged(path, f"its header is not of the safetensors form: {error}") from error
    entries.pop("__metadata__", None)
    return entries


def _placed(entries: dict[str, _Entry], path: Path, *, data_bytes: int) -> list[TensorInfo]:
    """The tensors in the order of the data, which they must fill without holes."""
    reached = 0
    tensors: list[TensorInfo] = []
    alike: dict[tuple[str, tuple[int, ...]], int | None] = {}  # a model has few different ones
    for name, entry in sorted(entries.items(), key=lambda item: item[1].data_offsets or (0, 0)):
        kind, shape, offsets = entry.dtype, entry.shape, entry.data_offsets
        if kind is None or shape is None or offsets is None:
            raise damaged(path, f"{shown(name)} lacks its type, shape or place")
        begin, end = offsets
        if end > data_bytes:
            raise cut_off(path, name, end=end, data_bytes=data_bytes)
        if begin != reached or end < begin:
            raise damaged(path, f"{shown(name)} lies at {begin:,} to {end:,}, and the one before ends at {reached:,}")
        if (kind, shape) not in alike:
            alike[kind, shape] = safetensors_bytes(kind, shape)
        expected = alike[kind, shape]
        if expected is not None and expected != end - begin:
            words = f"{shown(name)} of type {shown(kind)} and shape {shape}"
            raise damaged(path, f"{words} takes {expected:,} bytes, the header gives it {end - begin:,}")
        tensors.append(TensorInfo(name, shape, sys.intern(kind), end - begin))
        reached = end
    if reached != data_bytes:
        raise damaged(path, f"its tensors take {reached:,} bytes, and {data_bytes:,} follow the header")
    return tensors
