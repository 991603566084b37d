"""The launch flags and environment names that matter, by engine: one name for each thing, all its spellings.

Only what facts and advice use is listed; an unlisted flag keeps its own name. Read from llama.cpp b11549 (source at
b11434), vLLM 0.32.0, SGLang 0.5.23, mlx-lm 0.32.2, Ollama of 2026-08-21.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flag:
    """One setting.

    Attributes:
        spellings: every way to write it, the usual one first; none where only the environment sets it.
        environ: environment name that sets it, None where there is none.
        switch: takes no value.
        off: spellings that switch it off.
    """

    spellings: tuple[str, ...] = ()
    environ: str | None = None
    switch: bool = False
    off: tuple[str, ...] = ()


LLAMA_CPP: Mapping[str, Flag] = {
    "model": Flag(("-m", "--model"), "LLAMA_ARG_MODEL"),
    "hf_repo": Flag(("-hf", "-hfr", "--hf-repo"), "LLAMA_ARG_HF_REPO"),
    "alias": Flag(("-a", "--alias"), "LLAMA_ARG_ALIAS"),
    "parallel": Flag(("-np", "--parallel"), "LLAMA_ARG_N_PARALLEL"),
    "ctx_size": Flag(("-c", "--ctx-size"), "LLAMA_ARG_CTX_SIZE"),
    "kv_unified": Flag(("--kv-unified", "-kvu"), "LLAMA_ARG_KV_UNIFIED", True, ("--no-kv-unified", "-no-kvu")),
    "kv_unified_per_slot": Flag(("--kv-unified-per-slot",)),
    "cache_type_k": Flag(("-ctk", "--cache-type-k"), "LLAMA_ARG_CACHE_TYPE_K"),
    "cache_type_v": Flag(("-ctv", "--cache-type-v"), "LLAMA_ARG_CACHE_TYPE_V"),
    "flash_attn": Flag(("-fa", "--flash-attn"), "LLAMA_ARG_FLASH_ATTN"),
    "batch_size": Flag(("-b", "--batch-size"), "LLAMA_ARG_BATCH"),
    "ubatch_size": Flag(("-ub", "--ubatch-size"), "LLAMA_ARG_UBATCH"),
    "threads": Flag(("-t", "--threads"), "LLAMA_ARG_THREADS"),
    "gpu_layers": Flag(("-ngl", "--gpu-layers", "--n-gpu-layers"), "LLAMA_ARG_N_GPU_LAYERS"),
    "cache_ram": Flag(("--cache-ram", "-cram"), "LLAMA_ARG_CACHE_RAM"),
    "metrics": Flag(("--metrics",), "LLAMA_ARG_ENDPOINT_METRICS", True),
    "slots": Flag(("--slots",), "LLAMA_ARG_ENDPOINT_SLOTS", True, ("--no-slots",)),
    "jinja": Flag(("--jinja",), "LLAMA_ARG_JINJA", True, ("--no-jinja",)),
    "reasoning_format": Flag(("--reasoning-format",), "LLAMA_ARG_THINK"),
    "chat_template": Flag(("--chat-template",), "LLAMA_ARG_CHAT_TEMPLATE"),
    "chat_template_file": Flag(("--chat-template-file",), "LLAMA_ARG_CHAT_TEMPLATE_FILE"),
    "cache_prompt": Flag(("--cache-prompt",), "LLAMA_ARG_CACHE_PROMPT", True, ("--no-cache-prompt",)),
    "context_shift": Flag(("--context-shift",), "LLAMA_ARG_CONTEXT_SHIFT", True, ("--no-context-shift",)),
    "spec_type": Flag(("--spec-type",)),
    "draft_model": Flag(("--spec-draft-model", "-md", "--model-draft"), "LLAMA_ARG_SPEC_DRAFT_MODEL"),
    "draft_hf": Flag(("--spec-draft-hf", "-hfd", "-hfrd", "--hf-repo-draft")),
    "draft_max": Flag(("--spec-draft-n-max", "--draft-max", "--draft", "--draft-n"), "LLAMA_ARG_SPEC_DRAFT_N_MAX"),
    "draft_min": Flag(("--spec-draft-n-min", "--draft-min", "--draft-n-min"), "LLAMA_ARG_SPEC_DRAFT_N_MIN"),
    "predict": Flag(("-n", "--predict", "--n-predict"), "LLAMA_ARG_N_PREDICT"),
    "no_warmup": Flag(("--no-warmup",), None, True),
    "no_webui": Flag(("--no-webui", "--no-ui"), None, True),
    "mlock": Flag(("--mlock",), "LLAMA_ARG_MLOCK", True),
    "no_mmap": Flag(("--no-mmap",), "LLAMA_ARG_NO_MMAP", True),
    "cont_batching": Flag(("-cb", "--cont-batching"), "LLAMA_ARG_CONT_BATCHING", True, ("-nocb", "--no-cont-batching")),
    "embeddings": Flag(("--embedding", "--embeddings"), None, True),
    "host": Flag(("--host",), "LLAMA_ARG_HOST"),
    "port": Flag(("--port",), "LLAMA_ARG_PORT"),
    "api_key": Flag(("--api-key",)),
}

VLLM: Mapping[str, Flag] = {
    "model": Flag(("--model",)),
    "served_model_name": Flag(("--served-model-name",)),
    "max_num_seqs": Flag(("--max-num-seqs",)),
    "max_model_len": Flag(("--max-model-len",)),
    "max_num_batched_tokens": Flag(("--max-num-batched-tokens",)),
    "dtype": Flag(("--dtype",)),
    "kv_cache_dtype": Flag(("--kv-cache-dtype",)),
    "mamba_cache_dtype": Flag(("--mamba-cache-dtype",)),
    "mamba_ssm_cache_dtype": Flag(("--mamba-ssm-cache-dtype",)),
    "gpu_memory_utilization": Flag(("--gpu-memory-utilization",)),
    "num_gpu_blocks_override": Flag(("--num-gpu-blocks-override",)),
    "enable_prefix_caching": Flag(
        ("--enable-prefix-caching",), None, True, ("--no-enable-prefix-caching", "--disable-prefix-caching")
    ),
    "chat_template": Flag(("--chat-template",)),
    "reasoning_parser": Flag(("--reasoning-parser",)),
    "enable_reasoning": Flag(("--enable-reasoning",), None, True),
    "tool_call_parser": Flag(("--tool-call-parser",)),
    "enable_auto_tool_choice": Flag(("--enable-auto-tool-choice",), None, True, ("--no-enable-auto-tool-choice",)),
    "speculative_config": Flag(("--speculative-config", "-sc")),
    "speculative_model": Flag(("--speculative-model",)),
    "num_speculative_tokens": Flag(("--num-speculative-tokens",)),
    "enforce_eager": Flag(("--enforce-eager",), None, True, ("--no-enforce-eager",)),
    "trust_remote_code": Flag(("--trust-remote-code",), None, True, ("--no-trust-remote-code",)),
    "enable_prompt_tokens_details": Flag(("--enable-prompt-tokens-details",), None, True),
    "enable_chunked_prefill": Flag(("--enable-chunked-prefill",), None, True, ("--no-enable-chunked-prefill",)),
    "disable_log_stats": Flag(("--disable-log-stats",), None, True),
    "disable_log_requests": Flag(("--disable-log-requests", "--no-enable-log-requests"), None, True),
    "tensor_parallel_size": Flag(("--tensor-parallel-size", "-tp")),
    "host": Flag(("--host",)),
    "port": Flag(("--port",)),
    "api_key": Flag(("--api-key",)),
}

SGLANG: Mapping[str, Flag] = {
    "model": Flag(("--model-path", "--model")),
    "served_model_name": Flag(("--served-model-name",)),
    "max_running_requests": Flag(("--max-running-requests",)),
    "context_length": Flag(("--context-length",)),
    "kv_cache_dtype": Flag(("--kv-cache-dtype",)),
    "mamba_ssm_dtype": Flag(("--mamba-ssm-dtype",)),
    "mem_fraction_static": Flag(("--mem-fraction-static",)),
    "reasoning_parser": Flag(("--reasoning-parser",)),
    "tool_call_parser": Flag(("--tool-call-parser",)),
    "speculative_algorithm": Flag(("--speculative-algorithm", "--speculative-algo")),
    "speculative_num_draft_tokens": Flag(("--speculative-num-draft-tokens",)),
    "speculative_num_steps": Flag(("--speculative-num-steps",)),
    "speculative_eagle_topk": Flag(("--speculative-eagle-topk",)),
    "speculative_draft_model_path": Flag(("--speculative-draft-model-path", "--speculative-draft-model")),
    "tensor_parallel_size": Flag(("--tp-size", "--tp", "--tensor-parallel-size")),
    "disable_radix_cache": Flag(("--disable-radix-cache",), None, True),
    "enable_metrics": Flag(("--enable-metrics",), None, True),
    "trust_remote_code": Flag(("--trust-remote-code",), None, True),
    "host": Flag(("--host",)),
    "port": Flag(("--port",)),
    "api_key": Flag(("--api-key",)),
}

OLLAMA: Mapping[str, Flag] = {
    "num_parallel": Flag(environ="OLLAMA_NUM_PARALLEL"),
    "context_length": Flag(environ="OLLAMA_CONTEXT_LENGTH"),
    "kv_cache_type": Flag(environ="OLLAMA_KV_CACHE_TYPE"),
    "flash_attention": Flag(environ="OLLAMA_FLASH_ATTENTION"),
    "max_queue": Flag(environ="OLLAMA_MAX_QUEUE"),
    "keep_alive": Flag(environ="OLLAMA_KEEP_ALIVE"),
    "max_loaded_models": Flag(environ="OLLAMA_MAX_LOADED_MODELS"),
    "host": Flag(environ="OLLAMA_HOST"),
}

MLX_LM: Mapping[str, Flag] = {
    "model": Flag(("--model",)),
    "decode_concurrency": Flag(("--decode-concurrency",)),
    "prompt_concurrency": Flag(("--prompt-concurrency",)),
    "draft_model": Flag(("--draft-model",)),
    "num_draft_tokens": Flag(("--num-draft-tokens",)),
    "kv_bits": Flag(("--kv-bits",)),
    "max_tokens": Flag(("--max-tokens",)),
    "temp": Flag(("--temp",)),
    "trust_remote_code": Flag(("--trust-remote-code",), None, True),
    "host": Flag(("--host",)),
    "port": Flag(("--port",)),
}

LM_STUDIO: Mapping[str, Flag] = {
    "parallel": Flag(("--parallel",)),
    "context_length": Flag(("--context-length", "-c")),
    "gpu": Flag(("--gpu",)),
}

TENSORRT_LLM: Mapping[str, Flag] = {
    "max_batch_size": Flag(("--max_batch_size",)),
    "max_seq_len": Flag(("--max_seq_len",)),
    "reasoning_parser": Flag(("--reasoning_parser",)),
    "tool_parser": Flag(("--tool_parser",)),
    "config": Flag(("--config", "--extra_llm_api_options")),
}

LLAMA_CPP_PYTHON: Mapping[str, Flag] = {
    "model": Flag(("--model",)),
    "n_ctx": Flag(("--n_ctx",)),
    "chat_format": Flag(("--chat_format",)),
}

FLAGS: Mapping[str, Mapping[str, Flag]] = {
    "llama.cpp": LLAMA_CPP,
    "vllm": VLLM,
    "sglang": SGLANG,
    "ollama": OLLAMA,
    "mlx-lm": MLX_LM,
    "lm-studio": LM_STUDIO,
    "tensorrt-llm": TENSORRT_LLM,
    "llama-cpp-python": LLAMA_CPP_PYTHON,
}
"""Engine name → its settings by name."""


def spelled(flag: str) -> str:
    """The flag as compared: underscores of a long flag count as dashes, as the engines take them."""
    return "--" + flag[2:].replace("_", "-") if flag.startswith("--") else flag
