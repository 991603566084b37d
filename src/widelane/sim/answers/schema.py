"""A JSON value that obeys a schema and comes as near as it can to the one that the model would rather have written.

That is what constrained decoding does: an enum of real file names leaves no room for an invented one. Understood are
types, `enum`, `const`, objects, arrays, lengths, ranges, `anyOf`/`oneOf`, `allOf` and local `$ref`; `pattern` and
`format` are not, and a string under them is returned as wanted.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_DEEPEST: Final = 32
"""Schemas may refer to themselves; below this depth the shortest value is taken."""
_MOST_VALUES: Final = 10_000
_MOST_CHARS: Final = 100_000
"""What is made for one schema at most: an answer that is longer is cut by its limit in any case."""
_FREE_STRINGS: Final = ("note", "first", "second", "river", "garden", "window")
Schema = Mapping[str, Any]


def conforming(schema: Schema, wanted: Any, rng: random.Random) -> Any:
    """The value. `wanted` is kept where the schema allows it; what it lacks is made up."""
    return _Fitter(schema, rng).fit(schema, wanted, 0)


def resolved(root: Schema, schema: Schema) -> Schema:
    """The schema without `$ref` (which lead from `root`) and `allOf`."""
    for _ in range(_DEEPEST):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            schema = _at(root, reference)
        elif schema.get("allOf"):
            schema = _merged(root, schema)
        else:
            break
    return schema


class _Fitter:
    """Fits one value; `root` is where references lead."""

    def __init__(self, root: Schema, rng: random.Random) -> None:
        self._root = root
        self._rng = rng
        self._left = _MOST_VALUES

    def fit(self, schema: Schema, wanted: Any, depth: int) -> Any:
        schema = resolved(self._root, schema)
        self._left -= 1
        if depth > 2 * _DEEPEST or self._left < 0:  # no finite value obeys a schema that always holds itself
            return None
        if "const" in schema:
            return schema["const"]
        options = schema.get("enum")
        if isinstance(options, (list, tuple)) and options:
            return wanted if wanted in options else self._rng.choice(options)
        branches = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(branches, (list, tuple)) and branches:
            return self.fit(self._nearest(branches, wanted, depth), wanted, depth + 1)
        make: dict[str, Callable[[Schema, Any, int], Any]] = {
            "object": self._object, "array": self._array, "string": self._string,
            "integer": self._integer, "number": self._number,
        }  # fmt: skip
        kind = _kind(schema, wanted)
        if kind in make:
            return make[kind](schema, wanted, depth)
        if kind == "boolean":
            return wanted if isinstance(wanted, bool) else self._rng.random() < 0.5
        return None if kind == "null" else wanted

    def _nearest(self, branches: Sequence[Schema], wanted: Any, depth: int) -> Schema:
        """The branch that keeps most of what is wanted; the last one (often the simplest) when they nest too deep."""
        options = [resolved(self._root, branch) for branch in branches]
        if depth >= _DEEPEST:
            return options[-1]
        return max(options, key=lambda branch: self._likeness(branch, wanted))

    def _likeness(self, schema: Schema, wanted: Any) -> int:
        if "const" in schema:
            return 4 if schema["const"] == wanted else -4
        if "enum" in schema:
            return 4 if wanted in schema["enum"] else -4
        properties = schema.get("properties")
        if isinstance(wanted, Mapping) and isinstance(properties, Mapping):
            shared = [name for name in properties if name in wanted]
            missing = sum(name not in wanted for name in schema.get("required", ()))
            return (
                1
                + sum(self._likeness(resolved(self._root, properties[name]), wanted[name]) for name in shared)
                - missing
            )
        kinds = _kinds(schema)
        return 1 if not kinds or _type_of(wanted) in kinds else 0

    def _object(self, schema: Schema, wanted: Any, depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        required = schema.get("required") or ()
        given = wanted if isinstance(wanted, Mapping) else {}
        made = {
            name: self.fit(inner, given.get(name), depth + 1)
            for name, inner in properties.items()
            if name in required or name in given or (not required and depth < 2)
        }
        others = schema.get("additionalProperties", True)
        if others is not False:
            inner = others if isinstance(others, Mapping) else {}
            made.update({name: self.fit(inner, value, depth + 1) for name, value in given.items() if name not in made})
        for name in required:
            made.setdefault(name, self.fit({}, given.get(name), depth + 1))
        return made

    def _array(self, schema: Schema, wanted: Any, depth: int) -> list[Any]:
        given = list(wanted) if isinstance(wanted, (list, tuple)) else []
        inner = schema.get("items")
        inner = inner if isinstance(inner, Mapping) else {}
        least, most = int(schema.get("minItems", 0)), schema.get("maxItems")
        made = [self.fit(inner, value, depth + 1) for value in given]
        if schema.get("uniqueItems"):
            made = _unique(made)
        if most is not None:
            made = made[: int(most)]
        for _ in range(8 * least):  # bounded: a small enum may not have so many different values
            if len(made) >= least or self._left <= 0:
                break
            value = self.fit(inner, None, depth + 1)
            if not (schema.get("uniqueItems") and value in made):
                made.append(value)
        return made

    def _string(self, schema: Schema, wanted: Any, depth: int) -> str:
        text = wanted if isinstance(wanted, str) else self._rng.choice(_FREE_STRINGS)
        most = schema.get("maxLength")
        text = text if most is None else text[: int(most)]
        return text.ljust(min(int(schema.get("minLength", 0)), _MOST_CHARS), ".")

    def _integer(self, schema: Schema, wanted: Any, depth: int) -> int:
        low, high = _bounds(schema, 1)
        given = wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else None
        if given is None:
            first = math.ceil(low) if low is not None else (0 if high is None else math.floor(high) - 9)
            given = self._rng.randint(first, first + 9)
        whole = math.ceil(_within(given, low, high))
        step = schema.get("multipleOf")
        if isinstance(step, int) and step > 0:
            whole = -(-whole // step) * step
            whole -= step if high is not None and whole > high else 0
        return whole

    def _number(self, schema: Schema, wanted: Any, depth: int) -> float:
        low, high = _bounds(schema, 1e-6)
        given = wanted if isinstance(wanted, (int, float)) and not isinstance(wanted, bool) else self._rng.randint(0, 9)
        return _within(given, low, high)


def _at(root: Schema, reference: str) -> Schema:
    found: Any = root
    for name in reference.removeprefix("#").strip("/").split("/"):
        found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) and name else found
    return found if isinstance(found, Mapping) else {}


def _merged(root: Schema, schema: Schema) -> Schema:
    """All parts of an `allOf` and what stands beside it as one schema."""
    merged: dict[str, Any] = {}
    for part in (*schema["allOf"], {name: value for name, value in schema.items() if name != "allOf"}):
        part = _at(root, part["$ref"]) if isinstance(part.get("$ref"), str) else part
        properties = {**merged.get("properties", {}), **part.get("properties", {})}
        required = [*merged.get("required", ()), *part.get("required", ())]
        merged = {**merged, **part, "properties": properties, "required": required}
    return {name: value for name, value in merged.items() if value or name not in ("properties", "required")}


def _kind(schema: Schema, wanted: Any) -> str:
    """The type to write: the wanted value's own where it is allowed, else the first that is named or implied."""
    own, kinds = _type_of(wanted), _kinds(schema)
    if own in kinds or not kinds:
        return own
    return "number" if own == "integer" and "number" in kinds else kinds[0]


def _kinds(schema: Schema) -> list[str]:
    """The types that are allowed, as stated or implied; empty for any."""
    stated = schema.get("type")
    if stated:
        return [stated] if isinstance(stated, str) else [str(kind) for kind in stated]
    if schema.get("properties") or schema.get("required"):
        return ["object"]
    return ["array"] if schema.get("items") else []


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    types: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (int, "integer"), (float, "number"), (str, "string"), ((list, tuple), "array"), (Mapping, "object"),
    )  # fmt: skip
    return next((name for kind, name in types if isinstance(value, kind)), "null")


def _bounds(schema: Schema, gap: float) -> tuple[float | None, float | None]:
    """Least and greatest number allowed; `gap` is how far from an exclusive bound to stay."""
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    low = above + gap if above is not None else low
    return low, below - gap if below is not None else high


def _within(value: float, low: float | None, high: float | None) -> float:
    value = value if low is None else max(value, low)
    return value if high is None else min(value, high)


def _unique(values: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for value in values:
        if value not in kept:
            kept.append(value)
    return kept
