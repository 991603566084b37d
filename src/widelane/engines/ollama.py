"""Ollama: little over HTTP; the rest from its environment, or from the llama.cpp server it starts on the same machine.

By source of 2026-08-21, not recorded. Slots are `OLLAMA_NUM_PARALLEL` (default 1), and 1 whatever it says for some
architectures; the context (`num_ctx`) is that of one slot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from widelane.engines.ask import ask_json
from widelane.engines.engine import Gauges
from widelane.engines.hints import NO_HINTS, Hints
from widelane.engines.json_shape import as_dict, as_dicts
from widelane.engines.launch_line import LaunchLine, of_process
from widelane.engines.server_facts import ServerFacts
from widelane.engines.sources import Sources, first_known, positive, read_figure, read_sources
from widelane.facts.model_family import one_slot_only, thinks, tool_form
from widelane.figures import Figure, Origin, unknown
from widelane.records import Fetch

NAME = "ollama"
_ENVIRONMENT = "Ollama does not tell it over HTTP; on its own machine its environment is read"


class Ollama:
    """Adapter for Ollama."""

    name = NAME

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def facts(self, hints: Hints = NO_HINTS) -> ServerFacts:
        """All that can be read without generating a token."""
        version = as_dict(await ask_json(self._fetch, "/api/version")).get("version")
        loaded = as_dicts(as_dict(await ask_json(self._fetch, "/api/ps")).get("models"))
        there = loaded or as_dicts(as_dict(await ask_json(self._fetch, "/api/tags")).get("models"))
        model = there[0] if there else {}
        name = model.get("model") or model.get("name")
        shown = as_dict(await ask_json(self._fetch, "/api/show", {"model": name})) if name else {}
        return _facts(version, model, bool(loaded), shown, hints)

    async def gauges(self) -> Gauges:
        return Gauges(reason="Ollama has no metrics; past OLLAMA_MAX_QUEUE (512) it answers 503 `server busy`")

    def forced_text(self, text: str) -> Mapping[str, Any] | None:
        """None: there is no grammar over the OpenAI protocol."""
        return None

    def fixed_length(self, tokens: int) -> Mapping[str, Any]:
        """Nothing: Ollama has no such field; `max_tokens` only bounds the answer."""
        return {}

    def no_prefix_cache(self) -> Mapping[str, Any]:
        """Nothing: a prompt that was not seen before does it."""
        return {}

    def thinking_off(self) -> Mapping[str, Any]:
        return {"reasoning_effort": "none"}


def _facts(version: Any, model: Mapping[str, Any], loaded: bool, shown: Mapping[str, Any], hints: Hints) -> ServerFacts:
    sources = read_sources(hints, NAME)
    runner = _runner(hints)
    about = as_dict(shown.get("model_info"))
    details = as_dict(shown.get("details") or model.get("details"))
    architecture = str(about.get("general.architecture") or details.get("family") or "")
    capabilities = shown.get("capabilities")
    return ServerFacts(
        engine=NAME,
        version=first_known(
            read_figure(version, "", "/api/version"), unit="", otherwise="/api/version does not answer"
        ),
        model=first_known(
            read_figure(
                model.get("model") or model.get("name"), "", "/api/ps" if loaded else "/api/tags: not loaded yet"
            ),
            unit="",
            otherwise="Ollama has no model",
        ),
        slots=_slots(sources, runner, architecture),
        context_per_slot=_context(sources, model, loaded),
        context_trained=first_known(
            read_figure(about.get(f"{architecture}.context_length"), "tokens", "/api/show"),
            unit="tokens",
            otherwise="/api/show does not say it",
        ),
        kv_dtype=first_known(
            _of_runner(runner, "cache_type_k"),
            sources.read("kv_cache_type"),
            sources.default("f16", "", "OLLAMA_KV_CACHE_TYPE"),
            unit="",
            otherwise=_ENVIRONMENT,
        ),
        state_dtype=unknown("", "Ollama does not tell the type of a recurrent state"),
        pool_tokens=unknown("tokens", "Ollama does not tell it; its pool is num_ctx times OLLAMA_NUM_PARALLEL"),
        unified_pool=Figure(False, "", Origin.INFERRED, reason="each slot has num_ctx tokens of its own"),
        speculation=_speculation(shown),
        prefix_cache=Figure(True, "", Origin.ASSUMED, reason="on by default; Ollama does not say it"),
        queue_length=unknown("requests", "Ollama does not tell its queue"),
        reasoning_parser=_capability(capabilities, "thinking"),
        tool_parser=_capability(capabilities, "tools"),
        weights_bytes=_weights(model, loaded),
        parameters=first_known(
            read_figure(about.get("general.parameter_count"), "parameters", "/api/show"),
            read_figure(details.get("parameter_size"), "", "/api/show"),
            unit="parameters",
            otherwise="/api/show does not say it",
        ),
        launch_command=sources.launch_command(),
        extra=_extra(model, details, architecture, shown),
    )


def _slots(sources: Sources, runner: LaunchLine | None, architecture: str) -> Figure:
    if one_slot_only(architecture):
        reason = f"Ollama runs the architecture {architecture} one request at a time, whatever OLLAMA_NUM_PARALLEL says"
        return Figure(1, "slots", Origin.INFERRED, reason=reason)
    return first_known(
        _of_runner(runner, "parallel", "slots"),
        sources.read("num_parallel", "slots", positive),
        sources.default(1, "slots", "OLLAMA_NUM_PARALLEL"),
        Figure(1, "slots", Origin.ASSUMED, reason=f"OLLAMA_NUM_PARALLEL is 1 by default. {_ENVIRONMENT}"),
        unit="slots",
        otherwise="",
    )


def _context(sources: Sources, model: Mapping[str, Any], loaded: bool) -> Figure:
    """Ollama chooses the context by the video memory: 4096 under 24 GiB, 32768, 262144."""
    return first_known(
        read_figure(model.get("context_length") if loaded else None, "tokens", "/api/ps"),
        sources.read("context_length", "tokens", positive),
        unit="tokens",
        otherwise="no model is loaded: send one request, then /api/ps tells the context",
    )


def _runner(hints: Hints) -> LaunchLine | None:
    """The llama.cpp server that Ollama started, where its process could be read."""
    children = hints.process.children if hints.process else ()
    lines = (of_process(child, {}) for child in children)
    return next((line for line in lines if line.engine == "llama.cpp"), None)


def _of_runner(runner: LaunchLine | None, name: str, unit: str = "") -> Figure | None:
    if runner is None:
        return None
    value = runner.number(name) if unit else runner.settings.get(name)
    return read_figure(value, unit, "on the command line of Ollama's llama.cpp process")


def _speculation(shown: Mapping[str, Any]) -> Figure:
    """Ollama drafts by itself when the model ships a draft part."""
    match = re.search(r"draft_num_predict\s+(\d+)", str(shown.get("parameters", "")))
    if match:
        return Figure(int(match[1]) > 0, "", Origin.READ, reason=f"/api/show: draft_num_predict {match[1]}")
    return unknown("", "Ollama does not tell it; it drafts by itself when the model ships a draft part")


def _capability(capabilities: Any, name: str) -> Figure:
    if not isinstance(capabilities, list):
        return unknown("", "/api/show does not list the model's capabilities")
    return Figure(name in capabilities, "", Origin.READ, reason=f"/api/show: capability `{name}`")


def _weights(model: Mapping[str, Any], loaded: bool) -> Figure:
    if loaded:
        return unknown("bytes", "/api/ps tells weights and cache together")
    return first_known(
        read_figure(model.get("size"), "bytes", "/api/tags"), unit="bytes", otherwise="Ollama has no model"
    )


def _extra(
    model: Mapping[str, Any], details: Mapping[str, Any], architecture: str, shown: Mapping[str, Any]
) -> dict[str, Figure]:
    size, on_gpu = model.get("size"), model.get("size_vram")
    share = on_gpu / size if isinstance(size, int) and isinstance(on_gpu, int) and size else None
    template = str(shown.get("template", ""))
    found = {
        "architecture": read_figure(architecture or None, "", "/api/show"),
        "weights_type": read_figure(details.get("quantization_level"), "", "/api/show"),
        "share_on_gpu": read_figure(share, "", "/api/ps: size_vram over size"),
        "template_thinks": read_figure(thinks(template) if template else None, "", "/api/show"),
        "template_tool_form": read_figure(tool_form(template), "", "/api/show"),
    }
    return {name: figure for name, figure in found.items() if figure is not None}
