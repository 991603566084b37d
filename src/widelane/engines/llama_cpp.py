"""llama.cpp's server: what it tells over HTTP, what only its launch line or log tells, and its request fields.

Sources: recorded replies of b11549, source of b11434. Since November 2025 a start without `-np` gives four slots that
share one KV pool; an explicit `-np` splits the context between the slots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from widelane.engines.ask import ask, ask_json, ask_text
from widelane.engines.engine import Gauges
from widelane.engines.forced_text import gbnf
from widelane.engines.hints import NO_HINTS, Hints
from widelane.engines.json_shape import as_dict, as_dicts, first_listed
from widelane.engines.llama_cpp_facts import BESIDE, NAME, LlamaCppTold, llama_cpp_facts
from widelane.engines.prometheus import Samples, parse_metrics
from widelane.engines.server_facts import ServerFacts
from widelane.engines.sources import first_known, positive, read_figure, read_sources
from widelane.figures import Figure
from widelane.records import Fetch

_TOO_MANY = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "n": 999}
"""More choices than there can be slots: refused with the number of slots, before anything is generated."""


class LlamaCpp:
    """Adapter for `llama-server` and what is built on it (ramalama, the llama.cpp in containers)."""

    name = NAME

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def facts(self, hints: Hints = NO_HINTS) -> ServerFacts:
        """All that can be read without generating a token."""
        models = await ask_json(self._fetch, "/v1/models")
        props = await ask_json(self._fetch, "/props")
        metrics = await ask_text(self._fetch, "/metrics")
        told = LlamaCppTold(
            as_dict(props),
            first_listed(models),
            await self._slots(),
            parse_metrics(metrics) if metrics else None,
            read_sources(hints, NAME),
        )
        return llama_cpp_facts(told, await self._slot_figure(told))

    async def gauges(self) -> Gauges:
        """From `/metrics`; where that is off (the default), the busy slots of `/slots`."""
        text = await ask_text(self._fetch, "/metrics")
        if text:
            samples = parse_metrics(text)
            return Gauges(
                running=samples.total("llamacpp:requests_processing"),
                waiting=samples.total("llamacpp:requests_deferred"),
                kv_usage=samples.highest("llamacpp:kv_cache_usage_ratio"),
                drafted_total=samples.total("llamacpp:spec_decode_num_draft_tokens_total"),
                accepted_total=samples.total("llamacpp:spec_decode_num_accepted_tokens_total"),
                drafts_total=samples.total("llamacpp:spec_decode_num_drafts_total"),
                accepted_per_position=samples.by_label(
                    "position", "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
                ),
                prefix_queries_total=_prompt_tokens(samples),
                prefix_hits_total=samples.total("llamacpp:prompt_tokens_cached_total"),
                busy_per_decode=samples.highest("llamacpp:n_busy_slots_per_decode"),
                output_tokens_total=samples.total("llamacpp:tokens_predicted_total"),
            )
        slots = await self._slots()
        if slots is None:
            return Gauges(reason="the server was started without --metrics and with --no-slots")
        return Gauges(running=float(sum(1 for slot in slots if slot.get("is_processing"))))

    def forced_text(self, text: str) -> Mapping[str, Any] | None:
        """A grammar with one string. The server refuses it together with `tools`."""
        return {"grammar": gbnf(text)}

    def fixed_length(self, tokens: int) -> Mapping[str, Any]:
        return {"ignore_eos": True, "n_predict": tokens}

    def no_prefix_cache(self) -> Mapping[str, Any]:
        return {"cache_prompt": False}

    def thinking_off(self) -> Mapping[str, Any]:
        return {"chat_template_kwargs": {"enable_thinking": False}}

    async def _slots(self) -> list[Mapping[str, Any]] | None:
        slots = await ask_json(self._fetch, "/slots")
        return as_dicts(slots) if isinstance(slots, list) else None

    async def _slot_figure(self, told: LlamaCppTold) -> Figure:
        claimed = read_figure(told.props.get("total_slots"), "slots", "/props")
        listed = read_figure(len(told.slots) if told.slots else None, "slots", "/slots")
        refused = None
        if claimed is None and listed is None:
            refused = await self._slots_by_refusal()
        sources = told.sources
        parallel = sources.read("parallel", "slots", positive)
        figure = first_known(
            claimed,
            listed,
            refused,
            parallel,
            read_figure(sources.log.slots, "slots", "in the start log"),
            sources.default(4, "slots", "-np"),
            unit="slots",
            otherwise=f"/props and /slots are off and an oversized `n` is not refused: probe, or {BESIDE}",
        )
        if figure.value == 4 and sources.launch is not None and parallel is None:
            note = "-np is not set: four slots, sharing one pool"
            return Figure(4, "slots", figure.origin, reason=f"{figure.reason}; {note}")
        return figure

    async def _slots_by_refusal(self) -> Figure | None:
        reply = await ask(self._fetch, "/v1/chat/completions", _TOO_MANY)
        if reply is None or reply.status != 400:
            return None
        match = re.search(rb"between 1 <= value <= (\d+)", reply.body)
        return (
            read_figure(int(match[1]), "slots", "the server refuses more choices than it has slots") if match else None
        )


def _prompt_tokens(samples: Samples) -> float | None:
    """Prompt tokens computed and reused."""
    computed, reused = (
        samples.total("llamacpp:prompt_tokens_total"),
        samples.total("llamacpp:prompt_tokens_cached_total"),
    )
    return computed + reused if computed is not None and reused is not None else None
