"""The model that a user means by what was typed: a path, a known name, or a name in the local Hugging Face cache."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from widelane.errors import UnreadableModel, UsageError
from widelane.facts.files.hub_cache import find_snapshot, hub_models, names_meant
from widelane.facts.files.model_folder import look_into
from widelane.facts.known_models import known_model, known_names
from widelane.facts.model import ModelFacts
from widelane.facts.read_model import read_model

_FILE_ENDINGS = (".gguf", ".safetensors", ".json")
_PATH_STARTS = ("/", "./", "../", "~", ".\\")
_NEAR_NAMES = 5


_CAN_BE_GIVEN = (
    "Give a GGUF file, a folder with config.json, a config.json, or a known name; "
    "a model in the local Hugging Face cache also goes by its org/name."
)


def find_model(
    text: str, *, quant: str | None = None, weights_bytes: float | None = None, hub_dirs: Sequence[Path] = ()
) -> ModelFacts:
    """The facts of the model that `text` names.

    Tried in this order: a file or folder that is there; a model in a local cache, by its full `org/name`; a known name,
    in any case, with or without its organisation; a model in a local cache, by its name alone. `name:quant` names the
    quantisation as well, as llama.cpp's `-hf` does.

    Args:
        quant, weights_bytes: as in `read_model`.
        hub_dirs: folders that hold `models--org--name` (see `hub_cache.hub_dirs`).

    Raises:
        UnreadableModel: the file or folder is there and cannot be understood.
        UsageError: nothing of this name was found, or several.
    """
    if not text.strip():
        raise UsageError(f"No model was named.\n{_CAN_BE_GIVEN}")
    if facts := _from_path(text, quant, weights_bytes):
        return facts
    name, quant = _split_quant(text, quant)
    cached = {} if _is_path(name) else hub_models(hub_dirs)
    if "/" in name and (facts := _from_cache(name, cached, quant, weights_bytes)):
        return facts
    if facts := known_model(name, quant=quant, weights_bytes=weights_bytes):
        return facts
    if facts := _from_cache(name, cached, quant, weights_bytes):
        return facts
    raise _not_found(name, known_names(), cached)


def _from_cache(
    name: str, cached: Mapping[str, Path], quant: str | None, weights_bytes: float | None
) -> ModelFacts | None:
    """None where the cache does not have it, or nothing of it but its tokenizer."""
    snapshot = find_snapshot(name, cached)
    if snapshot is None or look_into(snapshot).is_empty:
        return None
    return read_model(snapshot, quant=quant, weights_bytes=weights_bytes)


def _from_path(text: str, quant: str | None, weights_bytes: float | None) -> ModelFacts | None:
    """None where there is no such path, or only a folder without a model that happens to bear a known name."""
    path = Path(text)
    try:
        path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise UnreadableModel(f"{path} is a link to a file that is not there.") from None
        return None
    except ValueError:  # a NUL: no file's name
        return None
    except NotADirectoryError:
        raise _no_such_path(text) from None
    except OSError as error:
        raise UnreadableModel(f"{path} cannot be read: {error.strerror or error}.") from error
    if path.is_dir() and known_model(text) is not None and look_into(path).is_empty:
        return None
    return read_model(path, quant=quant, weights_bytes=weights_bytes)


def _split_quant(text: str, quant: str | None) -> tuple[str, str | None]:
    """The name and the quantisation of `name:quant`.

    Raises:
        UsageError: two quantisations are stated.
    """
    name, colon, suffix = text.rpartition(":")
    if not colon or not name or not suffix or _is_path(text):
        return text, quant
    if quant is not None and quant.lower() != suffix.lower():
        raise UsageError(f"{text!r} names the quantisation {suffix}, and {quant} is stated as well. Leave one out.")
    return name, suffix


def _is_path(text: str) -> bool:
    return text.startswith(_PATH_STARTS) or text.lower().endswith(_FILE_ENDINGS) or text.count("/") > 1


def _not_found(name: str, known: Iterable[str], cached: Iterable[str]) -> UsageError:
    if _is_path(name):
        return _no_such_path(name)
    if meant := names_meant(name, cached):
        return UsageError(
            f"Of {meant[0]} the local cache holds neither config.json nor weights: it was not fetched whole.\n"
            f"Fetch it again, or give something else. {_CAN_BE_GIVEN}"
        )
    near = _near(name, [*known, *cached])
    hint = f" Near it: {', '.join(near)}." if near else ""
    return UsageError(f"No model {name!r} is known or found here.{hint}\n{_CAN_BE_GIVEN}")


def _no_such_path(text: str) -> UsageError:
    return UsageError(f"There is no file or folder {text}.\n{_CAN_BE_GIVEN}")


def _near(name: str, names: Sequence[str]) -> list[str]:
    """Names that hold the text, or are spelled like it, nearest first."""
    wanted = name.lower().rpartition("/")[2]
    by_short = {full.lower().rpartition("/")[2]: full for full in names}
    close = difflib.get_close_matches(wanted[:100], by_short, n=_NEAR_NAMES, cutoff=0.6)
    holding = [short for short in by_short if wanted in short and short not in close]
    return [by_short[short] for short in (*close, *sorted(holding))][:_NEAR_NAMES]
