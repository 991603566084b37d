"""Which files in a folder are the model."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from widelane.errors import UnreadableModel
from widelane.facts.files.gguf_header import split_stem

INDEX_NAME = "model.safetensors.index.json"
_MOST_ENTRIES = 10_000
_MOST_FOLDERS = 64
_NO_MODEL = ("mmproj", "imatrix")
"""GGUF files beside a model that are none: the vision tower, and statistics for quantising."""
_NO_WEIGHTS = ("adapter_", "consolidated")
"""safetensors beside a checkpoint that are not part of it: a LoRA, and Mistral's own form of the same weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """What a folder holds of a model.

    Attributes:
        config: its `config.json`.
        index: its index of safetensors shards; then `weights` is empty.
        weights: its safetensors files.
        gguf: its GGUF models, one path each: of a split model the first file.
    """

    config: Path | None
    index: Path | None
    weights: tuple[Path, ...]
    gguf: tuple[Path, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.config or self.index or self.weights or self.gguf)


def look_into(folder: Path) -> ModelFolder:
    """What a folder holds. GGUF models are also found one folder deeper, where a quantisation has a folder of its own.

    Raises:
        UnreadableModel: it cannot be listed, or has far too many entries.
    """
    entries = _entries(folder)
    names = {path.name: path for path in entries}
    index = names.get(INDEX_NAME) or next((path for name, path in names.items() if name.endswith(".index.json")), None)
    weights = [path for path in entries if path.suffix == ".safetensors"]
    kept = [path for path in weights if not path.name.startswith(_NO_WEIGHTS)]
    gguf = _models_in(entries)
    if not gguf:
        below = itertools.islice((path for path in entries if path.is_dir()), _MOST_FOLDERS)
        gguf = _models_in(itertools.chain.from_iterable(_entries(path) for path in below))
    return ModelFolder(
        config=names.get("config.json"), index=index, weights=() if index else tuple(kept or weights), gguf=gguf
    )


def choose_gguf(candidates: Sequence[Path], folder: Path, quant: str | None) -> tuple[Path, bool]:
    """The GGUF model that is meant, and whether `quant` told it apart by its name.

    Raises:
        UnreadableModel: there are several, and `quant` does not say which.
    """
    named = [path for path in candidates if quant and _names(path, quant)]
    if len(named) == 1:
        return named[0], True
    if len(candidates) == 1:
        return candidates[0], False
    left = named or candidates
    listed = ", ".join(path.name for path in left[:8]) + (", …" if len(left) > 8 else "")
    raise UnreadableModel(
        f"{folder} holds {len(left)} GGUF models{f' of {quant}' if named else ''}: {listed}.\n"
        "Name the file, or say which quantisation is meant (such as q4_k_m)."
    )


def _names(path: Path, quant: str) -> bool:
    """Whether the file's name has the quantisation as a word of its own; `q4` is also in `Q4_K_M`."""
    word = re.escape(quant.lower().replace("-", "_"))
    return re.search(f"(?<![a-z0-9]){word}(?![a-z0-9])", path.name.lower().replace("-", "_")) is not None


def _models_in(entries: Iterable[Path]) -> tuple[Path, ...]:
    """One path a model, in the order of names: of the files of a split model only the first that is there."""
    models: dict[Path, Path] = {}
    for path in entries:
        if path.suffix.lower() == ".gguf" and not any(word in path.name.lower() for word in _NO_MODEL):
            models.setdefault(path.with_name(split_stem(path.name) or path.name), path)
    return tuple(models.values())


def _entries(folder: Path) -> list[Path]:
    try:
        entries = sorted(itertools.islice(folder.iterdir(), _MOST_ENTRIES + 1))
    except OSError as error:
        raise UnreadableModel(f"The folder {folder} cannot be read: {error.strerror or error}.") from error
    if len(entries) > _MOST_ENTRIES:
        raise UnreadableModel(f"{folder} has more than {_MOST_ENTRIES:,} entries; name the model file itself.")
    return entries
