"""What llama.cpp's server tells of itself: `/props`, `/slots`, `/metrics`, `/v1/models` and its tools for texts.

Forms are those of recorded replies of b11549.
"""

from __future__ import annotations

from typing import Any

from widelane.sim.chat_template import ChatTemplate
from widelane.sim.events import Gauges, SlotState
from widelane.sim.refusal import PlainReply, json_reply, text_reply
from widelane.sim.reply_form import CREATED, VERSIONS
from widelane.sim.service import ModelService
from widelane.sim.settings import ServerSettings, Thoughts


def read(service: ModelService, path: str) -> PlainReply | None:
    """The reply to a GET; None for a path that llama.cpp does not have."""
    settings = service.settings
    if path in ("/health", "/v1/health"):
        return json_reply({"status": "ok"})
    if path in ("/v1/models", "/models"):
        return json_reply(models(settings))
    if path == "/props":
        return json_reply(props(settings))
    if path == "/slots":
        return json_reply(slots(settings, service.driver.slots()))
    if path == "/metrics":
        return text_reply(metrics(service.driver.gauges()))
    return None


def props(settings: ServerSettings) -> dict[str, Any]:
    """`/props`: settings, and the chat template."""
    return {
        "default_generation_settings": {"params": _params(settings, served=False), "n_ctx": settings.context_tokens},
        "total_slots": settings.slots,
        "model_alias": settings.model,
        "model_ftype": settings.weights_type,
        "model_path": settings.model,
        "modalities": {"vision": False, "video": False, "audio": False},
        "endpoint_slots": True,
        "endpoint_props": False,
        "endpoint_metrics": True,
        "chat_template": settings.template.source,
        "chat_template_caps": _caps(settings.template),
        "build_info": VERSIONS["llama.cpp"],
        "is_sleeping": False,
    }


def slots(settings: ServerSettings, running: tuple[SlotState, ...]) -> list[dict[str, Any]]:
    """`/slots`: one object a slot, with what it does."""
    busy = {state.slot: state for state in running}
    return [_slot(settings, number, busy.get(number)) for number in range(settings.slots)]


def models(settings: ServerSettings) -> dict[str, Any]:
    """`/v1/models`."""
    meta = {
        "n_ctx": settings.context_tokens,
        "n_ctx_train": settings.trained_tokens,
        "n_params": settings.parameters,
        "size": settings.weights_bytes,
        "ftype": settings.weights_type,
    }
    known = {name: value for name, value in meta.items() if value}
    entry = {"id": settings.model, "object": "model", "created": CREATED, "owned_by": "llamacpp", "meta": known}
    return {"object": "list", "data": [entry]}


def metrics(gauges: Gauges) -> str:
    """`/metrics`."""
    computed = gauges.computed_tokens
    values: dict[str, tuple[str, float]] = {
        "prompt_tokens_total": ("counter", computed),
        "prompt_tokens_cached_total": ("counter", gauges.prefix_hit_tokens),
        "tokens_predicted_total": ("counter", gauges.output_tokens),
        "n_decode_total": ("counter", gauges.decode_steps),
        "spec_decode_num_draft_tokens_total": ("counter", gauges.drafted_tokens),
        "spec_decode_num_accepted_tokens_total": ("counter", gauges.accepted_tokens),
        "spec_decode_num_drafts_total": ("counter", drafts(gauges)),
        "requests_processing": ("gauge", gauges.running),
        "requests_deferred": ("gauge", gauges.waiting),
        "n_busy_slots_per_decode": ("gauge", gauges.busy_slots_per_decode or 0.0),
    }
    lines = [f"# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value:.10g}\n" for name, (kind, value) in values.items()]
    for place, kept in enumerate(gauges.accepted_by_position):
        lines.append(f'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{position="{place}"}} {kept}\n')
    return "".join(lines)


def drafts(gauges: Gauges) -> int:
    """How often something was drafted: each sequence drafts its whole depth at each of its steps."""
    depth = len(gauges.accepted_by_position)
    return gauges.drafted_tokens // depth if depth else 0


def start_log(settings: ServerSettings) -> str:
    """The lines of a start log that tell what no endpoint does."""
    unified = str(settings.unified).lower()
    lines = [
        f"srv    load_model: initializing, n_slots = {settings.slots}, n_ctx_slot = {settings.context_tokens},"
        f" kv_unified = '{unified}'"
    ]
    if settings.layers is not None:
        held = settings.layers if settings.layers_on_gpu is None else settings.layers_on_gpu
        lines.insert(0, f"load_tensors: offloaded {held}/{settings.layers} layers to GPU")
    return "".join(f"{line}\n" for line in lines)


def launch_line(settings: ServerSettings) -> str:
    """The command that starts such a server."""
    words = ["llama-server", "-m", settings.model]
    if not settings.unified:
        words += ["-np", str(settings.slots), "-c", str(settings.slots * settings.context_tokens)]
    if settings.kv_dtype not in ("auto", "f16"):
        words += ["-ctk", settings.kv_dtype, "-ctv", settings.kv_dtype]
    if settings.draft_depth:
        words += ["--spec-type", "draft-mtp", "--spec-draft-n-max", str(settings.draft_depth)]
    if not settings.prefix_cache:
        words.append("--no-cache-prompt")
    if settings.habits.thoughts is Thoughts.IN_TEXT:
        words += ["--reasoning-format", "none"]
    return " ".join(words)


def _slot(settings: ServerSettings, number: int, state: SlotState | None) -> dict[str, Any]:
    slot: dict[str, Any] = {
        "id": number,
        "n_ctx": settings.context_tokens,
        "speculative": settings.draft_depth > 0,
        "is_processing": state is not None,
    }
    if state is None:
        return slot
    return slot | {
        "n_prompt_tokens": state.prompt_tokens,
        "n_prompt_tokens_processed": min(state.read_tokens, state.prompt_tokens),
        "params": _params(settings, served=True),
        "next_token": [{"has_next_token": True, "n_decoded": state.written_tokens}],
    }


def _params(settings: ServerSettings, *, served: bool) -> dict[str, Any]:
    """Sampling defaults; the reasoning format is told only by a slot that serves a chat."""
    apart = settings.habits.thoughts is Thoughts.APART
    return {
        "temperature": 0.8 if settings.habits.samples else 0.0,
        "max_tokens": settings.habits.default_max_tokens or -1,
        "n_predict": settings.habits.default_max_tokens or -1,
        "reasoning_format": "deepseek" if served and apart else "none",
        "speculative.types": "draft-mtp" if served and settings.draft_depth else "none",
    }


def _caps(template: ChatTemplate) -> dict[str, bool]:
    return {
        "supports_string_content": True,
        "supports_system_role": True,
        "supports_tools": template.knows_tools,
        "supports_tool_calls": template.knows_tools,
    }
