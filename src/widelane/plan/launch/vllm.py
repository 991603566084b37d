"""The command of vLLM's server."""

from __future__ import annotations

import json
from typing import Any

from widelane.facts.model import ModelFacts
from widelane.figures import plural
from widelane.plan.launch.address import listen
from widelane.plan.launch.builder import CommandBuilder
from widelane.plan.launch.changes import (
    DRAFT_MODEL_AGAIN,
    HYBRID_PREFIX_CACHE,
    NO_ENABLE_REASONING,
    PREFIX_CACHE_DEFAULT,
    SPECULATIVE_CONFIG,
    STATE_DTYPE_16,
    STATE_DTYPE_CHECKED,
    mtp_method,
)
from widelane.plan.launch.choice import HUB_PLACEHOLDER, PROGRAMS, Accelerator, LaunchChoice, narrow_state
from widelane.plan.launch.kv_types import kv_type
from widelane.plan.launch.parsers import reasoning_parser, tool_parser
from widelane.plan.launch.speculation import no_speculation_reason
from widelane.plan.report import Use

_GIB = 2**30


def vllm_command(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    """Add the flags in the order in which a person reads them: what, where, how wide, how small, how it answers.

    Raises:
        UsageError: vLLM has no such KV type.
    """
    command.program(*PROGRAMS[choice.engine], reason="vLLM's OpenAI-compatible server.")
    _model(command, facts, choice)
    listen(command, choice.engine, choice.host, choice.listen_port)
    if choice.device_count > 1:
        reason = f"The layers' weights are divided between {choice.device_count} cards, which all read at once."
        command.set("tensor_parallel_size", choice.device_count, reason)
    _width(command, choice)
    _memory(command, choice)
    _cache(command, choice)
    _state(command, facts, choice)
    _prefix_cache(command, facts, choice)
    _parsers(command, facts, choice)
    _speculation(command, facts, choice)
    command.set(
        "enable_prompt_tokens_details", None, "Says how much of a prompt came from the prefix cache; else it is null."
    )
    _left_out(command, choice)


def _model(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    if choice.model is None:
        command.word(HUB_PLACEHOLDER, "Name the repository or the folder here: this plan was made without the weights.")
        return
    command.word(choice.model, "The weights: a folder, or a repository that is fetched once.")
    if choice.model.lower().endswith(".gguf"):
        command.note("vLLM reads GGUF files slowly and only some of them: prefer the folder of the original model.")
    if choice.model.startswith((".", "/", "~")):
        command.set("served_model_name", facts.name, "The name that clients ask for, in place of the path.")


def _width(command: CommandBuilder, choice: LaunchChoice) -> None:
    slots = choice.slots
    if slots == 1:
        reason = "One session at a time; others wait."
    else:
        reason = f"{slots} requests decode together and share each read of the weights"
        reason += "; the default (128 to 1024) lets in more than the pool may hold, and they preempt each other."
    command.set("max_num_seqs", slots, reason)
    command.set(
        "max_model_len",
        choice.context_tokens,
        "Bounds one request and reserves nothing; without it the model's own context must fit in the pool, or it will "
        "not start.",
    )


def _memory(command: CommandBuilder, choice: LaunchChoice) -> None:
    if choice.accelerator is Accelerator.CPU:
        if choice.pool_bytes is not None:
            command.environ(
                "VLLM_CPU_KVCACHE_SPACE",
                max(1, choice.pool_bytes // _GIB),
                "GiB of memory for the KV pool; on a CPU no other flag sets it.",
            )
        return
    share = choice.memory_utilization
    if share is None:
        command.leave_out(
            "--gpu-memory-utilization", "The default (0.9; 0.92 in newer versions) is what was planned with."
        )
        return
    where = (
        "CPU and GPU share this memory: the rest stays for the system."
        if choice.unified_memory
        else ("Weights, activations and KV pool get this share of the card, the rest stays for what else runs there.")
    )
    command.set("gpu_memory_utilization", f"{share:.3g}", where)


def _cache(command: CommandBuilder, choice: LaunchChoice) -> None:
    word = kv_type("vllm", choice.kv_dtype)
    if word == "auto":
        command.leave_out(
            "--kv-cache-dtype", "`auto` keeps the model's 16 bits, as decided; fp8 would halve the cache."
        )
        return
    reason = "Half the bytes of a 16-bit cache: twice the tokens, and fewer bytes read a step."
    if choice.accelerator is Accelerator.CPU:
        reason += " On a CPU it needs AVX-512; others refuse it."
    command.set("kv_cache_dtype", word, reason if word.startswith("fp8") else f"The cache in {word}, as asked for.")


def _state(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    if not facts.is_hybrid:
        return
    wide = any(group.state_dtype == "float32" for group in facts.recurrent)
    if choice.state_dtype is None or choice.state_dtype.lower() == "auto":
        what = "the checkpoint's float32" if wide else "the checkpoint's type"
        command.leave_out("--mamba-ssm-cache-dtype", f"`auto` keeps {what}, as decided; float16 would halve the state.")
        return
    if narrow_state(choice.state_dtype) and not STATE_DTYPE_16.is_in(choice.version):
        command.leave_out(
            "--mamba-ssm-cache-dtype",
            f"{STATE_DTYPE_16.what} since {STATE_DTYPE_16.since_text}; this version is older.",
        )
        return
    word = "float16" if choice.state_dtype.lower() in ("f16", "fp16", "half") else choice.state_dtype.lower()
    word = "bfloat16" if word == "bf16" else word
    reason = (
        "The large recurrent state in two bytes a value instead of four: `auto` takes the float32 that the checkpoint "
        f"names. Seen to work on {STATE_DTYPE_CHECKED}."
        if narrow_state(word)
        else f"The recurrent state in {word}, as asked for."
    )
    command.set("mamba_ssm_cache_dtype", word, reason)
    command.leave_out(
        "--mamba-cache-dtype",
        "It changes only the small convolution part of the state: alone, it gains next to nothing.",
    )


def _prefix_cache(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    if facts.is_hybrid and choice.use is Use.AGENTS and HYBRID_PREFIX_CACHE.is_in(choice.version):
        command.set(
            "enable_prefix_caching",
            None,
            "An agent's next turn begins with the last one, and is not read again. It costs a further state block a "
            "request; for hybrid models only newer versions do it unasked.",
        )
    elif PREFIX_CACHE_DEFAULT.is_in(choice.version):
        command.leave_out("--enable-prefix-caching", "Left at the version's default, which is on for plain attention.")
    else:
        command.set("enable_prefix_caching", None, f"Off by default before {PREFIX_CACHE_DEFAULT.since_text}.")


def _parsers(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    tools = tool_parser(facts, choice)
    if tools.name is None:
        command.leave_out("--tool-call-parser", tools.reason)
    else:
        command.set("enable_auto_tool_choice", None, "Lets the model decide when to call a tool; needs the next flag.")
        command.set("tool_call_parser", tools.name, tools.reason)
    thinking = reasoning_parser(facts, choice)
    if thinking.name is None:
        command.leave_out("--reasoning-parser", thinking.reason)
        return
    if not NO_ENABLE_REASONING.is_in(choice.version):
        command.set("enable_reasoning", None, f"{NO_ENABLE_REASONING.what} since {NO_ENABLE_REASONING.since_text}.")
    command.set("reasoning_parser", thinking.name, thinking.reason)


def _speculation(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    if not choice.draft_depth:
        command.leave_out("--speculative-config", no_speculation_reason(facts, choice))
        return
    if choice.draft_model is None and not facts.draft_layers:
        command.leave_out("--speculative-config", "This model ships no draft head, and no draft model was named.")
        return
    if not SPECULATIVE_CONFIG.is_in(choice.version):
        _old_speculation(command, choice)
        return
    config: dict[str, Any] = {"method": mtp_method(choice.version, facts.architecture)}
    ahead = plural(choice.draft_depth, "token")
    reason = (
        f"The model's own draft head guesses {ahead} a step; it stays useful while the batch is "
        "small enough to leave compute over, and each deeper guess is kept less often."
    )
    if choice.draft_model is not None:
        if not DRAFT_MODEL_AGAIN.is_in(choice.version):
            why = f"{DRAFT_MODEL_AGAIN.what} since {DRAFT_MODEL_AGAIN.since_text}; this version is older."
            command.leave_out("--speculative-config", why)
            return
        config = {"method": "draft_model", "model": choice.draft_model}
        reason = f"A small model of the same vocabulary guesses {ahead} a step."
    config["num_speculative_tokens"] = choice.draft_depth
    command.set("speculative_config", json.dumps(config, separators=(",", ":")), reason)


def _old_speculation(command: CommandBuilder, choice: LaunchChoice) -> None:
    """Before there was one JSON object."""
    if choice.draft_model is not None:
        command.set("speculative_model", choice.draft_model, "A small model of the same vocabulary guesses ahead.")
    command.set("num_speculative_tokens", choice.draft_depth, "Tokens guessed a step.")


def _left_out(command: CommandBuilder, choice: LaunchChoice) -> None:
    command.leave_out(
        "--enforce-eager", "It would switch CUDA graphs off: each step then pays for every kernel's start."
    )
    command.leave_out("--quantization", "Read from the checkpoint; a wrong word refuses to load.")
    command.leave_out("--max-num-batched-tokens", "Larger prefills gain little and make running answers stutter.")
    command.leave_out("--trust-remote-code", "It runs Python from the model's repository; only few models need it.")
