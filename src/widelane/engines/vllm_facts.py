"""From vLLM's replies, launch line and start log to its facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from widelane.engines.json_shape import as_dict
from widelane.engines.prometheus import Samples
from widelane.engines.server_facts import ServerFacts
from widelane.engines.sources import Sources, first_known, read_figure
from widelane.facts.model_family import has_float32_state, ships_draft_head
from widelane.figures import Figure, Origin, unknown

NAME = "vllm"
_BESIDE = "pass the start command with --launch, or the start log with --log"


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmTold:
    """What HTTP and the hints told; a missing endpoint leaves its part empty."""

    version: str | None
    model: Mapping[str, Any]
    samples: Samples | None
    labels: Mapping[str, str]
    config: Mapping[str, Any]
    sources: Sources

    def configured(self, part: str, name: str, unit: str = "") -> Figure | None:
        """A field of `/server_info`."""
        return read_figure(as_dict(self.config.get(part)).get(name), unit, "/server_info")

    def label(
        self, name: str, unit: str = "", convert: Callable[[str], float | int | str | bool] = str
    ) -> Figure | None:
        """A label of `cache_config_info`; Python's "None" is nothing."""
        text = self.labels.get(name)
        if text is None or text == "None":
            return None
        try:
            return read_figure(convert(text), unit, "/metrics")
        except ValueError:
            return None

    def argument(self, name: str, unit: str = "") -> Figure | None:
        """A value of the start log's "non-default args"."""
        return read_figure((self.sources.log.arguments or {}).get(name), unit, "in the start log")

    def default(self, value: float | str | bool, unit: str, flag: str) -> Figure | None:
        """The default, where a launch line or log is known and does not say otherwise."""
        if not self.sources.whole and self.sources.log.arguments is not None:
            return Figure(value, unit, Origin.INFERRED, reason=f"{flag} is not in the start log: the default")
        return self.sources.default(value, unit, flag)


def vllm_facts(told: VllmTold) -> ServerFacts:
    sources, log = told.sources, told.sources.log
    return ServerFacts(
        engine=NAME,
        version=first_known(
            read_figure(told.version, ""),
            read_figure(log.version, "", "in the start log"),
            unit="",
            otherwise="/version does not answer",
        ),
        model=first_known(
            read_figure(told.model.get("id"), "", "/v1/models"),
            told.configured("model_config", "served_model_name"),
            read_figure(_model_label(told.samples), "", "/metrics"),
            sources.read("served_model_name"),
            sources.read("model"),
            told.argument("model"),
            unit="",
            otherwise="/v1/models does not answer",
        ),
        slots=_slots(told),
        context_per_slot=first_known(
            read_figure(told.model.get("max_model_len"), "tokens", "/v1/models"),
            told.configured("model_config", "max_model_len", "tokens"),
            sources.read("max_model_len", "tokens", int),
            read_figure(log.context_per_slot, "tokens", "in the start log"),
            unit="tokens",
            otherwise="/v1/models does not answer",
        ),
        context_trained=unknown("tokens", "vLLM does not say it: see the model's config.json"),
        kv_dtype=_kv_dtype(told),
        state_dtype=_state_dtype(told),
        pool_tokens=_pool_tokens(told),
        unified_pool=Figure(
            False, "", Origin.INFERRED, reason="vLLM's pool is shared, but a full one preempts, it fails nobody"
        ),
        speculation=_speculation(told),
        prefix_cache=first_known(
            told.label("enable_prefix_caching", convert=_boolean),
            told.configured("cache_config", "enable_prefix_caching"),
            sources.read("enable_prefix_caching"),
            told.argument("enable_prefix_caching"),
            told.default(True, "", "--no-enable-prefix-caching"),
            unit="",
            otherwise="/metrics does not answer",
        ),
        queue_length=first_known(
            read_figure(_whole(told.samples, "vllm:num_requests_waiting"), "requests", "/metrics"),
            unit="requests",
            otherwise="/metrics does not answer",
        ),
        reasoning_parser=_parser(told, "reasoning_parser", told.configured("reasoning_config", "reasoning_parser")),
        tool_parser=_parser(told, "tool_call_parser", None),
        weights_bytes=first_known(
            read_figure(log.weights_bytes, "bytes", "in the start log"),
            unit="bytes",
            otherwise="vLLM tells it only in its start log",
        ),
        parameters=unknown("parameters", "vLLM does not say it: see the model's config.json"),
        launch_command=sources.launch_command(),
        extra=_extra(told),
    )


