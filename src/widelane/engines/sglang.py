"""SGLang: it tells nearly everything in `/server_info`. By documentation and source of 0.5.23, not recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from widelane.engines.ask import ask_json, ask_text
from widelane.engines.engine import Gauges
from widelane.engines.forced_text import regex
from widelane.engines.hints import NO_HINTS, Hints
from widelane.engines.json_shape import as_dict, as_dicts, first_listed
from widelane.engines.prometheus import parse_metrics
from widelane.engines.server_facts import ServerFacts
from widelane.engines.sources import Sources, first_known, read_figure, read_sources
from widelane.facts.model_family import keeps_state
from widelane.figures import Figure, Origin, unknown
from widelane.records import Fetch

NAME = "sglang"
_NO_METRICS = "the server was started without --enable-metrics"


class Sglang:
    """Adapter for SGLang's OpenAI-compatible server."""

    name = NAME

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def facts(self, hints: Hints = NO_HINTS) -> ServerFacts:
        """All that can be read without generating a token."""
        info = as_dict(await server_info(self._fetch))
        about = as_dict(await ask_json(self._fetch, "/model_info") or await ask_json(self._fetch, "/get_model_info"))
        model = first_listed(await ask_json(self._fetch, "/v1/models"))
        queue = (await self.gauges()).waiting
        return _facts(_Told(info, about, model, read_sources(hints, NAME)), queue)

    async def gauges(self) -> Gauges:
        """From `/metrics`, which only `--enable-metrics` turns on."""
        text = await ask_text(self._fetch, "/metrics")
        samples = parse_metrics(text or "")
        if not samples.has_prefix("sglang:"):
            return Gauges(reason=_NO_METRICS)
        return Gauges(
            running=samples.total("sglang:num_running_reqs"),
            waiting=samples.total("sglang:num_queue_reqs"),
            kv_usage=samples.highest("sglang:token_usage"),
            preemptions_total=samples.total("sglang:num_retracted_requests_total", "sglang:num_retracted_reqs"),
            prefix_queries_total=samples.total("sglang:prompt_tokens_total"),
            prefix_hits_total=samples.total("sglang:cached_tokens_total"),
            output_tokens_total=samples.total("sglang:generation_tokens_total"),
        )

    def forced_text(self, text: str) -> Mapping[str, Any] | None:
        return {"regex": regex(text)}

    def fixed_length(self, tokens: int) -> Mapping[str, Any]:
        return {"min_tokens": tokens, "ignore_eos": True}

    def no_prefix_cache(self) -> Mapping[str, Any]:
        """Nothing: a prompt that was not seen before does it."""
        return {}

    def thinking_off(self) -> Mapping[str, Any]:
        return {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}


async def server_info(fetch: Fetch) -> Any:
    """`/server_info`, by its old name where it has not the new one."""
    info = await ask_json(fetch, "/server_info")
    return info if info is not None else await ask_json(fetch, "/get_server_info")


@dataclass(frozen=True, slots=True)
class _Told:
    """What HTTP and the hints told."""

    info: Mapping[str, Any]
    about: Mapping[str, Any]
    model: Mapping[str, Any]
    sources: Sources

    @property
    def state(self) -> Mapping[str, Any]:
        """The first scheduler's own figures."""
        return next(iter(as_dicts(self.info.get("internal_states"))), {})

    def read(self, name: str, unit: str = "") -> Figure:
        """A field of `/server_info`, else of `/model_info`, else of the launch line."""
        return first_known(
            read_figure(self.info.get(name), unit, "/server_info"),
            read_figure(self.about.get(name), unit, "/model_info"),
            self.sources.read(name, unit, int if unit else str),
            unit=unit,
            otherwise=f"/server_info does not name {name}",
        )

    def read_or_off(self, name: str) -> Figure:
        """As `read`; a field that is there and null means off."""
        there = next((part for part in (self.info, self.about) if name in part), None)
        if there is not None and there[name] is None:
            return Figure(False, "", Origin.READ, reason="the server names none")
        return self.read(name)


def _state_dtype(told: _Told) -> Figure:
    """`/server_info` names a type for every model; it means something only where there is a recurrent state."""
    name = f"{told.model.get('id', '')} {told.info.get('model_path', '')}"
    has_pool = any("mamba" in part for part in as_dict(told.state.get("memory_usage")))
    if has_pool or keeps_state(name):
        return told.read("mamba_ssm_dtype")
    return unknown("", "nothing shows that the model keeps a recurrent state")


def _facts(told: _Told, queue: float | None) -> ServerFacts:
    sources, state, info, model = told.sources, told.state, told.info, told.model
    cache_off = told.read("disable_radix_cache").value
    return ServerFacts(
        engine=NAME,
        version=told.read("version"),
        model=first_known(
            read_figure(model.get("id"), "", "/v1/models"),
            read_figure(info.get("served_model_name"), "", "/server_info"),
            sources.read("model"),
            unit="",
            otherwise="/v1/models does not answer",
        ),
        slots=first_known(
            read_figure(state.get("effective_max_running_requests_per_dp"), "slots", "/server_info: in effect"),
            told.read("max_running_requests", "slots"),
            unit="slots",
            otherwise="/server_info does not name max_running_requests: the server sets it by its memory",
        ),
        context_per_slot=first_known(
            read_figure(model.get("max_model_len"), "tokens", "/v1/models"),
            told.read("context_length", "tokens"),
            unit="tokens",
            otherwise="/v1/models does not say it",
        ),
        context_trained=unknown("tokens", "SGLang does not say it: see the model's config.json"),
        kv_dtype=told.read("kv_cache_dtype"),
        state_dtype=_state_dtype(told),
        pool_tokens=first_known(
            read_figure(as_dict(state.get("memory_usage")).get("token_capacity"), "tokens", "/server_info"),
            read_figure(info.get("max_total_num_tokens"), "tokens", "/server_info"),
            unit="tokens",
            otherwise="/server_info does not name the token capacity",
        ),
        unified_pool=Figure(
            False, "", Origin.INFERRED, reason="SGLang's pool is shared, but a full one retracts, it fails nobody"
        ),
        speculation=told.read_or_off("speculative_algorithm"),
        prefix_cache=first_known(
            read_figure(None if cache_off is None else not cache_off, "", "/server_info: disable_radix_cache"),
            unit="",
            otherwise="/server_info does not name disable_radix_cache",
        ),
        queue_length=first_known(
            read_figure(None if queue is None else int(queue), "requests", "/metrics"),
            unit="requests",
            otherwise=_NO_METRICS,
        ),
        reasoning_parser=told.read_or_off("reasoning_parser"),
        tool_parser=told.read_or_off("tool_call_parser"),
        weights_bytes=unknown("bytes", "SGLang does not say it"),
        parameters=unknown("parameters", "SGLang does not say it: see the model's config.json"),
        launch_command=sources.launch_command(),
        extra=_extra(info, state),
    )


def _extra(info: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Figure]:
    found = {
        "spec_accept_length": read_figure(state.get("avg_spec_accept_length"), "tokens", "/server_info"),
        "mem_fraction_static": read_figure(info.get("mem_fraction_static"), "", "/server_info"),
        "speculative_num_draft_tokens": read_figure(info.get("speculative_num_draft_tokens"), "tokens", "/server_info"),
    }
    return {name: figure for name, figure in found.items() if figure is not None}
