"""JSON of unknown shape, taken for what it should be, or for empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def as_dict(value: object) -> Mapping[str, Any]:
    """The object, empty when it is none."""
    return value if isinstance(value, dict) else {}


def as_dicts(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list, empty when it is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def first_listed(models: object) -> Mapping[str, Any]:
    """The first model of a `/v1/models` reply, empty when there is none."""
    return next(iter(as_dicts(as_dict(models).get("data"))), {})