def _slots(told: VllmTold) -> Figure:
    """`max_num_seqs`. Without a source the default is assumed, and it depends on the device."""
    device = _device(told)
    assumed = (
        Figure(128, "slots", Origin.ASSUMED, reason="--max-num-seqs is not told; the default on a CPU")
        if device == "cpu"
        else Figure(
            256,
            "slots",
            Origin.ASSUMED,
            low=128,
            high=1024,
            reason=f"--max-num-seqs is not told over HTTP; default 256 on a GPU, 1024 on one with 70 GB or more, "
            f"128 on a CPU: probe, or {_BESIDE}",
        )
    )
    return first_known(
        told.configured("scheduler_config", "max_num_seqs", "slots"),
        told.sources.read("max_num_seqs", "slots", int),
        told.argument("max_num_seqs", "slots"),
        assumed,
        unit="slots",
        otherwise="",
    )


def _device(told: VllmTold) -> str | None:
    stated = as_dict(told.config.get("device_config")).get("device")
    if isinstance(stated, str):
        return stated
    if "cpu" in (told.version or "") or any(name.startswith("VLLM_CPU_") for name in _environ(told.sources)):
        return "cpu"
    return told.sources.log.device


def _environ(sources: Sources) -> list[str]:
    return [name for line, _ in sources.lines for name in line.environ]


def _kv_dtype(told: VllmTold) -> Figure:
    """ "auto" is the model's own type: named where a source tells that."""
    written = first_known(
        told.label("cache_dtype"),
        told.configured("cache_config", "cache_dtype"),
        told.sources.read("kv_cache_dtype"),
        told.argument("kv_cache_dtype"),
        told.default("auto", "", "--kv-cache-dtype"),
        unit="",
        otherwise="/metrics does not answer",
    )
    if written.value != "auto":
        return written
    model = _model_dtype(told)
    if model is None:
        return Figure("auto", "", written.origin, reason="the model's own type, usually bfloat16 (2 bytes a value)")
    return Figure(model, "", written.origin, reason="auto: the model's own type")


def _model_dtype(told: VllmTold) -> str | None:
    figure = told.configured("model_config", "dtype") or told.sources.read("dtype") or told.argument("dtype")
    if figure is None or figure.value in ("auto", None):
        return None
    names = {"half": "float16", "float": "float32"}
    text = str(figure.value).removeprefix("torch.")
    return names.get(text, text)


def _state_dtype(told: VllmTold) -> Figure:
    """Type of the large recurrent state.

    `mamba_ssm_cache_dtype` decides. Its "auto" is what the checkpoint names (float32 for Qwen3.5 and Nemotron-H; new
    versions then show float32), else `mamba_cache_dtype`, else the model's type. `mamba_cache_dtype` alone changes only
    the convolution part where the checkpoint or the other flag names a type.
    """
    ssm = _cache_field(told, "mamba_ssm_cache_dtype")
    if _has_state(told) is False:
        return unknown("", "the model keeps no recurrent state")
    if ssm.value is None or ssm.value != "auto":
        return ssm
    model = str(told.model.get("root") or told.model.get("id") or "")
    if has_float32_state(model):
        return Figure("float32", "", Origin.INFERRED, reason="auto, and models of this name ask for float32")
    conv = _cache_field(told, "mamba_cache_dtype")
    if conv.value not in ("auto", None):
        return Figure(conv.value, "", conv.origin, reason="auto: as mamba_cache_dtype")
    dtype = _model_dtype(told)
    reason = "auto: the model's own type" if dtype else "auto: the model's own type, usually bfloat16 (2 bytes a value)"
    return Figure(dtype or "auto", "", ssm.origin, reason=reason)


def _cache_field(told: VllmTold, name: str) -> Figure:
    return first_known(
        told.label(name),
        told.configured("cache_config", name),
        told.sources.read(name),
        told.argument(name),
        unit="",
        otherwise=f"this version's /metrics does not show {name}",
    )


def _has_state(told: VllmTold) -> bool | None:
    """Whether the model is recurrent or hybrid; None when nothing tells."""
    if "mamba_block_size" in told.labels or "mamba_cache_mode" in told.labels:
        return told.labels.get("mamba_block_size", "None") != "None" or told.labels.get(
            "mamba_cache_mode", "none"
        ) not in ("none", "None")
    cache = as_dict(told.config.get("cache_config"))
    if "mamba_block_size" in cache:
        return cache["mamba_block_size"] is not None
    return True if "mamba_page_padding_pct" in told.sources.log.extra else None


