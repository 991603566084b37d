"""Turn a quantised GGUF model into float32, once.

With float32 weights a small model's decode step is ruled by reading weights, as on a GPU, so that two CPU cores
show real width; quantised, the same model is soon compute-bound.

Every key and value is copied byte for byte (tokenizer, chat template, …); only `general.file_type` changes.
Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from widelane.engines.cache_files import Progress, raise_if_stopped, replacing, require_space
from widelane.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

HEADER_BYTES: Final = 24  # magic, version, number of tensors, number of keys
ALL_F32: Final = 0  # LLAMA_FTYPE_ALL_F32 in llama.h, GGML_TYPE_F32 in ggml.h
PIECE_BYTES: Final = 16 << 20  # output written at a time: what bounds the memory
FLOAT_BYTES: Final = 4


def dequantise(
    source: Path, target: Path, *, progress: Progress | None = None, stop: threading.Event | None = None
) -> None:
    """Write `source` with float32 weights to `target`, which appears whole or not at all.

    Memory stays near 200 MB beside the mapped source, whatever its size (measured with a vocabulary of 49152).
    `progress` gets bytes of the new file.

    Raises:
        UsageError: the `gguf` package is missing, the model is split, big-endian or of a type that the package
            cannot read, or the disk has too little room.
        Stopped: `stop` was set; nothing is left behind.
    """
    reader = _open(source)
    tensors = list(reader.tensors)
    _require_readable(source, tensors)
    alignment = int(reader.alignment)
    header = _header(reader, tensors, alignment)
    total_bytes = len(header) + sum(_padded(_output_bytes(tensor), alignment) for tensor in tensors)
    require_space(target.parent, total_bytes, what="The model in float32")
    done_bytes = len(header)
    with replacing(target) as part, part.open("wb") as file:
        file.write(header)
        for tensor in tensors:
            for piece in _pieces(tensor):
                raise_if_stopped(stop)
                file.write(piece)
                done_bytes += len(piece)
                if progress is not None:
                    progress(done_bytes, total_bytes)
            done_bytes += _pad(file, _output_bytes(tensor), alignment)
    if progress is not None:
        progress(total_bytes, total_bytes)


def _open(source: Path) -> Any:
    try:
        import gguf
    except ImportError as error:
        raise UsageError(
            'Float32 weights need the `gguf` package.\nInstall it with: python -m pip install "widelane[embedded]"'
        ) from error
    try:
        reader = gguf.GGUFReader(source)
    except (ValueError, IndexError, KeyError) as error:
        raise UsageError(f"{source} is not a whole GGUF model: {error}") from error
    if not reader.tensors:
        raise UsageError(f"{source} holds no weights (a vocabulary only?).")
    if reader.byte_order != "I":
        raise UsageError(f"{source} has another byte order than this machine: it cannot be converted.")
    split = reader.get_field("split.count")
    if split is not None and int(split.contents()) > 1:
        raise UsageError(f"{source} is one part of a split model.\nJoin the parts with llama-gguf-split --merge first.")
    return reader


def _require_readable(source: Path, tensors: list[Any]) -> None:
    """Find a type that cannot be read before anything is written."""
    seen = {tensor.tensor_type: tensor for tensor in tensors if not _kept(tensor)}
    for tensor in seen.values():
        try:
            _as_float32(_rows(tensor)[:1], tensor.tensor_type)
        except NotImplementedError as error:
            raise UsageError(
                f"{source} has weights of type {tensor.tensor_type.name}, which the `gguf` package cannot read.\n"
                "Use another quantisation of the model, or update the package."
            ) from error


def _header(reader: Any, tensors: list[Any], alignment: int) -> bytes:
    """Everything before the weights: counts, the copied keys and values, the new table of tensors, padding."""
    start = min(tensor.field.offset for tensor in tensors)
    head = bytearray(reader.data[:start])
    file_type = reader.get_field("general.file_type")
    if file_type is not None:
        # A key is: length (8 bytes), name, type (4 bytes), then the value.
        value_at = file_type.offset + 8 + len("general.file_type") + 4
        struct.pack_into("<I", head, value_at, ALL_F32)
    offset = 0
    for tensor in tensors:
        name = tensor.name.encode()
        shape = [int(size) for size in tensor.shape]
        kind = int(tensor.tensor_type) if _kept(tensor) else ALL_F32
        head += struct.pack("<Q", len(name)) + name
        head += struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        offset += _padded(_output_bytes(tensor), alignment)
    return bytes(head) + b"\0" * (_padded(len(head), alignment) - len(head))


def _kept(tensor: Any) -> bool:
    """Whether the tensor is copied as it is: float32 already, or no weights (indices, masks)."""
    return str(tensor.tensor_type.name) in {"F32", "F64", "I8", "I16", "I32", "I64"}


def _output_bytes(tensor: Any) -> int:
    return int(tensor.n_bytes) if _kept(tensor) else int(tensor.n_elements) * FLOAT_BYTES


def _rows(tensor: Any) -> np.ndarray[Any, Any]:
    """The tensor's data as a matrix: one row of weights a line, blocks left together."""
    data: np.ndarray[Any, Any] = tensor.data
    return data.reshape(-1, data.shape[-1])


def _pieces(tensor: Any) -> Iterator[memoryview]:
    """The tensor's new content, a bounded number of bytes at a time."""
    rows = _rows(tensor)
    row_bytes = max(1, _output_bytes(tensor) // rows.shape[0])
    step = max(1, PIECE_BYTES // row_bytes)
    for start in range(0, rows.shape[0], step):
        piece = rows[start : start + step]
        floats = piece if _kept(tensor) else _as_float32(piece, tensor.tensor_type)
        yield memoryview(floats.tobytes())


def _as_float32(rows: np.ndarray[Any, Any], kind: Any) -> np.ndarray[Any, Any]:
    from gguf import quants

    return quants.dequantize(rows, kind).astype("<f4", copy=False)


def _padded(size: int, alignment: int) -> int:
    return math.ceil(size / alignment) * alignment


def _pad(file: BinaryIO, written: int, alignment: int) -> int:
    missing = _padded(written, alignment) - written
    file.write(b"\0" * missing)
    return missing
