"""What a model on disk is, from its headers and config alone: a GGUF, safetensors, an index, a config, or a folder."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from widelane.errors import UnreadableModel
from widelane.facts.files.gguf_header import read_gguf_header
from widelane.facts.files.hub_cache import hub_name
from widelane.facts.files.json_file import read_chat_template, read_config
from widelane.facts.files.model_folder import INDEX_NAME, ModelFolder, choose_gguf, look_into
from widelane.facts.files.regular_file import open_regular, read_some
from widelane.facts.files.safetensors_header import read_index, read_shards
from widelane.facts.files.tensor_types import TensorInfo
from widelane.facts.model import ModelFacts
from widelane.facts.shapes.gguf_model import model_from_gguf
from widelane.facts.shapes.hf_config import model_from_config
from widelane.printable import one_line, printable

_CONFIG_NAME = "config.json"
_SHARD = re.compile(r"(?P<stem>.*)-\d{5}-of-(?P<count>\d{5})\.safetensors", re.DOTALL)
_LFS_POINTER = b"version https://git-lfs"


@dataclass(frozen=True, slots=True)
class _Stated:
    """What the user says of the weights."""

    quant: str | None
    weights_bytes: float | None


def read_model(path: Path, *, quant: str | None = None, weights_bytes: float | None = None) -> ModelFacts:
    """What the model is. Its weights are not loaded.

    Args:
        path: a `.gguf` (of a split model, any of its files), a `.safetensors` file or index with its `config.json`
            beside it, a `config.json` alone, or a folder that holds one of these.
        quant: format of the weights to reckon with, where the files leave it open or another is meant; in a folder of
            several GGUF files it says which.
        weights_bytes: size of the weights to reckon with.

    Raises:
        UnreadableModel: there is nothing there, it is none of these, damaged, cut off, or not whole.
    """
    stated = _Stated(quant, weights_bytes)
    return _readable(_from_folder(path, stated) if path.is_dir() else _from_file(path, stated))


def _from_folder(path: Path, stated: _Stated) -> ModelFacts:
    folder = look_into(path)
    if folder.gguf and not (folder.index or folder.weights):
        file, told_by_name = choose_gguf(folder.gguf, path, stated.quant)
        return _from_gguf(file, _Stated(None, stated.weights_bytes) if told_by_name else stated)
    if folder.config is None:
        if folder.is_empty:
            raise UnreadableModel(
                f"{path} holds no model: no {_CONFIG_NAME}, no GGUF file.\nName the folder that holds these files."
            )
        raise _without_config(path)
    return _from_checkpoint(folder.config, folder, stated, source=path)


def _from_file(path: Path, stated: _Stated) -> ModelFacts:
    opening = _opening(path)
    if opening.startswith(b"GGUF"):
        return _from_gguf(path, stated)
    if opening[4:9] == b"\0\0\0\0{":  # a length below 4 GB, then JSON
        return _from_weights(path, _weights_of(path), stated)
    if not opening.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        raise _no_model(path, opening)
    if path.name.endswith(".index.json"):
        return _from_weights(path, ModelFolder(config=None, index=path, weights=(), gguf=()), stated)
    return _from_config(path, stated)


def _from_gguf(path: Path, stated: _Stated) -> ModelFacts:
    return model_from_gguf(read_gguf_header(path), quant=stated.quant, weights_bytes=stated.weights_bytes)


def _from_config(path: Path, stated: _Stated) -> ModelFacts:
    """A config alone; a chat template beside it is its own only under the usual names."""
    template, notes = _template(path.parent) if path.name == _CONFIG_NAME else (None, ())
    facts = model_from_config(
        read_config(path),
        name=_name_of(path),
        source=str(path),
        quant=stated.quant,
        weights_bytes=stated.weights_bytes,
        chat_template=template,
    )
    return _with_notes(facts, notes)


def _from_weights(path: Path, weights: ModelFolder, stated: _Stated) -> ModelFacts:
    config = path.with_name(_CONFIG_NAME)
    if not config.is_file():
        raise _without_config(path)
    return _from_checkpoint(config, weights, stated, source=path)


def _from_checkpoint(config: Path, folder: ModelFolder, stated: _Stated, *, source: Path) -> ModelFacts:
    tensors, total_bytes, missing = _tensors(folder)
    template, notes = _template(config.parent)
    facts = model_from_config(
        read_config(config),
        name=_name_of(config),
        source=str(source),
        quant=stated.quant,
        weights_bytes=stated.weights_bytes if stated.weights_bytes is not None else total_bytes,
        tensors=tensors,
        chat_template=template,
    )
    return _with_notes(facts, (*notes, *missing))


def _tensors(folder: ModelFolder) -> tuple[tuple[TensorInfo, ...] | None, int | None, tuple[str, ...]]:
    """The tensors; where shards are not there yet, None, the bytes that the index states, and a note."""
    if folder.index is None:
        return (read_shards(folder.weights) if folder.weights else None), None, ()
    index = read_index(folder.index)
    missing = [file.name for file in index.files if not file.is_file()]
    if not missing:
        return read_shards(index.files), None, ()
    if index.total_bytes is None:
        raise UnreadableModel(
            f"{folder.index} names {len(index.files):,} files, of which {len(missing):,} are not beside it (such as "
            f"{missing[0]}), and does not state their size.\nFetch them, or name {_CONFIG_NAME} alone."
        )
    files = f"{len(missing):,} of the {len(index.files):,} weight files that {folder.index.name} names are not there"
    return None, index.total_bytes, (f"{files}: their size is the index's own figure.",)


def _weights_of(path: Path) -> ModelFolder:
    """The whole checkpoint that a safetensors file belongs to."""
    folder = look_into(path.parent)
    if folder.index and path in read_index(folder.index).files:
        return folder
    files: Sequence[Path] = (path,)
    if found := _SHARD.fullmatch(path.name):
        count = int(found["count"])
        names = [f"{found['stem']}-{number:05}-of-{count:05}.safetensors" for number in range(1, count + 1)]
        files = [path.with_name(name) for name in names]
        missing = next((file.name for file in files if not file.is_file()), None)
        if missing:
            raise UnreadableModel(
                f"{path} is one of {count:,} files, and {missing} is not beside it, nor {INDEX_NAME}.\nFetch all files."
            )
    return ModelFolder(config=None, index=None, weights=tuple(files), gguf=())


# --- names, notes, errors


def _name_of(config: Path) -> str:
    """Its name in the cache, the folder's name, or that of a config which is not called `config.json`."""
    if name := hub_name(config.absolute()):
        return name
    return config.stem if config.name != _CONFIG_NAME else config.absolute().parent.name or config.stem


