"""A simulated server as a person names it.

    sim:DEVICE/MODEL/ENGINE[?setting=value&…]     sim:gb10/qwen3.6-27b/vllm?slots=64&kv_dtype=fp8
    sim:PROFILE.json[?setting=value&…]            sim:sweep.json?slots=16

DEVICE and MODEL are what `widelane plan` takes (a model may be `org/name` or a path), ENGINE one whose pool is known.
PROFILE.json was saved by `widelane sweep`. In values `%2F` stands for `/`, as in any URL.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import quote, unquote

from widelane.errors import UsageError
from widelane.facts.weights.quant import find_format
from widelane.plan.pool.dtypes import AUTO, check_cache_dtype, dtype_name
from widelane.plan.pool.make import POOL_ENGINES
from widelane.plan.speculation import DEEPEST

PREFIX = "sim:"
FORMS = "`sim:DEVICE/MODEL/ENGINE` (such as sim:gb10/qwen3.6-27b/vllm) or `sim:PROFILE.json`"
MOST_SLOTS = 4096
MOST_TOKENS = 100_000_000
_ENGINE_SPELLINGS = {"llamacpp": "llama.cpp", "llama-cpp": "llama.cpp", "llama-server": "llama.cpp"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_OF_A_PROFILE = ("slots", "context", "seed", "noise", "fault", "misconfigured")
"""Settings that make sense of a server that was measured: its types and its drafting are in the figures already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedServer:
    """A server whose speed follows from arithmetic: what to run on what, by name."""

    device: str
    model: str
    engine: str

    def __str__(self) -> str:
        return f"{self.device}/{self.model}/{self.engine}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledServer:
    """A server that was measured: the profile's file."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSpec:
    """What to simulate. None and empty leave the engine's default, or what was measured.

    Attributes:
        slots: places (`-np`, `--max-num-seqs`).
        quant, weights_gb: format of the weights, and their size in units of 10^9 bytes.
        kv_dtype, state_dtype: types of the cache and of the recurrent state.
        context: tokens of the longest sequence (`--max-model-len`; the context of ONE slot of llama.cpp).
        draft_depth, acceptance: tokens drafted a step, and the share kept at each position.
        seed: of everything that is drawn.
        noise: half width of the factor by which one boot differs from another, 0 for none.
        fault: faults by name, in the order in which they come; misconfigured: misconfigurations by name.
    """

    source: PlannedServer | ProfiledServer
    slots: int | None = None
    quant: str | None = None
    weights_gb: float | None = None
    kv_dtype: str | None = None
    state_dtype: str | None = None
    context: int | None = None
    draft_depth: int | None = None
    acceptance: tuple[float, ...] = ()
    seed: int = 0
    noise: float = 0.0
    fault: tuple[str, ...] = ()
    misconfigured: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The argument that names this server; `parse_sim` reads it back."""
        stated = [
            f"{name}={quote(_written(value), safe=',/:')}"
            for name in _SETTINGS
            if (value := getattr(self, name)) != _DEFAULTS[name]
        ]
        return f"{PREFIX}{quote(str(self.source), safe='/.:@ ')}" + (f"?{'&'.join(stated)}" if stated else "")


def parse_sim(text: str) -> SimSpec:
    """The simulated server that `text` names.

    Raises:
        UsageError: it follows neither form, or a setting is not known, stated twice, or cannot be.
    """
    stated = text.strip()
    if not stated.startswith(PREFIX):
        raise UsageError(f"cannot read the simulated server {text!r}: give {FORMS}.")
    named, _, query = stated.removeprefix(PREFIX).partition("?")
    source = _source(text, unquote(named))
    settings = _settings(text, query)
    if isinstance(source, ProfiledServer) and (alien := [name for name in settings if name not in _OF_A_PROFILE]):
        raise UsageError(
            f"{alien[0]} cannot be set in {text!r}: the profile was measured with what the server had."
            f" Settings of a profile are {', '.join(_OF_A_PROFILE)}."
        )
    values = {name: _SETTINGS[name](name, value) for name, value in settings.items()}
    spec = SimSpec(source=source, **values)  # type: ignore[arg-type]
    _check_together(spec)
    return spec


