"""From llama.cpp's replies, launch line and start log to its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from widelane.engines.json_shape import as_dict
from widelane.engines.llama_cpp_pool import PoolClues, pool_tokens, unified_pool
from widelane.engines.prometheus import Samples
from widelane.engines.server_facts import ServerFacts
from widelane.engines.sources import Sources, first_known, read_figure
from widelane.engines.start_log import StartLog
from widelane.facts.model_family import thinks, tool_form
from widelane.figures import Figure, Origin

NAME = "llama.cpp"
BESIDE = "pass the start command with --launch, or its log with --log"


@dataclass(frozen=True, slots=True)
class LlamaCppTold:
    """What HTTP and the hints told; a missing endpoint is None."""

    props: Mapping[str, Any]
    model: Mapping[str, Any]
    slots: list[Mapping[str, Any]] | None
    metrics: Samples | None
    sources: Sources


def llama_cpp_facts(told: LlamaCppTold, slots: Figure) -> ServerFacts:
    sources, log = told.sources, told.sources.log
    meta = as_dict(told.model.get("meta"))
    context = _context(told, meta, slots)
    clues = PoolClues(
        slots=slots,
        context=context,
        context_trained=read_figure(meta.get("n_ctx_train"), "tokens", "/v1/models"),
        sources=sources,
    )
    unified = unified_pool(clues)
    return ServerFacts(
        engine=NAME,
        version=first_known(
            read_figure(told.props.get("build_info"), "", "/props"),
            read_figure(log.version, "", "in the start log"),
            unit="",
            otherwise="the server does not say its build",
        ),
        model=first_known(
            read_figure(told.model.get("id"), "", "/v1/models"),
            read_figure(told.props.get("model_alias") or told.props.get("model_path"), "", "/props"),
            sources.read("alias"),
            sources.read("model"),
            sources.read("hf_repo"),
            unit="",
            otherwise="neither /v1/models nor /props answers",
        ),
        slots=slots,
        context_per_slot=context,
        context_trained=first_known(
            clues.context_trained,
            read_figure(log.context_trained, "tokens", "in the start log"),
            unit="tokens",
            otherwise="/v1/models does not say it",
        ),
        kv_dtype=_kv_dtype(sources),
        state_dtype=first_known(
            read_figure(log.state_types[1] if log.state_types else None, "", "in the start log"),
            unit="",
            otherwise="llama.cpp tells a recurrent state's type, if there is one, only in a verbose start log (-lv 5)",
        ),
        pool_tokens=pool_tokens(clues, unified),
        unified_pool=unified,
        speculation=_speculation(told),
        prefix_cache=_prefix_cache(told),
        queue_length=first_known(
            read_figure(_whole(told.metrics, "llamacpp:requests_deferred"), "requests", "/metrics"),
            unit="requests",
            otherwise="the server was started without --metrics",
        ),
        reasoning_parser=_reasoning_parser(told),
        tool_parser=_tool_parser(told),
        weights_bytes=first_known(
            read_figure(meta.get("size"), "bytes", "/v1/models"),
            read_figure(log.weights_bytes, "bytes", "in the start log"),
            unit="bytes",
            otherwise="/v1/models does not say it",
        ),
        parameters=first_known(
            read_figure(meta.get("n_params"), "parameters", "/v1/models"),
            read_figure(log.parameters, "parameters", "in the start log, rounded"),
            unit="parameters",
            otherwise="/v1/models does not say it",
        ),
        launch_command=sources.launch_command(),
        extra=_extra(told, meta),
    )


def _context(told: LlamaCppTold, meta: Mapping[str, Any], slots: Figure) -> Figure:
    settings = as_dict(told.props.get("default_generation_settings"))
    first_slot = told.slots[0] if told.slots else {}
    return first_known(
        read_figure(settings.get("n_ctx"), "tokens", "/props: of one slot"),
        read_figure(first_slot.get("n_ctx"), "tokens", "/slots: of one slot"),
        read_figure(meta.get("n_ctx"), "tokens", "/v1/models: of one slot"),
        read_figure(told.sources.log.context_per_slot, "tokens", "in the start log"),
        _context_by_launch(told.sources, slots),
        unit="tokens",
        otherwise=f"no endpoint says it: {BESIDE}",
    )


def _context_by_launch(sources: Sources, slots: Figure) -> Figure | None:
    launch = sources.launch
    total = launch.number("ctx_size") if launch else None
    if launch is None or not total:
        return None
    parallel = launch.number("parallel")
    split = parallel is not None and parallel > 0 and launch.settings.get("kv_unified") is not True
    share = total // parallel if split and parallel else total
    return Figure(share, "tokens", Origin.INFERRED, reason=f"-c {total} {'divided by -np' if split else 'shared'}")


def _kv_dtype(sources: Sources) -> Figure:
    written = [sources.read(name) for name in ("cache_type_k", "cache_type_v")]
    k, v = (str(figure.value) if figure else "f16" for figure in written)
    stated = next((figure for figure in written if figure), None)
    logged = sources.log.kv_types
    return first_known(
        read_figure(_both(*logged), "", "in the start log") if logged else None,
        Figure(_both(k, v), "", Origin.READ, reason=stated.reason) if stated else None,
        sources.default("f16", "", "-ctk"),
        unit="",
        otherwise=f"llama.cpp gives no KV dtype over HTTP: {BESIDE} (made with -lv 5)",
    )


def _both(k: str, v: str) -> str:
    return k if k == v else f"{k}/{v}"


def _speculation(told: LlamaCppTold) -> Figure:
    """False when off, else the method's name, or True when no more is known. `/props` says "none" even then."""
    slots = told.slots or []
    on = next((bool(slot["speculative"]) for slot in slots if "speculative" in slot), None)
    kinds = {as_dict(slot.get("params")).get("speculative.types") for slot in slots} - {None, "none", ""}
    method = next((str(kind) for kind in kinds), None)
    stated = told.sources.read("spec_type")
    draft = told.sources.read("draft_model") or told.sources.read("draft_hf")
    by_launch = stated or (Figure("draft-simple", "", Origin.READ, reason=draft.reason) if draft else None)
    if by_launch is not None and by_launch.value == "none":
        by_launch = Figure(False, "", Origin.READ, reason=by_launch.reason)
    drafted = told.metrics.total("llamacpp:spec_decode_num_draft_tokens_total") if told.metrics else None
    if on is False:
        return Figure(False, "", Origin.READ, reason="/slots")
    return first_known(
        read_figure(method, "", "/slots, of the last request"),
        by_launch,
        read_figure(True if on else None, "", "/slots"),
        read_figure(True if drafted else None, "", "/metrics counts drafted tokens"),
        told.sources.default(False, "", "--spec-type"),
        unit="",
        otherwise=f"/slots is off, and /props says none either way: {BESIDE}",
    )


