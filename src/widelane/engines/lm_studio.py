"""LM Studio: models and context over its REST API; slots and KV type only in its settings. By documentation of 0.4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from widelane.engines.ask import ask_json
from widelane.engines.engine import Gauges
from widelane.engines.hints import NO_HINTS, Hints
from widelane.engines.json_shape import as_dict
from widelane.engines.server_facts import ServerFacts
from widelane.engines.sources import Sources, first_known, read_figure, read_sources
from widelane.figures import Figure, Origin, unknown
from widelane.records import Fetch

NAME = "lm-studio"
_SETTINGS = "LM Studio shows it only in the model's load settings"


class LmStudio:
    """Adapter for LM Studio's server."""

    name = NAME

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def facts(self, hints: Hints = NO_HINTS) -> ServerFacts:
        """All that can be read without generating a token."""
        newer = as_dict(await ask_json(self._fetch, "/api/v1/models")).get("models")
        older = None if isinstance(newer, list) else as_dict(await ask_json(self._fetch, "/api/v0/models")).get("data")
        return _facts(_loaded(newer), _loaded(older), hints)

    async def gauges(self) -> Gauges:
        return Gauges(reason="LM Studio has no metrics")

    def forced_text(self, text: str) -> Mapping[str, Any] | None:
        """None: there is no grammar over the OpenAI protocol."""
        return None

    def fixed_length(self, tokens: int) -> Mapping[str, Any]:
        """Nothing: `max_tokens` only bounds the answer."""
        return {}

    def no_prefix_cache(self) -> Mapping[str, Any]:
        """Nothing: a prompt that was not seen before does it."""
        return {}

    def thinking_off(self) -> Mapping[str, Any]:
        return {"reasoning_effort": "none"}


def _loaded(models: Any) -> Mapping[str, Any]:
    """The first loaded language model of either listing, else the first that there is."""
    listed = [as_dict(item) for item in models] if isinstance(models, list) else []
    language = [item for item in listed if item.get("type") not in ("embedding", "embeddings")]
    loaded = [item for item in language if item.get("loaded_instances") or item.get("state") == "loaded"]
    return next(iter(loaded or language), {})


def _facts(newer: Mapping[str, Any], older: Mapping[str, Any], hints: Hints) -> ServerFacts:
    sources = read_sources(hints, NAME)
    instances = newer.get("loaded_instances")
    instance = as_dict(instances[0]) if isinstance(instances, list) and instances else {}
    config = as_dict(instance.get("config"))
    runtime = str(newer.get("format") or older.get("compatibility_type") or "")
    tools = as_dict(newer.get("capabilities")).get("trained_for_tool_use")
    return ServerFacts(
        engine=NAME,
        version=unknown("", "LM Studio does not tell its version over HTTP"),
        model=first_known(
            read_figure(instance.get("id") or newer.get("key"), "", "/api/v1/models"),
            read_figure(older.get("id"), "", "/api/v0/models"),
            unit="",
            otherwise="LM Studio has no model",
        ),
        slots=_slots(config, runtime, sources),
        context_per_slot=first_known(
            read_figure(config.get("context_length"), "tokens", "/api/v1/models"),
            read_figure(older.get("loaded_context_length"), "tokens", "/api/v0/models"),
            sources.read("context_length", "tokens", int),
            unit="tokens",
            otherwise="no model is loaded",
        ),
        context_trained=first_known(
            read_figure(newer.get("max_context_length") or older.get("max_context_length"), "tokens", "/api/v1/models"),
            unit="tokens",
            otherwise="the model listing does not say it",
        ),
        kv_dtype=unknown("", f"{_SETTINGS} (K and V cache quantisation)"),
        state_dtype=unknown("", "LM Studio does not tell the type of a recurrent state"),
        pool_tokens=unknown("tokens", "LM Studio does not tell it"),
        unified_pool=unknown("", f"{_SETTINGS} (unified KV cache)"),
        speculation=unknown("", "LM Studio tells it only in the statistics of /api/v1/chat"),
        prefix_cache=Figure(True, "", Origin.ASSUMED, reason="on by default; LM Studio does not say it"),
        queue_length=unknown("requests", "LM Studio does not tell its queue"),
        reasoning_parser=unknown("", "LM Studio does not tell it: probe"),
        tool_parser=first_known(
            read_figure(tools, "", "/api/v1/models: trained_for_tool_use"),
            unit="",
            otherwise="the model listing does not say it",
        ),
        weights_bytes=first_known(
            read_figure(newer.get("size_bytes"), "bytes", "/api/v1/models"),
            unit="bytes",
            otherwise="the model listing does not say it",
        ),
        parameters=first_known(
            read_figure(newer.get("params_string"), "", "/api/v1/models"),
            unit="parameters",
            otherwise="the model listing does not say it",
        ),
        launch_command=sources.launch_command(),
        extra={"runtime": Figure(runtime, "", Origin.READ, reason="the model listing")} if runtime else {},
    )


def _slots(config: Mapping[str, Any], runtime: str, sources: Sources) -> Figure:
    if runtime.lower() == "mlx":
        assumed = Figure(1, "slots", Origin.ASSUMED, reason="LM Studio's MLX engine takes one request after the other")
    else:
        reason = f"Max Concurrent Predictions is 4 by default. {_SETTINGS}: probe"
        assumed = Figure(4, "slots", Origin.ASSUMED, reason=reason)
    return first_known(
        read_figure(config.get("parallel"), "slots", "/api/v1/models"),
        sources.read("parallel", "slots", int),
        assumed,
        unit="slots",
        otherwise="",
    )
