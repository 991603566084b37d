"""What a pool depends on besides the model and the memory: the engine, its version and the flags that size it."""

from __future__ import annotations

from dataclasses import dataclass

from widelane.facts.model import ModelFacts
from widelane.plan.pool.dtypes import AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """One server's settings, as its launch line gives them.

    Attributes:
        engine: `vllm`, `llama.cpp`, `sglang` or `ollama`.
        version: as the engine prints it; None is the newest known.
        longest_tokens: longest sequence allowed (`--max-model-len`, `--context-length`, the context of one slot).
        slots: places (`--max-num-seqs`, `-np`, `--max-running-requests`, `OLLAMA_NUM_PARALLEL`); None leaves the
            engine's default.
        kv_dtype: type of the KV cache; `auto` is the model's own (vLLM, SGLang) or f16 (llama.cpp, Ollama).
        value_dtype: type of V where it differs from K (llama.cpp `-ctv`); None is the same.
        state_dtype: type of the recurrent state (vLLM `--mamba-ssm-cache-dtype`, SGLang `--mamba-ssm-dtype`); None or
            `auto` is what the checkpoint names, else the model's own. llama.cpp always keeps f32.
        conv_dtype: type of the convolution state (vLLM `--mamba-cache-dtype`); None or `auto` is the model's own.
        model_dtype: type the model computes in, which `auto` stands for.
        draft_depth: tokens drafted a step, 0 without speculation.
        drafter: a separate model that drafts; its cache takes memory too. None: the model's own head drafts, or none.
        prefix_cache: whether prefixes are kept for later requests; None is the engine's default for this version.
        devices: cards that hold the model together (tensor parallel).
        on_cpu: vLLM on a CPU, where blocks are multiples of 128 tokens instead of 16.
        batched_tokens: most prompt tokens of one step (vLLM `--max-num-batched-tokens`); None is the engine's default,
            which depends on the card (`memory.default_step_tokens`).
        micro_batch_tokens: llama.cpp's `-ub`.
        unified: llama.cpp: all slots share one pool; None follows its rule (no `-np`: shared; with `-np`: split).
        total_tokens: llama.cpp: the whole context (`-c`); None takes what slots and memory allow.
    """

    engine: str
    longest_tokens: int
    version: str | None = None
    slots: int | None = None
    kv_dtype: str = AUTO
    value_dtype: str | None = None
    state_dtype: str | None = None
    conv_dtype: str | None = None
    model_dtype: str = "bf16"
    draft_depth: int = 0
    drafter: ModelFacts | None = None
    prefix_cache: bool | None = None
    devices: int = 1
    on_cpu: bool = False
    batched_tokens: int | None = None
    micro_batch_tokens: int = 512
    unified: bool | None = None
    total_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.longest_tokens < 1 or self.draft_depth < 0 or self.devices < 1:
            raise ValueError("a pool needs sequences of at least one token, a depth of at least 0, at least one device")
        if self.slots is not None and self.slots < 1:
            raise ValueError("a server has at least one slot")
