"""The header of one GGUF file: version, metadata, tensor table.

Form: `ggml/docs/gguf.md`; what is refused here, llama.cpp's own reader (`gguf.cpp`) refuses too. Every count, length
and offset is held against the file's size and a limit before anything is read or kept for it.
"""

from __future__ import annotations

import dataclasses
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from widelane.errors import UnreadableModel
from widelane.facts.files.byte_window import ByteWindow
from widelane.facts.files.damage import damaged, shown
from widelane.facts.files.gguf_tensors import PlacedTensor, tensors_of
from widelane.facts.files.regular_file import open_regular
from widelane.facts.files.tensor_types import TensorInfo

KEPT_NUMBERS = 4096
"""Longest array whose numbers are kept: one a layer, not one a word of the vocabulary."""
_KEPT_TEXT_BYTES = 1 << 20
_LONGEST_KEY_BYTES = 65_535  # gguf.md
_LONGEST_NAME_BYTES = 256  # ggml itself: GGML_MAX_NAME, 64 unless built with more
_MOST_DIMENSIONS = 4  # GGML_MAX_DIMS
_DEFAULT_ALIGNMENT = 32  # GGUF_DEFAULT_ALIGNMENT

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_OPENING = struct.Struct("<4sI")
_COUNTS = struct.Struct("<QQ")
_ARRAY = struct.Struct("<IQ")
_PLACES = tuple(struct.Struct(f"<{n}QIQ") for n in range(_MOST_DIMENSIONS + 1))  # shape, type, offset
_BOOL, _STRING, _ARRAY_TYPE = 7, 8, 9


class _Scalar(NamedTuple):
    name: str
    form: struct.Struct


_SCALARS = {
    0: _Scalar("uint8", struct.Struct("<B")),
    1: _Scalar("int8", struct.Struct("<b")),
    2: _Scalar("uint16", struct.Struct("<H")),
    3: _Scalar("int16", struct.Struct("<h")),
    4: _Scalar("uint32", struct.Struct("<I")),
    5: _Scalar("int32", struct.Struct("<i")),
    6: _Scalar("float32", struct.Struct("<f")),
    _BOOL: _Scalar("bool", struct.Struct("<?")),
    10: _Scalar("uint64", struct.Struct("<Q")),
    11: _Scalar("int64", struct.Struct("<q")),
    12: _Scalar("float64", struct.Struct("<d")),
}
"""`enum gguf_type`, without strings and arrays."""


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """A value that was skipped: how many elements of which type it holds.

    Attributes:
        type: GGUF's word for the elements: `string`, `float32`, `int32`, …; `byte` for a text too long to keep.
    """

    type: str
    count: int


MetadataValue = int | float | bool | str | tuple[int | float | bool, ...] | ArrayInfo
"""Arrays of at most `KEPT_NUMBERS` numbers are kept as tuples, all other arrays as an `ArrayInfo`."""


@dataclass(slots=True)
class GgufLimits:
    """What may still be read of one model, all its files together. Several times what the largest models have."""

    keys: int = 65_536
    tensors: int = 65_536
    strings: int = 2_000_000
    """In arrays. Gemma's vocabulary has 262,144, its merges 514,906."""
    kept_numbers: int = 262_144
    kept_text_bytes: int = 16 << 20


@dataclass(frozen=True, slots=True)
class GgufPart:
    """Header of one file."""

    version: int
    metadata: dict[str, MetadataValue]
    tensors: tuple[TensorInfo, ...]


def read_gguf_part(path: Path, limits: GgufLimits) -> GgufPart:
    """The header of one file. What it holds is taken off `limits`.

    Raises:
        UnreadableModel: no GGUF file of version 2 or 3, cut off, damaged, or beyond the limits.
    """
    with open_regular(path) as file:
        window = ByteWindow(file, path)
        try:
            part, left = _read(window, limits, one_by_one=False)
            # A leap that went wrong shows in what follows: no tensor table that fits the file comes out of nonsense.
            sure = bool(part.tensors) or not window.leapt
        except UnreadableModel:
            if not window.leapt:
                raise
            sure = False
        if not sure:
            part, left = _read(ByteWindow(file, path), limits, one_by_one=True)
    for field in dataclasses.fields(left):
        setattr(limits, field.name, getattr(left, field.name))
    return part


