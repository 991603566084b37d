"""Machines and engines whose two numbers were fitted to published measurements, and how well that went.

Made by `benchmarks/step_time.py ROWS.jsonl --fit`, which prints these lines; never edited by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

from widelane.plan.fit import MachineFit


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedMachine:
    """One machine with one engine.

    Attributes:
        device: name in the device table, with the number of cards where there are several (`2x-rtx-5090`).
        engine: `vllm`, `sglang`, `llama.cpp`, `mlx`.
        rows, configurations: measured steps behind it, and how many models or settings they come from.
        median_error: median absolute relative error of the step time on these rows.
        sources: who measured.
    """

    device: str
    engine: str
    fit: MachineFit
    rows: int
    configurations: int
    median_error: float
    sources: str


FITTED: tuple[FittedMachine, ...] = (
    FittedMachine(
        device="gb10",
        engine="llama.cpp",
        fit=MachineFit(efficiency=0.833, overhead_scale=0.668),
        rows=116,
        configurations=6,
        median_error=0.054,
        sources="ggml-org/llama.cpp, kubesimplify/website",
    ),
    FittedMachine(
        device="apple-m2-ultra",
        engine="llama.cpp",
        fit=MachineFit(efficiency=0.937, overhead_scale=1.055),
        rows=92,
        configurations=4,
        median_error=0.042,
        sources="ggml-org/llama.cpp",
    ),
    FittedMachine(
        device="gb10",
        engine="vllm",
        fit=MachineFit(efficiency=0.786, overhead_scale=0.263),
        rows=81,
        configurations=13,
        median_error=0.047,
        sources="djangodevreng/dgx-spark-benchmarks, kubesimplify/website, kubis.ai/blog, mudler/LocalAI",
    ),
    FittedMachine(
        device="gb10",
        engine="sglang",
        fit=MachineFit(efficiency=0.802, overhead_scale=0.992),
        rows=15,
        configurations=2,
        median_error=0.029,
        sources="0xBakeer/inference-atlas, kubesimplify/website",
    ),
    FittedMachine(
        device="strix-halo",
        engine="llama.cpp",
        fit=MachineFit(efficiency=0.806, overhead_scale=1.189),
        rows=10,
        configurations=2,
        median_error=0.047,
        sources="hogeheer499-commits/strix-halo-guide",
    ),
    FittedMachine(
        device="h100-pcie",
        engine="vllm",
        fit=MachineFit(efficiency=0.786, overhead_scale=1.295),
        rows=5,
        configurations=1,
        median_error=0.021,
        sources="sariekr/gpu_conc",
    ),
    FittedMachine(
        device="b200",
        engine="vllm",
        fit=MachineFit(efficiency=0.703, overhead_scale=1.598),
        rows=5,
        configurations=1,
        median_error=0.152,
        sources="sariekr/gpu_conc",
    ),
    FittedMachine(
        device="2x-rtx-5090",
        engine="vllm",
        fit=MachineFit(efficiency=0.751, overhead_scale=1.104),
        rows=4,
        configurations=1,
        median_error=0.057,
        sources="noonghunna/club-3090",
    ),
    FittedMachine(
        device="rtx-pro-6000",
        engine="llama.cpp",
        fit=MachineFit(efficiency=0.956, overhead_scale=0.879),
        rows=3,
        configurations=1,
        median_error=0.009,
        sources="kubesimplify/website",
    ),
)


def fitted_machine(device: str, engine: str) -> FittedMachine | None:
    """The fit of a device and an engine by their exact names, None when there is none."""
    return next((one for one in FITTED if one.device == device and one.engine == engine), None)
