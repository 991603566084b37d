"""mlx-lm's server: it tells its model and nothing else; `--kv-bits` or `--draft-model` turn its batching off.

Sources: recorded replies of 0.32.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from widelane.engines.ask import ask_json
from widelane.engines.engine import Gauges
from widelane.engines.hints import NO_HINTS, Hints
from widelane.engines.json_shape import first_listed
from widelane.engines.server_facts import ServerFacts
from widelane.engines.sources import Sources, first_known, read_figure, read_sources
from widelane.figures import Figure, Origin, unknown
from widelane.records import Fetch

NAME = "mlx-lm"
_SILENT = "mlx-lm does not tell it over HTTP: pass the start command with --launch"


class MlxLm:
    """Adapter for `mlx_lm.server`."""

    name = NAME

    def __init__(self, fetch: Fetch, *, version: str | None = None) -> None:
        self._fetch = fetch
        self._version = version

    async def facts(self, hints: Hints = NO_HINTS) -> ServerFacts:
        """The model, and what the launch line says; the rest is unknown with a reason."""
        model = first_listed(await ask_json(self._fetch, "/v1/models"))
        sources = read_sources(hints, NAME)
        draft = sources.read("draft_model")
        return ServerFacts(
            engine=NAME,
            version=first_known(
                read_figure(self._version, "", "the fingerprint of a reply"), unit="", otherwise="no reply has named it"
            ),
            model=first_known(
                read_figure(model.get("id"), "", "/v1/models"),
                sources.read("model"),
                unit="",
                otherwise="/v1/models lists none",
            ),
            slots=_slots(sources),
            context_per_slot=unknown("tokens", "mlx-lm has no limit of its own: the model's config.json names it"),
            context_trained=unknown("tokens", "mlx-lm does not tell it: see the model's config.json"),
            kv_dtype=_kv_dtype(sources),
            state_dtype=unknown("", "mlx-lm does not tell the type of a recurrent state"),
            pool_tokens=unknown("tokens", "mlx-lm has no fixed pool: its cache grows with the requests"),
            unified_pool=Figure(False, "", Origin.INFERRED, reason="each sequence has a cache of its own"),
            speculation=first_known(
                Figure("draft-model", "", Origin.READ, reason=draft.reason) if draft else None,
                sources.default(False, "", "--draft-model"),
                unit="",
                otherwise=_SILENT,
            ),
            prefix_cache=Figure(True, "", Origin.ASSUMED, reason="on by default; replies count cached tokens"),
            queue_length=unknown("requests", "mlx-lm has no metrics"),
            reasoning_parser=Figure("by tokenizer", "", Origin.ASSUMED, reason="mlx-lm finds the tags itself"),
            tool_parser=Figure("by tokenizer", "", Origin.ASSUMED, reason="mlx-lm finds the form itself"),
            weights_bytes=unknown("bytes", "mlx-lm does not tell it"),
            parameters=unknown("parameters", "mlx-lm does not tell it"),
            launch_command=sources.launch_command(),
        )

    async def gauges(self) -> Gauges:
        return Gauges(reason="mlx-lm has no metrics")

    def forced_text(self, text: str) -> Mapping[str, Any] | None:
        """None: mlx-lm does not constrain its output."""
        return None

    def fixed_length(self, tokens: int) -> Mapping[str, Any]:
        """Nothing: `max_tokens` only bounds the answer."""
        return {}

    def no_prefix_cache(self) -> Mapping[str, Any]:
        """Nothing: a prompt that was not seen before does it."""
        return {}

    def thinking_off(self) -> Mapping[str, Any]:
        return {"chat_template_kwargs": {"enable_thinking": False}}


def _slots(sources: Sources) -> Figure:
    off = next((flag for flag in ("kv_bits", "draft_model") if sources.setting(flag)), None)
    if off is not None:
        reason = f"--{off.replace('_', '-')} turns mlx-lm's batching off"
        return Figure(1, "slots", Origin.INFERRED, reason=reason)
    return first_known(
        sources.read("decode_concurrency", "slots", int),
        sources.default(32, "slots", "--decode-concurrency"),
        Figure(32, "slots", Origin.ASSUMED, reason=f"--decode-concurrency is 32 by default. {_SILENT}, or probe"),
        unit="slots",
        otherwise="",
    )


def _kv_dtype(sources: Sources) -> Figure:
    bits = sources.read("kv_bits")
    return first_known(
        Figure(f"{bits.value} bits", "", Origin.READ, reason=bits.reason) if bits else None,
        sources.default("model", "", "--kv-bits"),
        unit="",
        otherwise=_SILENT,
    )
