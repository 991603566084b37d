"""Servers of which little more is known than the protocol they speak, and what their documentation says of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from widelane.engines.ask import ask_json, ask_text
from widelane.engines.engine import Gauges
from widelane.engines.hints import NO_HINTS, Hints
from widelane.engines.json_shape import first_listed
from widelane.engines.prometheus import parse_metrics
from widelane.engines.server_facts import ServerFacts
from widelane.engines.sources import first_known, read_figure, read_sources
from widelane.figures import Figure, Origin, unknown
from widelane.records import Fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What is known beforehand of one kind of server.

    Attributes:
        note: one honest sentence for the user.
        slots: default number of sequences decoded together, None when there is none.
        slots_setting, context_setting: names in `plan.launch.flags` of what sets them.
        fixed_length: fields that keep a request writing; `min_tokens` is added where `length_field` names it.
        prometheus: path and prefix of Prometheus metrics, None when there are none.
    """

    name: str
    note: str
    slots: int | None = None
    slots_why: str = "the server does not tell it: probe"
    slots_setting: str = ""
    context_setting: str = ""
    fixed_length: Mapping[str, Any] = field(default_factory=dict)
    length_field: str | None = None
    thinking_off: Mapping[str, Any] = field(default_factory=dict)
    prometheus: tuple[str, str] | None = None


_THINKING_OFF = {"chat_template_kwargs": {"enable_thinking": False}}

UNKNOWN = Kind(
    name="openai-compatible",
    note="This server speaks the OpenAI protocol and does not say what it is: what can be probed is probed.",
    thinking_off=_THINKING_OFF,
)
LLAMA_CPP_PYTHON = Kind(
    name="llama-cpp-python",
    note="llama-cpp-python answers one request at a time, and by default (interrupt_requests) a second request cuts "
    "the first stream short: use one lane, or serve the same file with llama-server.",
    slots=1,
    slots_why="llama-cpp-python answers one request at a time",
    context_setting="n_ctx",
)
TENSORRT_LLM = Kind(
    name="tensorrt-llm",
    note="TensorRT-LLM is known by its documentation only; its /metrics is emptied by reading and is left alone.",
    slots=None,
    slots_why="TensorRT-LLM tells max_batch_size only in its statistics: pass the start command with --launch",
    slots_setting="max_batch_size",
    context_setting="max_seq_len",
    fixed_length={"ignore_eos": True},
    length_field="min_tokens",
    thinking_off=_THINKING_OFF,
    prometheus=("/prometheus/metrics", "trtllm_"),
)


class OpenAiCompatible:
    """Adapter for any server with `/v1/models` and `/v1/chat/completions`."""

    def __init__(self, fetch: Fetch, kind: Kind = UNKNOWN, *, version: str | None = None) -> None:
        self._fetch = fetch
        self._kind = kind
        self._version = version

    @property
    def name(self) -> str:
        return self._kind.name

    async def facts(self, hints: Hints = NO_HINTS) -> ServerFacts:
        """The model, and what the launch line says; the rest is unknown with a reason."""
        kind = self._kind
        model = first_listed(await ask_json(self._fetch, "/v1/models"))
        sources = read_sources(hints, kind.name)
        silent = f"{'this server' if kind is UNKNOWN else kind.name} does not tell it over HTTP"
        context = model.get("max_model_len") or model.get("context_length") or model.get("context_window")
        return ServerFacts(
            engine=kind.name,
            version=first_known(read_figure(self._version, ""), unit="", otherwise=silent),
            model=first_known(
                read_figure(model.get("id"), "", "/v1/models"), unit="", otherwise="/v1/models does not answer"
            ),
            slots=first_known(
                sources.read(kind.slots_setting, "slots", int),
                Figure(kind.slots, "slots", Origin.ASSUMED, reason=kind.slots_why) if kind.slots else None,
                unit="slots",
                otherwise=kind.slots_why,
            ),
            context_per_slot=first_known(
                read_figure(context if isinstance(context, int) else None, "tokens", "/v1/models"),
                sources.read(kind.context_setting, "tokens", int),
                unit="tokens",
                otherwise=silent,
            ),
            context_trained=unknown("tokens", silent),
            kv_dtype=unknown("", silent),
            state_dtype=unknown("", silent),
            pool_tokens=unknown("tokens", silent),
            unified_pool=unknown("", silent),
            speculation=unknown("", silent),
            prefix_cache=unknown("", f"{silent}: probe"),
            queue_length=unknown("requests", silent),
            reasoning_parser=first_known(sources.read("reasoning_parser"), unit="", otherwise=f"{silent}: probe"),
            tool_parser=first_known(sources.read("tool_parser"), unit="", otherwise=f"{silent}: probe"),
            weights_bytes=unknown("bytes", silent),
            parameters=unknown("parameters", silent),
            launch_command=sources.launch_command(),
            extra={"note": Figure(kind.note, "", Origin.ASSUMED)},
        )

    async def gauges(self) -> Gauges:
        """None, but for a server whose Prometheus metrics are known."""
        if self._kind.prometheus is None:
            return Gauges(reason="no metrics are known of this server")
        path, prefix = self._kind.prometheus
        samples = parse_metrics(await ask_text(self._fetch, path) or "")
        if not samples.has_prefix(prefix):
            return Gauges(reason=f"{path} does not answer")
        return Gauges(
            running=samples.total(f"{prefix}num_requests_running"),
            waiting=samples.total(f"{prefix}num_requests_waiting"),
            kv_usage=samples.highest(f"{prefix}kv_cache_utilization"),
        )

    def forced_text(self, text: str) -> Mapping[str, Any] | None:
        """None: no field is known that all such servers understand."""
        return None

    def fixed_length(self, tokens: int) -> Mapping[str, Any]:
        if self._kind.length_field is None:
            return dict(self._kind.fixed_length)
        return {**self._kind.fixed_length, self._kind.length_field: tokens}

    def no_prefix_cache(self) -> Mapping[str, Any]:
        """Nothing: a prompt that was not seen before does it."""
        return {}

    def thinking_off(self) -> Mapping[str, Any]:
        return self._kind.thinking_off
