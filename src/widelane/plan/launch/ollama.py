"""Ollama's start: everything by the environment, and the model is asked for by name."""

from __future__ import annotations

import re
import shlex

from widelane.facts.model import ModelFacts
from widelane.facts.model_family import one_slot_only
from widelane.plan.launch.address import listen
from widelane.plan.launch.builder import CommandBuilder
from widelane.plan.launch.changes import CONTEXT_LENGTH_ENVIRON, KV_TYPE_ENVIRON
from widelane.plan.launch.choice import PROGRAMS, LaunchChoice
from widelane.plan.launch.kv_types import kv_type
from widelane.plan.launch.llama_cpp import is_gguf_repository, padded


def ollama_command(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    """Add the variables, the program, and how the model comes into it.

    Raises:
        UsageError: Ollama has no such KV type.
    """
    command.program(
        *PROGRAMS[choice.engine], reason="Ollama's server; the installer's service is the same with other settings."
    )
    listen(command, choice.engine, choice.host, choice.listen_port)
    slots = _slots(command, facts, choice)
    _context(command, choice, slots)
    _cache(command, choice)
    command.environ("OLLAMA_KEEP_ALIVE", "-1", "The model stays loaded; by default it goes after 5 idle minutes.")
    command.environ("OLLAMA_MAX_LOADED_MODELS", 1, "A second model would take the memory of this one's cache.")
    _model(command, facts, choice)
    _left_out(command, facts, choice)


def model_tag(name: str) -> str:
    """A name under which Ollama can hold a model of one's own: lower case, without the organisation."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.rpartition("/")[2].lower()).strip("-.") or "model"


def _slots(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> int:
    if one_slot_only(facts.architecture):
        command.leave_out(
            "OLLAMA_NUM_PARALLEL",
            f"Ollama runs {facts.architecture} one request at a time whatever it says; llama-server runs the same "
            "weights in parallel.",
        )
        if choice.slots > 1:
            command.note(
                f"{choice.slots} requests at once are not possible: Ollama forces {facts.architecture} to one slot. "
                "Plan with --engine llama.cpp."
            )
        return 1
    reason = (
        "One request at a time; the rest waits."
        if choice.slots == 1
        else f"{choice.slots} requests decode together; the default is 1, and the cache is allocated for all of them."
    )
    command.environ("OLLAMA_NUM_PARALLEL", choice.slots, reason)
    return choice.slots


def _context(command: CommandBuilder, choice: LaunchChoice, slots: int) -> None:
    each = padded(choice.context_tokens)
    if not CONTEXT_LENGTH_ENVIRON.is_in(choice.version):
        command.note(
            f"Before {CONTEXT_LENGTH_ENVIRON.since_text} only `PARAMETER num_ctx {each}` in a Modelfile sets it."
        )
        return
    command.environ(
        "OLLAMA_CONTEXT_LENGTH",
        each,
        "Tokens of one request; the default goes by video memory (4096 below 24 GiB), and longer prompts are cut "
        f"without a word. {slots} times that is allocated.",
    )


def _cache(command: CommandBuilder, choice: LaunchChoice) -> None:
    word = kv_type("ollama", choice.kv_dtype)
    if word == "f16":
        command.leave_out("OLLAMA_KV_CACHE_TYPE", "The default f16 cache fits; q8_0 would nearly halve it.")
        return
    if not KV_TYPE_ENVIRON.is_in(choice.version):
        command.leave_out("OLLAMA_KV_CACHE_TYPE", f"{KV_TYPE_ENVIRON.what} since {KV_TYPE_ENVIRON.since_text}.")
        return
    command.environ("OLLAMA_KV_CACHE_TYPE", word, "Nearly half the cache, or less.")
    command.environ("OLLAMA_FLASH_ATTENTION", 1, "A quantised cache needs flash attention; else it stays f16.")


def _model(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    model = choice.model
    if model is not None and (model.lower().endswith(".gguf") or model.startswith((".", "/", "~"))):
        command.afterwards(f"printf 'FROM %s\\n' {shlex.quote(model)} > Modelfile")
        command.afterwards(f"ollama create {model_tag(facts.name)} -f Modelfile")
    elif model is not None and is_gguf_repository(model):
        command.afterwards(f"ollama pull {shlex.quote(f'hf.co/{model}')}")
    elif model is not None and "/" not in model:
        command.afterwards(f"ollama pull {shlex.quote(model)}")
    else:
        command.afterwards(f"ollama pull {model_tag(facts.name)}")
        command.note("The name in Ollama's library may differ from the one shown; `ollama list` tells what is there.")


def _left_out(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    command.leave_out("OLLAMA_MAX_QUEUE", "512 waiting requests; what comes beyond is answered 503.")
    command.leave_out("OLLAMA_SCHED_SPREAD", "Ollama uses a second card only where one is not enough.")
    if choice.draft_depth:
        why = "Ollama drafts by itself where a model ships a draft head, and cannot be told more."
        command.leave_out("(speculation)", why)
    if facts.is_hybrid:
        command.leave_out("(state type)", "The recurrent state stays in f32; no setting changes it.")
