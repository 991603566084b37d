"""The header of a GGUF model, whole or split into several files: its metadata and its tensors, without the weights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from widelane.errors import UnreadableModel
from widelane.facts.files.gguf_part import ArrayInfo, GgufLimits, GgufPart, MetadataValue, read_gguf_part
from widelane.facts.files.regular_file import open_regular
from widelane.facts.files.tensor_types import TensorInfo

__all__ = ["ArrayInfo", "GgufHeader", "MetadataValue", "read_gguf_header"]

_MOST_FILES = 2048
_SPLIT_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Header of a model.

    Attributes:
        path: the file that was named.
        version: of the format, 2 or 3.
        metadata: of the first file, in the order of the file.
        tensors: of all files together.
        files: all files of the model, in order; one unless it is split.
    """

    path: Path
    version: int
    metadata: Mapping[str, MetadataValue]
    tensors: tuple[TensorInfo, ...]
    files: tuple[Path, ...]


def read_gguf_header(path: Path) -> GgufHeader:
    """Reads the header; of a split model, those of all its files, whichever of them is named.

    Raises:
        UnreadableModel: no GGUF file, cut off, damaged, or a split model whose files do not belong together.
    """
    limits = GgufLimits()
    named = read_gguf_part(path, limits)
    count = named.metadata.get("split.count", 1)
    if type(count) is not int or count <= 1:
        return GgufHeader(path, named.version, named.metadata, named.tensors, (path,))
    files = _files_of_split(path, count)
    parts = [named if file == path else read_gguf_part(file, limits) for file in files]
    _require_one_model(files, parts)
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    return GgufHeader(path, parts[0].version, parts[0].metadata, tensors, files)


def split_stem(name: str) -> str | None:
    """What the names of a split model's files begin with, None for the name of a whole file."""
    found = _SPLIT_NAME.fullmatch(name)
    return found["stem"] if found else None


def gguf_to_load(path: Path) -> Path | None:
    """The file that an engine is told to load: of a split model the first; None where the path is no GGUF file."""
    try:
        with open_regular(path) as file:
            if file.read(4) != b"GGUF":
                return None
    except (UnreadableModel, OSError):
        return None
    found = _SPLIT_NAME.fullmatch(path.name)
    first = path if found is None else path.with_name(path.name.replace(f"-{found['number']}-of-", "-00001-of-"))
    return first if first.is_file() else path


def _files_of_split(path: Path, count: int) -> tuple[Path, ...]:
    found = _SPLIT_NAME.fullmatch(path.name)
    if found is None or int(found["count"]) != count or not 1 <= int(found["number"]) <= count:
        raise UnreadableModel(
            f"{path} is one of {count:,} files of a split model, but its name does not say which: the others cannot be "
            f"found.\nGive it back the name it was published under (…-00001-of-{count:05}.gguf)."
        )
    if count > _MOST_FILES:
        raise UnreadableModel(f"{path} claims to be one of {count:,} files; at most {_MOST_FILES:,} are read.")
    files = [path.with_name(f"{found['stem']}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1)]
    files[int(found["number"]) - 1] = path
    missing = [file.name for file in files if not file.exists()]
    if missing:
        raise UnreadableModel(
            f"{path} is one of {count:,} files of a split model, and {_listed(missing)} not beside it.\n"
            "Fetch all files into one folder."
        )
    return tuple(files)


def _require_one_model(files: Sequence[Path], parts: Sequence[GgufPart]) -> None:
    for number, (file, part) in enumerate(zip(files, parts, strict=True)):
        told = part.metadata.get("split.no"), part.metadata.get("split.count")
        if told != (number, len(parts)):
            raise UnreadableModel(
                f"{file} does not belong here: by its name it is number {number + 1} of {len(parts)}; inside, it says "
                f"split.no {_said(told[0])} and split.count {_said(told[1])}.\nFetch all files of the model again."
            )
    names = [tensor.name for part in parts for tensor in part.tensors]
    stated = parts[0].metadata.get("split.tensors.count", len(names))
    if len(set(names)) < len(names) or stated != len(names):
        raise UnreadableModel(
            f"{files[0]} and the files beside it are no one model: they hold {len(names):,} tensors "
            f"({len(set(names)):,} different ones), the first file says {_said(stated)}.\nFetch all files again."
        )


def _said(value: MetadataValue | None) -> str:
    return repr(value) if isinstance(value, int | float | None) else "something that is no number"


def _listed(missing: Sequence[str]) -> str:
    return f"{missing[0]} is" if len(missing) == 1 else f"{missing[0]} and {len(missing) - 1:,} more are"