def _pool_tokens(told: VllmTold) -> Figure:
    blocks, size = told.label("num_gpu_blocks", convert=int), told.label("block_size", convert=int)
    product = None
    if blocks is not None and size is not None and _has_state(told) is not True:
        product = Figure(
            int(blocks.number or 0) * int(size.number or 0), "tokens", Origin.READ, reason="blocks times block size"
        )
    return first_known(
        told.label("kv_cache_size_tokens", "tokens", int),
        told.configured("cache_config", "kv_cache_size_tokens", "tokens"),
        product,
        read_figure(told.sources.log.pool_tokens, "tokens", "in the start log"),
        unit="tokens",
        otherwise="/metrics does not answer",
    )


def _speculation(told: VllmTold) -> Figure:
    """False when off, else the method's name, or True when only that it is on is known."""
    configured = as_dict(told.config.get("speculative_config")).get("method")
    written = told.sources.read("speculative_config") or told.sources.read("speculative_config.method")
    logged = (told.sources.log.arguments or {}).get("speculative_config")
    method = re.search(r"\bmethod[\"']?\s*:\s*[\"']?([\w-]+)", str(written.value if written else logged))
    plain = written.value if written and not str(written.value).startswith("{") else None
    counted = told.samples is not None and told.samples.has_prefix("vllm:spec_decode_")
    return first_known(
        read_figure(configured, "", "/server_info"),
        read_figure(method[1] if method else plain, "", written.reason if written else "in the start log"),
        read_figure(True if written or logged else None, "", "a speculative configuration is given"),
        read_figure(counted, "", "/metrics has spec_decode_* only when it is on") if told.samples is not None else None,
        told.default(False, "", "--speculative-config"),
        unit="",
        otherwise="/metrics does not answer",
    )


def _parser(told: VllmTold, name: str, configured: Figure | None) -> Figure:
    """The parser's name, False where a source shows that none is set."""
    if configured is not None and configured.value == "":
        configured = Figure(False, "", Origin.READ, reason="/server_info names none")
    return first_known(
        configured,
        told.sources.read(name),
        told.argument(name),
        told.default(False, "", f"--{name.replace('_', '-')}"),
        unit="",
        otherwise=f"vLLM does not tell its parsers over HTTP: probe, or {_BESIDE}",
    )


def _extra(told: VllmTold) -> dict[str, Figure]:
    log = told.sources.log
    conv = _cache_field(told, "mamba_cache_dtype")
    model = str(told.model.get("root") or told.model.get("id") or "")
    head = Figure(True, "", Origin.INFERRED, reason="models of this name ship one") if ships_draft_head(model) else None
    found: dict[str, Figure | None] = {
        "gpu_memory_utilization": told.label("gpu_memory_utilization", convert=float),
        "block_size": told.label("block_size", "tokens", int),
        "num_gpu_blocks": told.label("num_gpu_blocks", "blocks", int),
        "kv_cache_max_concurrency": told.label("kv_cache_max_concurrency", "sequences", float)
        or read_figure(log.max_concurrency, "sequences", "in the start log"),
        "kv_cache_memory": told.label("kv_cache_memory_bytes", "bytes", int),
        "mamba_cache_dtype": conv if _has_state(told) and conv.value is not None else None,
        "mamba_cache_mode": told.label("mamba_cache_mode") if _has_state(told) else None,
        "max_num_batched_tokens": told.configured("scheduler_config", "max_num_batched_tokens", "tokens")
        or told.sources.read("max_num_batched_tokens", "tokens", int),
        "model_dtype": read_figure(_model_dtype(told), ""),
        "draft_head": head,
        "device": read_figure(_device(told), ""),
        "architecture": read_figure(log.architecture, "", "in the start log"),
    }
    return {name: figure for name, figure in found.items() if figure is not None}


def _model_label(samples: Samples | None) -> str | None:
    return samples.labels("vllm:num_requests_running").get("model_name") if samples else None


def _whole(samples: Samples | None, name: str) -> int | None:
    value = samples.total(name) if samples else None
    return None if value is None else int(value)


def _boolean(text: str) -> bool:
    return text.lower() in ("true", "1")