def _prefix_cache(told: LlamaCppTold) -> Figure:
    reused = told.metrics.total("llamacpp:prompt_tokens_cached_total") if told.metrics else None
    return first_known(
        told.sources.read("cache_prompt"),
        read_figure(True if reused else None, "", "/metrics counts prompt tokens that were reused"),
        told.sources.default(True, "", "--no-cache-prompt"),
        Figure(True, "", Origin.ASSUMED, reason="on by default; the server does not say it"),
        unit="",
        otherwise="",
    )


def _reasoning_parser(told: LlamaCppTold) -> Figure:
    """The format in force. `/props` says "none" whatever it is; a slot that served a chat tells the truth."""
    used = [as_dict(slot.get("params")).get("reasoning_format") for slot in told.slots or []]
    return first_known(
        read_figure(next((f for f in used if f not in (None, "none")), None), "", "/slots, of the last request"),
        told.sources.read("reasoning_format"),
        told.sources.default("deepseek", "", "--reasoning-format"),
        unit="",
        otherwise="the server tells it only after a chat, in /slots: probe",
    )


def _tool_parser(told: LlamaCppTold) -> Figure:
    caps = as_dict(told.props.get("chat_template_caps"))
    if "supports_tools" not in caps:
        return first_known(unit="", otherwise="this build's /props does not say what its chat template can do")
    if not (caps["supports_tools"] or caps.get("supports_tool_calls")):
        return Figure(False, "", Origin.READ, reason="the chat template has no tools: they are dropped without a word")
    form = tool_form(str(told.props.get("chat_template", "")))
    return Figure(form or "by template", "", Origin.READ, reason="llama.cpp parses by the form of the chat template")


def _extra(told: LlamaCppTold, meta: Mapping[str, Any]) -> dict[str, Figure]:
    sources, log, props = told.sources, told.sources.log, told.props
    template = props.get("chat_template")
    found: dict[str, Figure | None] = {
        "weights_type": read_figure(meta.get("ftype") or props.get("model_ftype"), ""),
        "slots_endpoint": read_figure(told.slots is not None, ""),
        "metrics_endpoint": read_figure(told.metrics is not None, ""),
        "batch": sources.read("batch_size", "tokens", int) or read_figure(log.batch, "tokens", "in the start log"),
        "micro_batch": sources.read("ubatch_size", "tokens", int)
        or read_figure(log.micro_batch, "tokens", "in the start log"),
        "threads": sources.read("threads", "threads", int) or read_figure(log.threads, "threads", "in the start log"),
        "flash_attention": sources.read("flash_attn") or read_figure(log.flash_attention, "", "in the start log"),
        "kv_bytes": read_figure(log.kv_bytes, "bytes", "in the start log"),
        "kv_bytes_per_token": read_figure(_per_token(log), "bytes", "in the start log: cache size over its cells"),
        "draft_head": read_figure(
            log.draft_layers > 0 if log.draft_layers is not None else None, "", "in the start log"
        ),
        "layers": read_figure(log.offloaded[1] if log.offloaded else log.layers, "layers", "in the start log"),
        "layers_on_gpu": read_figure(log.offloaded[0] if log.offloaded else None, "layers", "in the start log"),
        "busy_per_decode": read_figure(
            told.metrics.highest("llamacpp:n_busy_slots_per_decode") if told.metrics else None, "slots", "/metrics"
        ),
        "wrapper": read_figure(sources.launch.wrapper if sources.launch else None, ""),
    }
    if isinstance(template, str):
        found["template_thinks"] = read_figure(thinks(template), "", "the chat template")
        found["template_tool_form"] = read_figure(tool_form(template), "", "the chat template")
    return {name: figure for name, figure in found.items() if figure is not None}


def _per_token(log: StartLog) -> float | None:
    return log.kv_bytes / log.pool_tokens if log.kv_bytes and log.pool_tokens else None


def _whole(samples: Samples | None, name: str) -> int | None:
    value = samples.total(name) if samples else None
    return None if value is None else int(value)