def _read(window: ByteWindow, limits: GgufLimits, *, one_by_one: bool) -> tuple[GgufPart, GgufLimits]:
    """The header, and what is left of the limits; `limits` itself stays as it is."""
    limits = dataclasses.replace(limits)
    reader = _Reader(window, limits, one_by_one=one_by_one)
    version = reader.opening()
    n_tensors, n_keys = window.unpack(_COUNTS)
    reader.spend("keys", n_keys, "metadata keys")
    reader.spend("tensors", n_tensors, "tensors")
    window.reading = "its metadata"
    metadata = reader.metadata(n_keys)
    window.reading = "its tensor table"
    placed = reader.tensor_table(n_tensors)
    alignment = reader.alignment(metadata)
    data_start = -(-window.position // alignment) * alignment
    data_bytes = max(0, window.size - data_start)
    return GgufPart(version, metadata, tensors_of(placed, data_bytes=data_bytes, path=window.path)), limits


class _Reader:
    """Reads the parts of a header, in their order."""

    def __init__(self, window: ByteWindow, limits: GgufLimits, *, one_by_one: bool) -> None:
        self._window = window
        self._limits = limits
        self._one_by_one = one_by_one

    def opening(self) -> int:
        magic, version = self._window.unpack(_OPENING)
        if magic != b"GGUF":
            raise UnreadableModel(f"{self._window.path} is not a GGUF file: it begins with {magic!r}, not b'GGUF'.")
        if version in (2, 3):
            return int(version)
        if version == 1:
            fault = "is of version 1, which llama.cpp no longer reads; convert the model again"
        elif version.to_bytes(4, "big") in (b"\2\0\0\0", b"\3\0\0\0"):
            fault = "was written for big-endian machines; take the ordinary (little-endian) form of the model"
        else:
            fault = f"is of version {version}; versions 2 and 3 are known. It is damaged, or newer than this reader"
        raise UnreadableModel(f"{self._window.path} {fault}.")

    def metadata(self, count: int) -> dict[str, MetadataValue]:
        values: dict[str, MetadataValue] = {}
        for _ in range(count):
            key = self._text(_LONGEST_KEY_BYTES, "a metadata key")
            if key in values:
                raise self._damaged(f"the key {shown(key)} comes twice")
            (kind,) = self._window.unpack(_U32)
            values[key] = self._value(key, kind)
        return values

    def tensor_table(self, count: int) -> list[PlacedTensor]:
        window = self._window
        table: list[PlacedTensor] = []
        for _ in range(count):
            name = self._text(_LONGEST_NAME_BYTES, "a tensor's name")
            (n_dimensions,) = window.unpack(_U32)
            if n_dimensions > _MOST_DIMENSIONS:
                raise self._damaged(f"the tensor {shown(name)} claims {n_dimensions:,} dimensions")
            *shape, kind, offset = window.unpack(_PLACES[n_dimensions])
            shape.reverse()
            table.append(PlacedTensor(name, tuple(shape), kind, offset))
        return table

    def alignment(self, metadata: dict[str, MetadataValue]) -> int:
        value = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if type(value) is int and value > 0 and value & (value - 1) == 0:
            return value
        raise self._damaged("general.alignment is no power of two")

    def spend(self, limit: str, count: int, words: str) -> None:
        """Takes `count` off a limit."""
        left = getattr(self._limits, limit) - count
        if left < 0:
            raise self._damaged(f"it claims {count:,} {words}, far more than any model has")
        setattr(self._limits, limit, left)

    # --- values

    def _value(self, key: str, kind: int) -> MetadataValue:
        if scalar := _SCALARS.get(kind):
            value: MetadataValue = self._window.unpack(scalar.form)[0]
            return value
        if kind == _STRING:
            return self._long_text()
        if kind == _ARRAY_TYPE:
            return self._array(key)
        raise self._damaged(f"the key {shown(key)} has a value of the unknown type {kind}")

    def _array(self, key: str) -> MetadataValue:
        kind, count = self._window.unpack(_ARRAY)
        if kind == _STRING:
            self._require_room(key, count, _U64.size)
            self.spend("strings", count, f"strings in {shown(key)}")
            self._window.skip_strings(count, one_by_one=self._one_by_one)
            return ArrayInfo("string", count)
        scalar = _SCALARS.get(kind)
        if scalar is None:
            what = "arrays" if kind == _ARRAY_TYPE else f"values of the unknown type {kind}"
            raise self._damaged(f"the key {shown(key)} holds an array of {what}")
        self._require_room(key, count, scalar.form.size)
        if count > min(KEPT_NUMBERS, self._limits.kept_numbers):
            self._window.skip(count * scalar.form.size)
            return ArrayInfo(scalar.name, count)
        self._limits.kept_numbers -= count
        numbers: tuple[Any, ...] = struct.unpack(
            f"<{count}{scalar.form.format[1:]}", self._window.take(count * scalar.form.size)
        )
        return numbers

    def _require_room(self, key: str, count: int, least_bytes: int) -> None:
        if count * least_bytes > self._window.remaining:
            raise self._damaged(f"the key {shown(key)} claims {count:,} values, more than the file has room for")

    def _long_text(self) -> MetadataValue:
        (length,) = self._window.unpack(_U64)
        if length > min(_KEPT_TEXT_BYTES, self._limits.kept_text_bytes):
            self._window.skip(length)
            return ArrayInfo("byte", length)
        self._limits.kept_text_bytes -= length
        return self._window.take(length).decode(errors="replace")

    def _text(self, longest: int, what: str) -> str:
        (length,) = self._window.unpack(_U64)
        if length > longest:
            raise self._damaged(f"{what} claims {length:,} bytes")
        return self._window.take(length).decode(errors="replace")

    def _damaged(self, fault: str) -> UnreadableModel:
        window = self._window
        return damaged(window.path, f"in {window.reading}, before byte {window.position:,}, {fault}")