def _readable(facts: ModelFacts) -> ModelFacts:
    """The same with words of the file that can only be read: they go into commands and documents, and to terminals.

    A name that begins with a dash would be taken for a flag.
    """
    return dataclasses.replace(
        facts,
        name=one_line(facts.name).lstrip("-") or "model",
        source=printable(facts.source),
        architecture=one_line(facts.architecture),
        assumed=tuple(map(printable, facts.assumed)),
    )


def _template(folder: Path) -> tuple[str | None, tuple[str, ...]]:
    try:
        return read_chat_template(folder), ()
    except UnreadableModel as error:
        return None, (f"No chat template was taken: {error}",)


def _with_notes(facts: ModelFacts, notes: Sequence[str]) -> ModelFacts:
    return dataclasses.replace(facts, assumed=(*facts.assumed, *notes)) if notes else facts


def _opening(path: Path) -> bytes:
    with open_regular(path) as file:
        return read_some(file, path, 64)


def _no_model(path: Path, opening: bytes) -> UnreadableModel:
    if opening.startswith(_LFS_POINTER):
        return UnreadableModel(f"{path} is a Git LFS pointer, not the model itself.\nRun `git lfs pull` in its folder.")
    what = f"it begins with {opening[:12]!r}" if opening else "it is empty"
    return UnreadableModel(
        f"{path} is no model file: {what}.\nA GGUF file, a safetensors file, a {_CONFIG_NAME} or a folder is needed."
    )


def _without_config(path: Path) -> UnreadableModel:
    return UnreadableModel(
        f"{path} has no {_CONFIG_NAME} beside it, and safetensors files do not say what the layers are.\n"
        f"Put the model's {_CONFIG_NAME} into the folder."
    )