def _source(text: str, named: str) -> PlannedServer | ProfiledServer:
    if named.lower().endswith(".json"):
        return ProfiledServer(path=Path(named))
    device, first, rest = named.partition("/")
    model, last, engine = rest.rpartition("/")
    if not (first and last and device.strip() and model.strip() and engine.strip()):
        raise UsageError(f"cannot read the simulated server {text!r}: give {FORMS}.")
    name = _ENGINE_SPELLINGS.get(engine.lower(), engine.lower())
    if name not in POOL_ENGINES:
        raise UsageError(
            f"{engine!r} in {text!r} is no engine that can be simulated: choose one of {', '.join(POOL_ENGINES)}."
        )
    return PlannedServer(device=device, model=model, engine=name)


def _settings(text: str, query: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for part in query.split("&") if query else ():
        name, equals, value = part.partition("=")
        if name not in _SETTINGS:
            raise UsageError(f"{name!r} in {text!r} is no setting: there are {', '.join(_SETTINGS)}.")
        if not equals or not value:
            raise UsageError(f"{name} in {text!r} has no value: write {name}=VALUE.")
        if name in found:
            raise UsageError(f"{name} is set twice in {text!r}: say which one you mean.")
        found[name] = unquote(value)
    return found


def _check_together(spec: SimSpec) -> None:
    """Refuse settings that only together cannot be."""
    if isinstance(spec.source, PlannedServer) and spec.kv_dtype is not None:
        check_cache_dtype(spec.source.engine, spec.kv_dtype)
    if spec.acceptance and len(spec.acceptance) < (spec.draft_depth or 0):
        raise UsageError(
            f"acceptance names {len(spec.acceptance)} positions and draft_depth is {spec.draft_depth}: give one share"
            " for each drafted token."
        )


# --- how each setting is read


def _whole(low: int, high: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", value) or not low <= int(value) <= high:
            raise UsageError(f"{name}={value[:80]} cannot be: give a whole number from {low} to {high:,}.")
        return int(value)

    return read


def _number(name: str, value: str, *, above: float, below: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not above <= number < below:
        raise UsageError(f"{name}={value[:80]} cannot be: give a number from {above:g} to below {below:g}.")
    return number


def _gigabytes(name: str, value: str) -> float:
    return _number(name, value, above=1e-3, below=1e6)


def _noise(name: str, value: str) -> float:
    return _number(name, value, above=0.0, below=1.0)


def _shares(name: str, value: str) -> tuple[float, ...]:
    parts = value.split(",")
    if len(parts) > DEEPEST:
        raise UsageError(f"{name} names {len(parts):,} positions: drafts go to {DEEPEST} tokens at most.")
    return tuple(_number(name, part, above=0.0, below=math.nextafter(1.0, 2.0)) for part in parts)


def _names(name: str, value: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in value.split(","))
    for part in parts:
        if not _NAME.fullmatch(part):
            raise UsageError(f"{part[:80]!r} is no name: write {name}=one or {name}=one,another.")
    return parts


def _quant(name: str, value: str) -> str:
    if find_format(value) is None:
        raise UsageError(f"{name}={value[:80]} is no weight format that is known: such are bf16, fp8, nvfp4, q4_k_m.")
    return value


def _dtype(name: str, value: str) -> str:
    if dtype_name(value) == AUTO:
        raise UsageError(f"{name}={value} is the engine's default: leave {name} out.")
    return value


_SETTINGS: Mapping[str, Callable[[str, str], object]] = {
    "slots": _whole(1, MOST_SLOTS),
    "quant": _quant,
    "weights_gb": _gigabytes,
    "kv_dtype": _dtype,
    "state_dtype": _dtype,
    "context": _whole(2, MOST_TOKENS),
    "draft_depth": _whole(0, DEEPEST),
    "acceptance": _shares,
    "seed": _whole(0, 2**63 - 1),
    "noise": _noise,
    "fault": _names,
    "misconfigured": _names,
}
"""Setting -> how its value is read."""
_DEFAULTS = {field.name: field.default for field in fields(SimSpec)}


def _written(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(_written(one) for one in value)
    return repr(value) if isinstance(value, float) else str(value)
