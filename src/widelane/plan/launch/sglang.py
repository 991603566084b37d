"""The command of SGLang's server. Its flags are those of the source of 0.5.23."""

from __future__ import annotations

from widelane.facts.model import ModelFacts
from widelane.plan.launch.address import listen
from widelane.plan.launch.builder import CommandBuilder
from widelane.plan.launch.choice import HUB_PLACEHOLDER, PROGRAMS, LaunchChoice, narrow_state
from widelane.plan.launch.kv_types import kv_type
from widelane.plan.launch.parsers import reasoning_parser, tool_parser
from widelane.plan.launch.speculation import no_speculation_reason


def sglang_command(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    """Add the flags in the order in which a person reads them.

    Raises:
        UsageError: SGLang has no such KV type.
    """
    command.program(*PROGRAMS[choice.engine], reason="SGLang's server, in the environment that has it.")
    _model(command, facts, choice)
    listen(command, choice.engine, choice.host, choice.listen_port)
    if choice.device_count > 1:
        reason = f"The layers' weights are divided between {choice.device_count} cards, which all read at once."
        command.set("tensor_parallel_size", choice.device_count, reason)
    _width(command, choice)
    _cache(command, choice)
    _state(command, facts, choice)
    _parsers(command, facts, choice)
    _speculation(command, facts, choice)
    command.set("enable_metrics", None, "Off by default: without it neither queue nor pool can be seen from outside.")
    command.leave_out("--disable-radix-cache", "Requests that begin alike share their prefix; it is on by default.")
    command.leave_out("--trust-remote-code", "It runs Python from the model's repository; only few models need it.")


def _model(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    if choice.model is None:
        reason = "Name the repository or the folder here: this plan was made without the weights."
        command.set("model", HUB_PLACEHOLDER, reason)
        return
    command.set("model", choice.model, "The weights: a folder, or a repository that is fetched once.")
    if choice.model.startswith((".", "/", "~")):
        command.set("served_model_name", facts.name, "The name that clients ask for, in place of the path.")


def _width(command: CommandBuilder, choice: LaunchChoice) -> None:
    reason = (
        "One session at a time; others wait."
        if choice.slots == 1
        else f"{choice.slots} requests decode together; the server lowers it where its memory holds fewer."
    )
    command.set("max_running_requests", choice.slots, reason)
    command.set("context_length", choice.context_tokens, "Bounds one request and reserves nothing.")
    if choice.memory_utilization is None:
        command.leave_out("--mem-fraction-static", "Chosen by the server from the card's memory.")
        return
    rest = "for the system, which shares this memory" if choice.unified_memory else "for activations and CUDA graphs"
    command.set(
        "mem_fraction_static",
        f"{choice.memory_utilization:.3g}",
        f"Weights and pool get this share; the rest is {rest}.",
    )


def _cache(command: CommandBuilder, choice: LaunchChoice) -> None:
    word = kv_type("sglang", choice.kv_dtype)
    if word == "auto":
        command.leave_out(
            "--kv-cache-dtype", "`auto` keeps the model's 16 bits, as decided; fp8 would halve the cache."
        )
    else:
        command.set(
            "kv_cache_dtype", word, "Half the bytes of a 16-bit cache, or less: more tokens, fewer bytes a step."
        )


def _state(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    if not facts.is_hybrid:
        return
    if choice.state_dtype is None or choice.state_dtype.lower() == "auto":
        reason = "The default keeps float32, as decided; bfloat16 would halve the state."
        command.leave_out("--mamba-ssm-dtype", reason)
    elif narrow_state(choice.state_dtype):
        reason = "The large recurrent state in two bytes a value instead of four; SGLang documents bfloat16 for it."
        command.set("mamba_ssm_dtype", "bfloat16", reason)
    else:
        command.set("mamba_ssm_dtype", choice.state_dtype.lower(), "As asked for.")


def _parsers(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    for setting, flag, parser in (
        ("tool_call_parser", "--tool-call-parser", tool_parser(facts, choice)),
        ("reasoning_parser", "--reasoning-parser", reasoning_parser(facts, choice)),
    ):
        if parser.name is None:
            command.leave_out(flag, parser.reason)
        else:
            command.set(setting, parser.name, parser.reason)


def _speculation(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    depth = choice.draft_depth
    if not depth:
        command.leave_out("--speculative-algorithm", no_speculation_reason(facts, choice))
        return
    if choice.draft_model is not None:
        reason = "A small model of the same vocabulary guesses ahead."
        command.set("speculative_algorithm", "STANDALONE", reason)
        command.set("speculative_draft_model_path", choice.draft_model, "The model that guesses.")
    elif facts.draft_layers:
        command.set("speculative_algorithm", "NEXTN", "The model's own draft head guesses ahead.")
    else:
        reason = "This model ships no draft head, and no draft model was named."
        command.leave_out("--speculative-algorithm", reason)
        return
    command.set("speculative_num_steps", depth, f"{depth} guesses a step, one after the other.")
    command.set("speculative_eagle_topk", 1, "One guess at each position: a chain, not a tree.")
    command.set("speculative_num_draft_tokens", depth + 1, "Tokens checked a step: the guesses and one more.")
