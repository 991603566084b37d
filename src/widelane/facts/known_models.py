"""Models known by name: the shapes of published configs, shipped with the package (`known_models.json`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from widelane.facts.model import ModelFacts
from widelane.facts.shapes.hf_config import model_from_config
from widelane.facts.weights.quant import find_format

_SUFFIXES = ("-gguf", "-it", "-instruct", "-chat", "-base")
_ENDING = re.compile(r"-(fp8|nvfp4|awq|gptq|bf16|int4|mxfp4|\d+bit|instruct-\d{4})$")


class _Known(msgspec.Struct, frozen=True):
    """One line of the file: the name on the hub, and the config's keys that tell the shape."""

    name: str
    config: Mapping[str, object]


def known_names() -> tuple[str, ...]:
    """All names, with their organisations, in the order of the file."""
    return tuple(known.name for known in _known())


def known_model(name: str, *, quant: str | None = None, weights_bytes: float | None = None) -> ModelFacts | None:
    """The model of that name, None when it is not known.

    Case does not matter; the organisation may be left out, as may an ending such as `-instruct`, where only one model
    is meant then. An ending that names a weight format (`-FP8`) is taken at its word where `quant` says nothing.
    """
    found = _find(name)
    if found is None:
        return None
    ending = _ENDING.search(_without_organisation(name))
    if quant is None and weights_bytes is None and ending is not None and find_format(ending[1]) is not None:
        quant = ending[1]
    return model_from_config(
        found.config,
        name=found.name,
        source=f"the shapes shipped with Widelane ({found.name})",
        quant=quant,
        weights_bytes=weights_bytes,
    )


@cache
def _known() -> tuple[_Known, ...]:
    text = files("widelane.facts").joinpath("known_models.json").read_bytes()
    return tuple(msgspec.json.decode(text, type=list[_Known]))


def _find(name: str) -> _Known | None:
    wanted = name.strip().lower()
    for same in (str.lower, _without_organisation, _stem):
        matches = [known for known in _known() if same(known.name) == (wanted if same is str.lower else same(wanted))]
        if len(matches) == 1:
            return matches[0]
    return None


def _without_organisation(name: str) -> str:
    return name.lower().rsplit("/", 1)[-1]


def _stem(name: str) -> str:
    """The name without organisation and without endings that do not change the shape."""
    stem = _ENDING.sub("", _without_organisation(name))
    for suffix in _SUFFIXES:
        stem = stem.removesuffix(suffix)
    return stem
