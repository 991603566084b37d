"""How an engine's kernels on one kind of device differ in a decode step, whatever the machine's size.

One `EngineTraits` a family of kernels. The two numbers fitted for each machine and engine stand on top of these. Most
figures were chosen, one at a time from a few values, to lower the error on the calibration rows, configurations left
out of the fit included; so what `benchmarks/step_time.py` prints for those rows flatters them. With the choice repeated
without the configurations it is scored on, a fit from other rows misses by 8 to 9 % in the median and 21 to 23 % at the
90th percentile (5 folds, 3 shuffles) instead of 6 and 19 %. PAGED rests on 13 configurations of a GB10 and single ones
of other cards, GGML_CUDA on 6 of a GB10, GGML_METAL on 4 of one M2 Ultra, GGML_VULKAN on 2 of one author;
ALL_REDUCE_S_PER_LAYER on one. GGML_CPU and MLX were scored on none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from widelane.facts.devices.device import Device, DeviceKind


class Kernels(StrEnum):
    """Families of kernels that share their habits."""

    PAGED = "paged"
    """vLLM, SGLang: paged attention, fused experts, whole steps captured as graphs."""
    GGML_CUDA = "ggml-cuda"
    GGML_METAL = "ggml-metal"
    GGML_VULKAN = "ggml-vulkan"
    """Also stands for ROCm and SYCL, of which no rows are at hand."""
    GGML_CPU = "ggml-cpu"
    MLX = "mlx"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTraits:
    """Habits of one family of kernels; see `StepRates` for what most of them do to a step.

    Attributes:
        delta_passes, scan_passes: `state_passes` of a delta rule's and of a Mamba scan's state.
        bits16_efficiency, bits4_efficiency: `dense_efficiency` of a dense model with 16-bit, and of any with 4-bit
            weights, over that with 8-bit ones.
        flops_share: share of the device's 16-bit peak that decoding reaches. None: arithmetic grows with the bandwidth,
            as it does along a line of chips with one memory (Apple, CPU), and the three below count.
        compute_flops_per_byte: operations for each byte of nominal bandwidth, token by token.
        matrix_flops_per_byte, attention_flops_per_byte: the same in matrix kernels, and in attention.
        routing_layers: a layer with routed experts takes the overhead of so many further layers.
        several_s_per_layer: `several_overhead_s` for each layer.
        tensor_parallel: several cards share each step and add their bandwidth; otherwise they take turns.
    """

    delta_passes: float
    scan_passes: float
    expert_efficiency: float
    bits16_efficiency: float
    bits4_efficiency: float
    routing_layers: float
    flops_share: float | None = None
    compute_flops_per_byte: float | None = None
    matrix_flops_per_byte: float | None = None
    attention_flops_per_byte: float | None = None
    tile_tokens: int = 1
    apart_tokens: int = 0
    joint_expert_efficiency: float | None = None
    several_s_per_layer: float = 0.0
    tensor_parallel: bool = False


FIRST_STATE_PASSES = 2.0
"""A single sequence's state is read and written in place. llama.cpp gathers the states of several sequences first:
Nemotron-3-Nano-4B and Qwen3.6 on three machines show the further passes from the second sequence on."""

ALL_REDUCE_S_PER_LAYER = 80e-6
"""Two all-reduces of one token's activations a layer over PCIe (two RTX 5090, vLLM 0.25)."""

UNKNOWN_FLOPS_PER_BYTE = 150.0
"""16-bit operations for each byte of bandwidth of a graphics card whose peak is not known: RTX 3090 76, A100 160,
RTX 4090 164, H100 295."""

