"""What to change on the other servers, and in any request. By documentation and source, not by running them."""

from __future__ import annotations

from collections.abc import Mapping

from widelane.engines.advice_parts import Advice, Adviser, Asked
from widelane.facts.model_family import form_of_family, one_slot_only, reasoning_parsers, tool_form, tool_parsers
from widelane.plan.launch.changes import CHECKED_ON

SGLANG = CHECKED_ON["sglang"]
OLLAMA = CHECKED_ON["ollama"]
LM_STUDIO = "documentation of 0.4"
MLX_LM = "0.32.2"
TENSORRT_LLM = "documentation, 2026"


def _flag(setting: str, flag: str, value: str, reason: str, checked_on: str) -> Advice:
    return Advice(flag=f"{flag} {value}", settings={setting: value}, reason=reason, checked_on=checked_on)


def _sglang_slots(asked: Asked) -> Advice:
    slots = str(asked.slots_wanted)
    reason = "The server may lower it again when its memory holds fewer: see effective_max_running_requests_per_dp."
    return _flag("max_running_requests", "--max-running-requests", slots, reason, SGLANG)


def _sglang_context(asked: Asked) -> Advice | None:
    wanted = asked.number("context")
    if wanted is None:
        return None
    return _flag("context_length", "--context-length", str(wanted), "It bounds one sequence.", SGLANG)


def _sglang_kv(asked: Asked) -> Advice:
    return _flag("kv_cache_dtype", "--kv-cache-dtype", "fp8_e4m3", "Half the bytes of a 16-bit cache.", SGLANG)


def _sglang_state(asked: Asked) -> Advice:
    reason = "The large recurrent state in two bytes a value instead of four."
    return _flag("mamba_ssm_dtype", "--mamba-ssm-dtype", "bfloat16", reason, SGLANG)


def _sglang_reasoning(asked: Asked) -> Advice:
    parser = reasoning_parsers(asked.model).sglang or "PARSER"
    reason = "By the model's name; PARSER is the one that SGLang lists for this model."
    return _flag("reasoning_parser", "--reasoning-parser", parser, reason, SGLANG)


def _sglang_tools(asked: Asked) -> Advice:
    form = tool_form(str(asked.known.get("text") or "")) or form_of_family(asked.model)
    parser = tool_parsers(form).sglang or "PARSER"
    reason = "By the form of the call or the model's name; PARSER is the one that SGLang lists for this model."
    return _flag("tool_call_parser", "--tool-call-parser", parser, reason, SGLANG)


def _sglang_no_speculation(asked: Asked) -> Advice:
    reason = "For models that ship a draft head; measure it: many calls at once gain less."
    return _flag("speculative_algorithm", "--speculative-algorithm", "NEXTN", reason, SGLANG)


def _sglang_harmful(asked: Asked) -> Advice:
    return Advice(
        flag="without --speculative-algorithm",
        settings=dict.fromkeys(
            ("speculative_algorithm", "speculative_num_draft_tokens", "speculative_num_steps", "speculative_eagle_topk")
        ),
        reason="Each drafted token is computed by the model, kept or not; most of them are thrown away.",
        checked_on=SGLANG,
    )


def _sglang_prefix(asked: Asked) -> Advice:
    return Advice(
        flag="without --disable-radix-cache",
        settings={"disable_radix_cache": None},
        reason="The prefix cache is on unless that flag turns it off.",
        checked_on=SGLANG,
    )


def _ollama(name: str, value: str, reason: str, more: Mapping[str, str] | None = None) -> Advice:
    environ = {name: value, **(more or {})}
    how = " Where Ollama runs as a service: `systemctl edit ollama`, on macOS `launchctl setenv`; then restart it."
    return Advice(
        flag=" ".join(f"{key}={text}" for key, text in environ.items()),
        environ=environ,
        reason=reason + how,
        checked_on=OLLAMA,
    )


def _ollama_slots(asked: Asked) -> Advice:
    architecture = asked.facts.extra.get("architecture")
    slots, each = asked.slots_wanted, asked.number("context") or int(asked.facts.context_per_slot.number or 4096)
    if architecture is not None and one_slot_only(str(architecture.value)):
        return Advice(
            flag=f"llama-server -m MODEL.gguf -np {slots} -c {slots * each}",
            reason=f"Ollama runs {architecture.value} one request at a time whatever OLLAMA_NUM_PARALLEL says; "
            "llama-server runs the same weights in parallel.",
            checked_on=OLLAMA,
            by_request=True,
        )
    reason = f"The cache grows with it: {slots} times the context (num_ctx) of {each} tokens."
    return _ollama("OLLAMA_NUM_PARALLEL", str(slots), reason)


def _ollama_context(asked: Asked) -> Advice:
    wanted = asked.number("context") or asked.number("tokens")
    value = wanted or 2 * int(asked.facts.context_per_slot.number or 4096)
    reason = "Ollama chooses the context by the video memory (4096 tokens below 24 GiB) and cuts longer prompts; "
    return _ollama("OLLAMA_CONTEXT_LENGTH", str(value), f"{reason}`num_ctx` in a Modelfile sets it for one model.")


def _ollama_kv(asked: Asked) -> Advice:
    reason = "Nearly half the cache. A quantised cache needs flash attention."
    return _ollama("OLLAMA_KV_CACHE_TYPE", "q8_0", reason, {"OLLAMA_FLASH_ATTENTION": "1"})


