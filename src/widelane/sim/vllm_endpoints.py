"""What vLLM tells of itself: `/version`, `/v1/models`, `/metrics`, and `/server_info` as in development mode.

Forms are those of recorded replies of 0.32.0. A real server answers `/server_info` only when it was started with
`VLLM_SERVER_DEV_MODE=1`; the simulated one was, for there is nothing to hide.
"""

from __future__ import annotations

from typing import Any

from widelane.facts.model_family import reasoning_parsers, tool_parsers
from widelane.sim.events import Gauges
from widelane.sim.llama_cpp_endpoints import drafts
from widelane.sim.refusal import PlainReply, json_reply, text_reply
from widelane.sim.reply_form import CREATED, VERSIONS
from widelane.sim.service import ModelService
from widelane.sim.settings import Calls, ServerSettings, Thoughts


def read(service: ModelService, path: str) -> PlainReply | None:
    """The reply to a GET; None for a path that vLLM does not have."""
    settings = service.settings
    if path in ("/health", "/ping"):
        return PlainReply(status=200, body=b"")
    if path == "/version":
        return json_reply({"version": VERSIONS["vllm"]})
    if path == "/v1/models":
        return json_reply(models(settings, "vllm"))
    if path == "/load":
        gauges = service.driver.gauges()
        return json_reply({"server_load": gauges.running + gauges.waiting})
    if path == "/metrics":
        return text_reply(metrics(settings, service.driver.gauges()))
    if path == "/server_info":
        return json_reply({"vllm_config": server_info(settings), "vllm_env": {}, "system_env": {}})
    return None


def models(settings: ServerSettings, owner: str) -> dict[str, Any]:
    """`/v1/models`."""
    entry = {
        "id": settings.model,
        "object": "model",
        "created": CREATED,
        "owned_by": owner,
        "root": settings.model,
        "parent": None,
        "max_model_len": settings.context_tokens,
    }
    return {"object": "list", "data": [entry]}


def metrics(settings: ServerSettings, gauges: Gauges) -> str:
    """`/metrics`."""
    values: dict[str, tuple[str, float]] = {
        "num_requests_running": ("gauge", gauges.running),
        "num_requests_waiting": ("gauge", gauges.waiting),
        "kv_cache_usage_perc": ("gauge", gauges.pool_use or 0.0),
        "prefix_cache_queries_total": ("counter", gauges.prefix_query_tokens),
        "prefix_cache_hits_total": ("counter", gauges.prefix_hit_tokens),
        "num_preemptions_total": ("counter", gauges.preemptions),
        "prompt_tokens_total": ("counter", gauges.prompt_tokens),
        "generation_tokens_total": ("counter", gauges.output_tokens),
    }
    if settings.draft_depth:
        values |= {
            "spec_decode_num_drafts_total": ("counter", drafts(gauges)),
            "spec_decode_num_draft_tokens_total": ("counter", gauges.drafted_tokens),
            "spec_decode_num_accepted_tokens_total": ("counter", gauges.accepted_tokens),
        }
    named = f'engine="0",model_name="{settings.model}"'
    lines = [
        f"# TYPE vllm:{name} {kind}\nvllm:{name}{{{named}}} {float(value)!r}\n"
        for name, (kind, value) in values.items()
    ]
    if settings.draft_depth:
        per_position = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
        for place, kept in enumerate(gauges.accepted_by_position):
            lines.append(f'{per_position}{{{named},position="{place}"}} {float(kept)!r}\n')
    labels = ",".join(f'{name}="{value}"' for name, value in sorted(_cache_labels(settings).items()))
    lines.append(f"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{labels}}} 1.0\n")
    return "".join(lines)


def server_info(settings: ServerSettings) -> dict[str, Any]:
    """The configuration as `/server_info` shows it, as far as it is used."""
    speculative = {"method": "mtp", "num_speculative_tokens": settings.draft_depth} if settings.draft_depth else None
    return {
        "model_config": {
            "model": settings.model,
            "served_model_name": settings.model,
            "max_model_len": settings.context_tokens,
            "dtype": "torch.bfloat16",
        },
        "cache_config": {
            "cache_dtype": settings.kv_dtype,
            "enable_prefix_caching": settings.prefix_cache,
            "mamba_block_size": 16 if settings.state_dtype else None,
            "mamba_ssm_cache_dtype": settings.state_dtype or "auto",
        },
        "scheduler_config": {"max_num_seqs": settings.slots},
        "device_config": {"device": "cuda"},
        "speculative_config": speculative,
        "reasoning_config": {"reasoning_parser": _reasoning_parser(settings)},
    }


def launch_line(settings: ServerSettings) -> str:
    """The command that starts such a server."""
    words = ["vllm", "serve", settings.model, "--max-num-seqs", str(settings.slots)]
    words += ["--max-model-len", str(settings.context_tokens)]
    if settings.kv_dtype != "auto":
        words += ["--kv-cache-dtype", settings.kv_dtype]
    if settings.state_dtype:
        words += ["--mamba-ssm-cache-dtype", settings.state_dtype]
    if settings.draft_depth:
        words += ["--speculative-config", f'\'{{"method":"mtp","num_speculative_tokens":{settings.draft_depth}}}\'']
    if not settings.prefix_cache:
        words.append("--no-enable-prefix-caching")
    parser = tool_parsers("function-xml" if settings.template.xml_calls else "hermes-json").vllm
    if settings.habits.calls is Calls.PARSED and parser:
        words += ["--enable-auto-tool-choice", "--tool-call-parser", parser]
    if reasoning := _reasoning_parser(settings):
        words += ["--reasoning-parser", reasoning]
    return " ".join(words)


def _reasoning_parser(settings: ServerSettings) -> str:
    if settings.habits.thoughts is Thoughts.IN_TEXT:
        return ""
    parser = reasoning_parsers(settings.model).vllm
    return parser or ("qwen3" if settings.habits.thoughts is Thoughts.SWALLOW else "")


def _cache_labels(settings: ServerSettings) -> dict[str, str]:
    state = settings.state_dtype
    return {
        "block_size": str(settings.block_tokens),
        "cache_dtype": settings.kv_dtype,
        "enable_prefix_caching": str(settings.prefix_cache),
        "engine": "0",
        "kv_cache_size_tokens": str(settings.pool_tokens),
        "mamba_block_size": "16" if state else "None",
        "mamba_cache_dtype": "auto",
        "mamba_cache_mode": "align" if state else "none",
        "mamba_ssm_cache_dtype": state or "auto",
        "num_gpu_blocks": str(settings.pool_blocks),
    }