_TRAITS = {
    # 16-, 8- and 4-bit dense models: 85 %, 78 % and 67 % of a GB10's bandwidth. Arithmetic: 100 of its 125 TFLOPS.
    Kernels.PAGED: EngineTraits(
        delta_passes=2.0,
        scan_passes=2.0,
        expert_efficiency=0.8,
        bits16_efficiency=1.06,
        bits4_efficiency=0.83,
        routing_layers=0.5,
        flops_share=0.8,
        tensor_parallel=True,
    ),
    # CUDA graphs are used for a single token only: every further step launches its kernels one by one. Prefill reaches
    # 19 to 47 of 125 TFLOPS on a GB10. States of Nemotron-H pass 18 times, those of Qwen3.6 about 9 times. The rows
    # alone want 0.92 to 1.0 for 4 bits; 0.9 leans towards a published 27B in 4 bits that runs at 10.3 tok/s.
    Kernels.GGML_CUDA: EngineTraits(
        delta_passes=9.0,
        scan_passes=18.0,
        expert_efficiency=1.0,
        bits16_efficiency=1.0,
        bits4_efficiency=0.90,
        routing_layers=0.5,
        flops_share=0.25,
        several_s_per_layer=80e-6,
    ),
    # ggml-metal: experts of fewer than 32 tokens by vector kernels, each token for itself; matrix kernels in tiles of
    # 32 tokens. Operations for each byte: an M2 Ultra (800 GB/s) does 5.7, 11.8 and 2.3 TFLOPS.
    Kernels.GGML_METAL: EngineTraits(
        delta_passes=9.0,
        scan_passes=18.0,
        expert_efficiency=0.85,
        bits16_efficiency=1.0,
        bits4_efficiency=1.0,
        routing_layers=2.0,
        compute_flops_per_byte=7.1,
        matrix_flops_per_byte=14.7,
        attention_flops_per_byte=2.9,
        tile_tokens=32,
        apart_tokens=31,
        joint_expert_efficiency=0.45,
    ),
    Kernels.GGML_VULKAN: EngineTraits(
        delta_passes=9.0,
        scan_passes=18.0,
        expert_efficiency=1.0,
        bits16_efficiency=1.0,
        bits4_efficiency=0.92,
        routing_layers=0.5,
        flops_share=0.4,
    ),
    # A guess: a 135M model on one AVX2 thread does 21 GFLOPS in f32 and 38 in 8 bits at 10 to 14 GB/s.
    Kernels.GGML_CPU: EngineTraits(
        delta_passes=9.0,
        scan_passes=18.0,
        expert_efficiency=0.85,
        bits16_efficiency=1.0,
        bits4_efficiency=0.92,
        routing_layers=0.5,
        compute_flops_per_byte=4.0,
    ),
    # A guess, as no row of it has a known shape: Metal's arithmetic without ggml's separate experts.
    Kernels.MLX: EngineTraits(
        delta_passes=2.0,
        scan_passes=2.0,
        expert_efficiency=0.8,
        bits16_efficiency=1.0,
        bits4_efficiency=1.0,
        routing_layers=1.0,
        compute_flops_per_byte=14.7,
        attention_flops_per_byte=5.0,
    ),
}

_AMD_OR_INTEL = ("strix", "rx-", "radeon", "mi3", "mi2", "arc-", "amd", "intel")


def kernels_of(device: Device, engine: str) -> Kernels:
    """The kernels that `engine` brings to a device; an engine that is not known is taken for one of vLLM's kind."""
    name = engine.lower()
    if "mlx" in name:
        return Kernels.MLX
    if not any(part in name for part in ("llama", "ollama", "lm-studio", "lmstudio", "gguf")):
        return Kernels.PAGED
    label = bare_name(device)
    if "vulkan" in name or "rocm" in name:
        return Kernels.GGML_VULKAN
    if device.kind is DeviceKind.CPU:
        return Kernels.GGML_CPU
    if label.startswith("apple"):
        return Kernels.GGML_METAL
    return Kernels.GGML_VULKAN if label.startswith(_AMD_OR_INTEL) else Kernels.GGML_CUDA


def traits_of(kernels: Kernels) -> EngineTraits:
    """The habits of a family of kernels."""
    return _TRAITS[kernels]


def bare_name(device: Device) -> str:
    """The device's name without the number of cards (`2x-rtx-3090` → `rtx-3090`)."""
    return device.name.lower().removeprefix(f"{device.count}x-")


def peak_flops(device: Device) -> float:
    """16-bit operations a second at best, all cards together; guessed from the bandwidth where no figure is known."""
    return device.bf16_flops or UNKNOWN_FLOPS_PER_BYTE * (device.memory_bandwidth_bytes_s or 0.0)
