"""Every misconfiguration that `widelane doctor` knows, planted by the code under which the doctor reports it.

Two of its codes are no server's: `client-limited` and `impossible-figure` are about the measuring side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from widelane.errors import UsageError
from widelane.sim.config import EngineConfig, PrefixCache
from widelane.sim.settings import Calls, Habits, ServerSettings, Thoughts
from widelane.sim.spec import PlannedServer, SimSpec

_FEW_SLOTS = 4
_SMALL_CONTEXT = 2048
_PROBED_CONTEXT = 8192
"""So small that a prompt beyond it may be sent without asking: a doctor reads no further on its own."""
_SHOWN_TIMES = 4
_POOR_ACCEPTANCE = (0.12, 0.05, 0.02, 0.01)
_ON_GPU = 1 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Misconfiguration:
    """One of them. What is empty is left as it is.

    Attributes:
        code: the doctor's.
        what: in words, for a list of them.
        stated: settings of the server, as one would write them after `sim:…?`.
        habits: fields of `Habits`.
        config, settings: what else changes in the engine and in what it tells.
        engine: the only engine that has it; None: all.
    """

    code: str
    what: str
    stated: Mapping[str, Any] = field(default_factory=dict)
    habits: Mapping[str, Any] = field(default_factory=dict)
    config: Callable[[EngineConfig], EngineConfig] | None = None
    settings: Callable[[ServerSettings], ServerSettings] | None = None
    engine: str | None = None


def _without_cache(config: EngineConfig) -> EngineConfig:
    return replace(config, prefix_cache=PrefixCache.NONE)


def _says_no_cache(settings: ServerSettings) -> ServerSettings:
    return replace(settings, prefix_cache=False)


def _says_more_slots(settings: ServerSettings) -> ServerSettings:
    return replace(settings, slots=settings.slots * _SHOWN_TIMES)


def _on_both(settings: ServerSettings) -> ServerSettings:
    layers = settings.layers or 1
    return replace(settings, layers=layers, layers_on_gpu=int(layers * _ON_GPU))


MISCONFIGURATIONS: Mapping[str, Misconfiguration] = {
    one.code: one
    for one in (
        Misconfiguration(code="too-few-slots", what="four slots", stated={"slots": _FEW_SLOTS}),
        Misconfiguration(
            code="slots-disagree",
            what="four slots behind a server that says sixteen",
            stated={"slots": _FEW_SLOTS},
            settings=_says_more_slots,
        ),
        Misconfiguration(
            code="small-context", what="a context of 2,048 tokens a request", stated={"context": _SMALL_CONTEXT}
        ),
        Misconfiguration(
            code="kv-wider-than-needed", what="a KV cache in the model's 16 bits", stated={"kv_dtype": None}
        ),
        Misconfiguration(
            code="state-float32",
            what="the recurrent state in float32",
            stated={"state_dtype": "float32"},
            engine="vllm",
        ),
        Misconfiguration(
            code="shared-pool-overflow",
            what="slots that share one pool and fail together when it is full",
            stated={"slots": None, "context": _PROBED_CONTEXT},
            engine="llama.cpp",
        ),
        Misconfiguration(
            code="partial-offload",
            what="two thirds of the layers on the CPU",
            settings=_on_both,
            engine="llama.cpp",
        ),
        Misconfiguration(
            code="no-speculation", what="a draft head that is not used", stated={"draft_depth": 0, "acceptance": ()}
        ),
        Misconfiguration(
            code="harmful-speculation",
            what="four drafted tokens a step, nearly all of them thrown away",
            stated={"draft_depth": 4, "acceptance": _POOR_ACCEPTANCE},
        ),
        Misconfiguration(
            code="prefix-cache-off",
            what="no prefix cache",
            config=_without_cache,
            settings=_says_no_cache,
        ),
        Misconfiguration(code="buffering-proxy", what="streams held back to their end", habits={"buffers": True}),
        Misconfiguration(
            code="error-in-stream", what="every longer stream breaks off with an error", habits={"fails_in_streams": 10}
        ),
        Misconfiguration(code="cancel-not-freeing", what="dropped calls go on", habits={"frees_on_cancel": False}),
        Misconfiguration(
            code="prompt-truncated",
            what="prompts beyond the context are cut without a word",
            stated={"context": _PROBED_CONTEXT},
            habits={"truncates": True},
        ),
        Misconfiguration(
            code="max-tokens-ignored", what="answers go on past max_tokens", habits={"keeps_max_tokens": False}
        ),
        Misconfiguration(
            code="max-tokens-default-tiny",
            what="answers end after 16 tokens unless a limit is stated",
            habits={"default_max_tokens": 16},
        ),
        Misconfiguration(code="reasoning-leak", what="no reasoning parser", habits={"thoughts": Thoughts.IN_TEXT}),
        Misconfiguration(
            code="reasoning-swallowed",
            what="a reasoning parser that takes whole answers for thought",
            habits={"thoughts": Thoughts.SWALLOW},
        ),
        Misconfiguration(
            code="thinking-not-switchable",
            what="the model thinks also where it was asked not to",
            habits={"always_thinks": True},
        ),
        Misconfiguration(code="template-wrong", what="the model runs past its end mark", habits={"stops": False}),
        Misconfiguration(
            code="tool-calls-in-text", what="no tool parser, or the wrong one", habits={"calls": Calls.IN_TEXT}
        ),
        Misconfiguration(
            code="schema-not-enforced", what="JSON schemas are ignored", habits={"enforces_schemas": False}
        ),
        Misconfiguration(code="n-ignored", what="one choice whatever `n` asks for", habits={"honours_n": False}),
        Misconfiguration(
            code="temperature-default",
            what="temperature 0 where none is stated: samples are alike",
            habits={"samples": False},
        ),
    )
}
"""Code -> misconfiguration."""


def chosen(spec: SimSpec) -> tuple[Misconfiguration, ...]:
    """Those that a spec names.

    Raises:
        UsageError: one is not known, or not of this engine.
    """
    found = []
    for name in spec.misconfigured:
        one = MISCONFIGURATIONS.get(name)
        if one is None:
            raise UsageError(
                f"There is no misconfiguration {name!r}. There are: {', '.join(sorted(MISCONFIGURATIONS))}."
            )
        engine = spec.source.engine if isinstance(spec.source, PlannedServer) else None
        if one.engine is not None and engine not in (None, one.engine):
            raise UsageError(f"{name} is a misconfiguration of {one.engine}: {engine} does not have it.")
        found.append(one)
    return tuple(found)


def stated(spec: SimSpec, planted: Sequence[Misconfiguration]) -> SimSpec:
    """The spec with what they set.

    Raises:
        UsageError: two set the same differently, or the server was measured and its settings are in its figures.
    """
    values: dict[str, Any] = {}
    for one in planted:
        for name, value in one.stated.items():
            if values.setdefault(name, value) != value:
                raise UsageError(
                    f"{one.code} wants another {name} than a misconfiguration before it: plant one of them."
                )
    measured = not isinstance(spec.source, PlannedServer)
    if measured and (alien := [name for name in values if name not in ("slots", "context")]):
        raise UsageError(f"{alien[0]} of a measured server is in its figures already: plant this in a planned one.")
    return replace(spec, **values)


def habits(planted: Sequence[Misconfiguration]) -> Habits:
    """The habits that they leave."""
    changed: dict[str, Any] = {}
    for one in planted:
        changed |= one.habits
    return Habits(**changed)
