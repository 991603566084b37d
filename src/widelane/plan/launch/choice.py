"""What a launch command is made from: the decisions of a plan, in one record."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from widelane.facts.devices.device import Device, DeviceKind
from widelane.plan.report import Use

PROGRAMS = {
    "llama.cpp": ("llama-server",),
    "vllm": ("vllm", "serve"),
    "sglang": ("python3", "-m", "sglang.launch_server"),
    "ollama": ("ollama", "serve"),
}
"""The words that start each engine's server, as its installation names them."""
PORTS = {"llama.cpp": 8080, "vllm": 8000, "sglang": 30000, "ollama": 11434}
"""Port of each engine when none is named."""
HEALTH_PATHS = {"llama.cpp": "/health", "vllm": "/health", "sglang": "/health", "ollama": "/api/version"}
"""What answers 200 as soon as the engine can take a request."""
LOOPBACK = "127.0.0.1"
LOOPBACKS = (LOOPBACK, "localhost", "::1")
GGUF_PLACEHOLDER = "MODEL.gguf"
HUB_PLACEHOLDER = "ORG/MODEL"
GGUF_DRAFT_PLACEHOLDER = "DRAFT.gguf"
HUB_DRAFT_PLACEHOLDER = "ORG/DRAFT"
PLACEHOLDERS = (GGUF_PLACEHOLDER, HUB_PLACEHOLDER, GGUF_DRAFT_PLACEHOLDER, HUB_DRAFT_PLACEHOLDER)


class Accelerator(StrEnum):
    """What computes: it decides the container image and which flags make sense."""

    CUDA = "cuda"
    ROCM = "rocm"
    METAL = "metal"
    INTEL = "intel"
    CPU = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchChoice:
    """One server as decided.

    Attributes:
        version: of the engine, None for the newest known.
        model: what the engine is to load, a path or `org/name`; None when the plan was made from a name or a config
            alone: the command then holds a placeholder.
        slots: requests decoded at the same time.
        context_tokens: the longest request allowed, prompt and answer together.
        typical_tokens: a usual request, None when not known.
        pool_tokens: tokens that the KV pool can hold, None when not known.
        pool_bytes: memory of the KV pool, None when not known; a vLLM on a CPU is told it.
        kv_dtype, state_dtype: types of the KV cache and of the recurrent state; None or `auto` is the engine's default.
        draft_depth: tokens drafted a step, 0 for none. draft_model: what drafts them; None is the model's own head.
        memory_utilization: share of the device's memory for weights and pool (vLLM, SGLang), None for the default.
        tool_parser, reasoning_parser: chosen by the user; None leaves them to the chat template, `none` to nobody.
    """

    engine: str
    version: str | None = None
    model: str | None = None
    use: Use = Use.BATCH
    slots: int
    context_tokens: int
    typical_tokens: int | None = None
    pool_tokens: int | None = None
    pool_bytes: int | None = None
    kv_dtype: str | None = None
    state_dtype: str | None = None
    draft_depth: int = 0
    draft_model: str | None = None
    memory_utilization: float | None = None
    tool_parser: str | None = None
    reasoning_parser: str | None = None
    host: str = LOOPBACK
    port: int | None = None
    accelerator: Accelerator = Accelerator.CUDA
    unified_memory: bool = False
    device_count: int = 1

    @property
    def listen_port(self) -> int:
        """The port, the engine's usual one when none was named."""
        return self.port or PORTS[self.engine]


def accelerator_of(device: Device) -> Accelerator:
    """What computes on a device, by its name in the device table or as its driver names it."""
    if device.kind is DeviceKind.CPU:
        return Accelerator.CPU
    name = device.name.lower()
    if "apple" in name or name.startswith(("m1", "m2", "m3", "m4", "m5")):
        return Accelerator.METAL
    if any(part in name for part in ("radeon", "rx-", "rx ", "mi300", "mi2", "mi35", "strix", "amd", "instinct")):
        return Accelerator.ROCM
    if any(part in name for part in ("arc", "intel", "battlemage")):
        return Accelerator.INTEL
    return Accelerator.CUDA


def narrow_state(dtype: str | None) -> bool:
    """Whether a state type is named that takes two bytes a value."""
    return (dtype or "auto").lower() in ("float16", "fp16", "f16", "half", "bfloat16", "bf16")
