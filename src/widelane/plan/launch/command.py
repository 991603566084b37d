"""From a decided server to its start command: one function for every engine, and the changes a user may make to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from widelane.errors import UsageError
from widelane.facts.model import ModelFacts
from widelane.plan.launch.builder import CommandBuilder, argument, finished, words_of
from widelane.plan.launch.choice import PLACEHOLDERS, LaunchChoice
from widelane.plan.launch.llama_cpp import llama_cpp_command
from widelane.plan.launch.ollama import ollama_command
from widelane.plan.launch.sglang import sglang_command
from widelane.plan.launch.vllm import vllm_command
from widelane.plan.report import Argument, LaunchPlan

_COMMANDS: Mapping[str, Callable[[CommandBuilder, ModelFacts, LaunchChoice], None]] = {
    "llama.cpp": llama_cpp_command,
    "vllm": vllm_command,
    "sglang": sglang_command,
    "ollama": ollama_command,
}
ENGINES = tuple(_COMMANDS)


def launch_plan(facts: ModelFacts, choice: LaunchChoice) -> LaunchPlan:
    """The command for this engine and version, one flag at a time with its reason, and the flags left out.

    Raises:
        UsageError: the engine is none of `ENGINES`, or a stated type or size cannot be used with it.
    """
    command = _COMMANDS.get(choice.engine)
    if command is None:
        raise UsageError(f"no launch command is known for {choice.engine!r}; it can be {', '.join(ENGINES)}")
    if choice.slots < 1 or choice.context_tokens < 1:
        raise UsageError(f"a server needs at least 1 slot and 1 token: {choice.slots}, {choice.context_tokens}")
    builder = CommandBuilder(choice)
    command(builder, facts, choice)
    return builder.plan()


def missing_model(plan: LaunchPlan) -> str | None:
    """The placeholder that stands where a model must be named, None when the command is whole."""
    words = words_of(plan)  # vLLM names the model that drafts within a JSON object
    return next((name for name in PLACEHOLDERS if any(word == name or f'"{name}"' in word for word in words)), None)


def with_program(plan: LaunchPlan, words: Sequence[str]) -> LaunchPlan:
    """The same command started by other words, e.g. `python -m vllm.entrypoints.openai.api_server`.

    vLLM's module takes the model as `--model`, its `serve` as the first word.
    """
    own = 0
    while own < len(plan.argv) and plan.argv[own].flag is None:
        own += 1
    serves = plan.engine == "vllm" and "serve" not in words
    model = [plan.argv[own - 1]] if plan.engine == "vllm" else []
    if serves:
        model = [argument("--model", part.value, part.reason) for part in model]
    program = [argument(None, word, "The program that you named." if at == 0 else "") for at, word in enumerate(words)]
    return finished(replace(plan, argv=(*program, *model, *plan.argv[own:])))


def with_arguments(plan: LaunchPlan, words: Sequence[str]) -> LaunchPlan:
    """The same command with further words at its end, as a user gave them. A flag of ours that they repeat goes out."""
    given = {word.partition("=")[0] for word in words if word.startswith("-")}
    kept = [part for part in plan.argv if part.flag not in given]
    added: list[Argument] = []
    for word in words:
        last = added[-1] if added else None
        takes = last is not None and last.flag is not None and last.value is None and "=" not in last.flag
        if last is not None and takes and not word.startswith("--"):
            added[-1] = argument(last.flag, word, last.reason)
        elif word.startswith("-"):
            added.append(argument(word, None, "Given by you."))
        else:
            added.append(argument(None, word, "Given by you."))
    left_out = [one for one in plan.left_out if one.flag not in given]
    return finished(replace(plan, argv=(*kept, *added), left_out=left_out))
