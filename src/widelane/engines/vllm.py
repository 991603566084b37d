"""vLLM: what it tells over HTTP, what only its launch line or start log tells, and its request fields.

Sources: recorded replies of 0.32.0; names of older metrics are accepted too. `/server_info` answers only in development
mode (`VLLM_SERVER_DEV_MODE=1`), and then tells nearly everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from widelane.engines.ask import ask_json, ask_text
from widelane.engines.engine import Gauges
from widelane.engines.hints import NO_HINTS, Hints
from widelane.engines.json_shape import as_dict, first_listed
from widelane.engines.prometheus import parse_metrics
from widelane.engines.server_facts import ServerFacts
from widelane.engines.sources import read_sources
from widelane.engines.vllm_facts import NAME, VllmTold, vllm_facts
from widelane.plan.launch.versions import version_of
from widelane.records import Fetch

_STRUCTURED_SINCE = (0, 11)
"""`structured_outputs` took the place of the `guided_*` fields, which went in 0.12."""


class Vllm:
    """Adapter for vLLM's OpenAI-compatible server."""

    name = NAME

    def __init__(self, fetch: Fetch, *, version: str | None = None) -> None:
        self._fetch = fetch
        self._version = version

    async def facts(self, hints: Hints = NO_HINTS) -> ServerFacts:
        """All that can be read without generating a token."""
        version = await ask_json(self._fetch, "/version")
        models = await ask_json(self._fetch, "/v1/models")
        metrics = await ask_text(self._fetch, "/metrics")
        config = await ask_json(self._fetch, "/server_info?config_format=json")
        if isinstance(version, dict) and version.get("version"):
            self._version = str(version["version"])
        samples = parse_metrics(metrics) if metrics else None
        return vllm_facts(
            VllmTold(
                version=self._version,
                model=first_listed(models),
                samples=samples,
                labels=samples.labels("vllm:cache_config_info") if samples else {},
                config=as_dict(as_dict(config).get("vllm_config")),
                sources=read_sources(hints, NAME),
            )
        )

    async def gauges(self) -> Gauges:
        """From `/metrics`. One reading may show less than is in flight: gauges move once a step."""
        text = await ask_text(self._fetch, "/metrics")
        if not text:
            return Gauges(reason="/metrics does not answer (--disable-log-stats, or a proxy before it)")
        samples = parse_metrics(text)
        return Gauges(
            running=samples.total("vllm:num_requests_running"),
            waiting=samples.total("vllm:num_requests_waiting"),
            kv_usage=samples.highest("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
            preemptions_total=samples.total("vllm:num_preemptions_total"),
            drafted_total=samples.total("vllm:spec_decode_num_draft_tokens_total"),
            accepted_total=samples.total("vllm:spec_decode_num_accepted_tokens_total"),
            drafts_total=samples.total("vllm:spec_decode_num_drafts_total"),
            accepted_per_position=samples.by_label("position", "vllm:spec_decode_num_accepted_tokens_per_pos_total"),
            prefix_queries_total=samples.total(
                "vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"
            ),
            prefix_hits_total=samples.total("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
            output_tokens_total=samples.total("vllm:generation_tokens_total"),
        )

    def forced_text(self, text: str) -> Mapping[str, Any] | None:
        """A choice of one."""
        old = version_of(self._version)
        if old is not None and old < _STRUCTURED_SINCE:
            return {"guided_choice": [text]}
        return {"structured_outputs": {"choice": [text]}}

    def fixed_length(self, tokens: int) -> Mapping[str, Any]:
        return {"min_tokens": tokens, "ignore_eos": True}

    def no_prefix_cache(self) -> Mapping[str, Any]:
        """Nothing: vLLM has no such field, a prompt that was not seen before does it."""
        return {}

    def thinking_off(self) -> Mapping[str, Any]:
        return {"chat_template_kwargs": {"enable_thinking": False}}
