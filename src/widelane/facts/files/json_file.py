"""Reads the small JSON files beside a model: its config and its chat template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from widelane.errors import UnreadableModel
from widelane.facts.files.regular_file import read_whole

_CONFIG_LIMIT_BYTES = 4 << 20
"""Largest config.json that is read. Lists of modules that a quantiser left alone make the longest, well under 1 MB."""
_TOKENIZER_LIMIT_BYTES = 32 << 20
_TEMPLATE_LIMIT_BYTES = 1 << 20


class _NamedTemplate(msgspec.Struct, frozen=True):
    name: str
    template: str


class _WithTemplate(msgspec.Struct, frozen=True):
    chat_template: str | list[_NamedTemplate] | None = None


def read_config(path: Path) -> dict[str, Any]:
    """The object in a `config.json`. `Infinity` and `NaN` are read: Mamba-2 configs hold them.

    Raises:
        UnreadableModel: too large, no JSON, or no object.
    """
    try:
        config = json.loads(read_whole(path, limit_bytes=_CONFIG_LIMIT_BYTES))
    except (ValueError, RecursionError) as error:
        raise UnreadableModel(f"{path} is not JSON: {error}.") from error
    if not isinstance(config, dict):
        raise UnreadableModel(f"{path} holds no JSON object; the config of a model begins with {{.")
    return config


def read_chat_template(folder: Path) -> str | None:
    """The chat template of the checkpoint in a folder, None when it has none.

    Where there are several, the one that transformers takes: `chat_template.jinja`, `chat_template.json`, then
    `tokenizer_config.json`; of named ones, `default`.

    Raises:
        UnreadableModel: the file that should hold it cannot be read.
    """
    jinja = folder / "chat_template.jinja"
    if jinja.is_file():
        return read_whole(jinja, limit_bytes=_TEMPLATE_LIMIT_BYTES).decode(errors="replace")
    for name in ("chat_template.json", "tokenizer_config.json"):
        path = folder / name
        if path.is_file() and (template := _template_in(path)) is not None:
            return template
    return None


def _template_in(path: Path) -> str | None:
    try:
        held = msgspec.json.decode(
            read_whole(path, limit_bytes=_TOKENIZER_LIMIT_BYTES), type=_WithTemplate
        ).chat_template
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableModel(f"{path} cannot be understood: {error}.") from error
    if isinstance(held, list):
        by_name = {named.name: named.template for named in held}
        return by_name.get("default") or next(iter(by_name.values()), None)
    return held