def _ollama_offload(asked: Asked) -> Advice:
    smaller = max(2048, int(asked.facts.context_per_slot.number or 8192) // 2)
    reason = "A smaller context or fewer parallel requests make room on the GPU; else a smaller quantisation."
    return _ollama("OLLAMA_CONTEXT_LENGTH", str(smaller), reason)


def _lm_studio_slots(asked: Asked) -> Advice:
    slots = asked.slots_wanted
    return Advice(
        flag=f"lms load {_lm_model(asked)} --parallel {slots}",
        command=f"lms load {_lm_model(asked)} --parallel {slots}",
        reason="Max Concurrent Predictions in the model's load settings (4 by default, llama.cpp engine only: MLX "
        "takes one request after the other).",
        checked_on=LM_STUDIO,
    )


def _lm_studio_context(asked: Asked) -> Advice | None:
    wanted = asked.number("context")
    if wanted is None:
        return None
    line = f"lms load {_lm_model(asked)} --context-length {wanted}"
    return Advice(flag=line, command=line, reason="Context Length in the load settings.", checked_on=LM_STUDIO)


def _lm_studio_kv(asked: Asked) -> Advice:
    return Advice(
        flag="K Cache Quantization Type q8_0, V Cache Quantization Type q8_0, Flash Attention on",
        reason="In the model's load settings: nearly half the cache.",
        checked_on=LM_STUDIO,
        by_request=True,
    )


def _lm_model(asked: Asked) -> str:
    return asked.model or "MODEL"


def _mlx_slots(asked: Asked) -> Advice:
    slots = asked.slots_wanted
    return Advice(
        flag=f"--decode-concurrency {slots} (without --kv-bits and --draft-model)",
        settings={"decode_concurrency": str(slots), "kv_bits": None, "draft_model": None},
        reason="--kv-bits or --draft-model turn mlx-lm's batching off altogether.",
        checked_on=MLX_LM,
    )


def _mlx_max_tokens(asked: Asked) -> Advice:
    return _flag("max_tokens", "--max-tokens", "8192", "mlx-lm's default is 512 for a request that names none.", MLX_LM)


def _python_slots(asked: Asked) -> Advice:
    each = asked.number("context") or int(asked.facts.context_per_slot.number or 4096)
    slots = asked.slots_wanted
    return Advice(
        flag=f"llama-server -m MODEL.gguf -np {slots} -c {slots * each}",
        reason="llama-cpp-python answers one request at a time; llama-server runs the same file in parallel.",
        checked_on="source of 0.3.36",
        by_request=True,
    )


def _tensorrt_slots(asked: Asked) -> Advice:
    slots = str(asked.slots_wanted)
    return _flag("max_batch_size", "--max_batch_size", slots, "Sequences in one batch.", TENSORRT_LLM)


def _tensorrt_context(asked: Asked) -> Advice | None:
    wanted = asked.number("context")
    if wanted is None:
        return None
    return _flag("max_seq_len", "--max_seq_len", str(wanted), "It bounds one sequence.", TENSORRT_LLM)


def _more_requests(asked: Asked) -> Advice:
    return Advice(
        flag="several requests with n = 1",
        reason="They cost the same, run side by side, and each can be cancelled alone.",
        checked_on="any server",
        by_request=True,
    )


def _state_max_tokens(asked: Asked) -> Advice:
    return Advice(
        flag='"max_tokens": N',
        reason="Without it some endpoints stop after 16 tokens (/v1/completions of vLLM and SGLang) or 512 (mlx-lm).",
        checked_on="vLLM 0.32.0, mlx-lm 0.32.2",
        by_request=True,
    )


def _state_temperature(asked: Asked) -> Advice:
    return Advice(
        flag='"temperature": 0.8',
        reason="Without it a server may sample greedily (mlx-lm), and all of N attempts are the same.",
        checked_on="mlx-lm 0.32.2",
        by_request=True,
    )


def _proxy(asked: Asked) -> Advice:
    return Advice(
        flag="proxy_buffering off;",
        reason="For nginx, in the location of the model server; other proxies have a like setting. Or ask the server "
        "itself, without the proxy.",
        checked_on="nginx documentation",
        by_request=True,
    )


OTHER_ADVICE: Mapping[str, Mapping[str, Adviser]] = {
    "sglang": {
        "too-few-slots": _sglang_slots,
        "small-context": _sglang_context,
        "kv-wider-than-needed": _sglang_kv,
        "state-float32": _sglang_state,
        "reasoning-leak": _sglang_reasoning,
        "tool-calls-in-text": _sglang_tools,
        "no-speculation": _sglang_no_speculation,
        "harmful-speculation": _sglang_harmful,
        "prefix-cache-off": _sglang_prefix,
    },
    "ollama": {
        "too-few-slots": _ollama_slots,
        "small-context": _ollama_context,
        "prompt-truncated": _ollama_context,
        "kv-wider-than-needed": _ollama_kv,
        "partial-offload": _ollama_offload,
    },
    "lm-studio": {
        "too-few-slots": _lm_studio_slots,
        "small-context": _lm_studio_context,
        "kv-wider-than-needed": _lm_studio_kv,
    },
    "mlx-lm": {"too-few-slots": _mlx_slots, "max-tokens-default-tiny": _mlx_max_tokens},
    "llama-cpp-python": {"too-few-slots": _python_slots},
    "tensorrt-llm": {"too-few-slots": _tensorrt_slots, "small-context": _tensorrt_context},
}

ANY_ENGINE: Mapping[str, Adviser] = {
    "n-ignored": _more_requests,
    "max-tokens-default-tiny": _state_max_tokens,
    "temperature-default": _state_temperature,
    "buffering-proxy": _proxy,
}
"""Advice that holds whatever the engine, where the engine has none of its own."""
