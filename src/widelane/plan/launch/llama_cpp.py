"""The command of llama.cpp's server."""

from __future__ import annotations

from dataclasses import replace

from widelane.facts.model import ModelFacts
from widelane.figures import plural
from widelane.plan.launch.address import listen
from widelane.plan.launch.builder import CommandBuilder, argument, finished
from widelane.plan.launch.changes import (
    AUTOMATIC_SLOTS,
    CONTEXT_SHIFT_OFF,
    JINJA_DEFAULT,
    KV_PER_SLOT,
    KV_UNIFIED_FLAG,
    ONE_SLOT_HONOURED,
    SPEC_DRAFT_TYPES,
    SPEC_MTP,
    draft_settings,
    draft_spellings,
    flash_attention_words,
)
from widelane.plan.launch.choice import GGUF_PLACEHOLDER, PROGRAMS, Accelerator, LaunchChoice
from widelane.plan.launch.flags import FLAGS
from widelane.plan.launch.kv_types import kv_type
from widelane.plan.launch.speculation import no_speculation_reason
from widelane.plan.report import LaunchPlan

MOST_SLOTS = 256
"""LLAMA_MAX_SEQ."""
UNQUANTISED = ("f32", "f16", "bf16")
_PADDING_TOKENS = 256


def llama_cpp_command(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    """Add the flags in the order in which a person reads them: what, where, how wide, how small, how seen.

    Raises:
        UsageError: llama.cpp has no such KV type.
    """
    command.program(*PROGRAMS[choice.engine], reason="llama.cpp's own server.")
    _model(command, choice)
    listen(command, choice.engine, choice.host, choice.listen_port)
    _compute(command, choice)
    _slots(command, choice)
    _cache(command, choice)
    _speculation(command, facts, choice)
    _template(command, choice)
    command.set("metrics", None, "Off by default: without it neither queue nor busy slots can be seen from outside.")
    _left_out(command, facts, choice)


def padded(tokens: int) -> int:
    """llama.cpp rounds a context up to a multiple of 256."""
    return -(-tokens // _PADDING_TOKENS) * _PADDING_TOKENS


def is_gguf_repository(model: str) -> bool:
    """Whether `org/name` is a repository of GGUF files, by its name: others hold what llama.cpp cannot read."""
    return model.count("/") == 1 and not model.startswith((".", "/", "~")) and "gguf" in model.lower()


def _model(command: CommandBuilder, choice: LaunchChoice) -> None:
    model = choice.model or ""
    if model.lower().endswith(".gguf") or model.startswith(("/", "./", "../")):
        command.set("model", model, "The weights, as one GGUF file (the first one, where it is split).")
    elif is_gguf_repository(model):
        command.set("hf_repo", model, "Fetched once from Hugging Face; `:Q4_K_M` after the name chooses a file.")
    else:
        command.set("model", GGUF_PLACEHOLDER, "Name your GGUF file here: llama.cpp reads no other form.")


def _compute(command: CommandBuilder, choice: LaunchChoice) -> None:
    if choice.accelerator is Accelerator.CPU:
        return
    command.set(
        "gpu_layers",
        999,
        "All layers on the GPU, or no start: left to itself it may put some on the CPU, and every token waits there.",
    )


def with_threads(plan: LaunchPlan, threads: int) -> LaunchPlan:
    """The same command with so many compute threads, for a machine whose cores are known."""
    flag = argument(
        FLAGS["llama.cpp"]["threads"].spellings[0],
        str(threads),
        "Compute threads spin while they wait for each other: one that shares its core stalls them all, so some cores "
        "stay free for clients and the system.",
    )
    at = next(at for at, part in enumerate(plan.argv) if part.flag == "-np")
    return finished(replace(plan, argv=(*plan.argv[:at], flag, *plan.argv[at:])))


def _slots(command: CommandBuilder, choice: LaunchChoice) -> None:
    slots, each = min(choice.slots, MOST_SLOTS), padded(choice.context_tokens)
    if choice.slots > MOST_SLOTS:
        command.note(f"llama.cpp has at most {MOST_SLOTS} slots; {choice.slots} were wanted.")
    command.set("parallel", slots, _slots_reason(slots, choice))
    whole, pool = slots * each, choice.pool_tokens
    if pool is None or whole <= pool or slots == 1:
        _split(command, choice, slots, each)
        return
    shared = max(each, pool // _PADDING_TOKENS * _PADDING_TOKENS)
    reason = f"All the tokens that memory holds: {slots} slots of {each} would need {whole}."
    command.set("ctx_size", shared, reason)
    if not KV_UNIFIED_FLAG.is_in(choice.version):
        command.note(f"Before {KV_UNIFIED_FLAG.since_text} the pool is shared as it is, and a slot holds -c ÷ -np.")
        return
    command.set(
        "kv_unified",
        None,
        f"One pool for all, so that one request may use {each} tokens while others use few. It neither queues nor "
        f"preempts: keep the tokens in flight below {shared}, or every running request fails at once.",
    )
    if KV_PER_SLOT.is_in(choice.version):
        command.set("kv_unified_per_slot", each, "No single request may take the whole pool.")


def _slots_reason(slots: int, choice: LaunchChoice) -> str:
    if slots == 1:
        reason = "One session, one slot: the whole context is its own."
        if AUTOMATIC_SLOTS.is_in(choice.version) and not ONE_SLOT_HONOURED.is_in(choice.version):
            reason += f" (Builds before {ONE_SLOT_HONOURED.since_text} take this 1 for the automatic 4.)"
        return reason
    what = "4 slots that share one pool" if AUTOMATIC_SLOTS.is_in(choice.version) else "a single slot"
    return f"{slots} requests decode together and share each read of the weights; without it {what}."


def _split(command: CommandBuilder, choice: LaunchChoice, slots: int, each: int) -> None:
    if slots == 1:
        command.set("ctx_size", each, "The longest request; without it the model's own context is allocated in full.")
        return
    command.set("ctx_size", slots * each, f"-np splits it: {slots} slots of {each} tokens each.")
    command.leave_out(
        "--kv-unified",
        "An explicit -np splits the pool: a request that outgrows its slot fails alone. A shared pool that fills up "
        "fails every running request.",
    )


def _cache(command: CommandBuilder, choice: LaunchChoice) -> None:
    word = kv_type("llama.cpp", choice.kv_dtype)
    if word == "f16":
        command.leave_out("-ctk, -ctv", "The default f16 cache fits; q8_0 would nearly halve it.")
        return
    command.set("cache_type_k", word, _kv_reason(word))
    command.set("cache_type_v", word, "V as K.")
    if word not in UNQUANTISED:
        spelling, *value = flash_attention_words(choice.version)
        reason = "A quantised V needs flash attention; the server refuses to start without it."
        command.set("flash_attn", value[0] if value else None, reason, spelling=spelling)


def _kv_reason(word: str) -> str:
    if word == "q8_0":
        return "34 bytes for 32 values instead of 64: nearly half the cache, so more tokens and fewer bytes a step."
    if word not in UNQUANTISED:
        return "A small cache for the longest contexts; check answers, 4 and 5 bits may be felt."
    return f"The cache in {word}, as asked for."


def _speculation(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    depth = choice.draft_depth
    if not depth:
        command.leave_out("--spec-type", no_speculation_reason(facts, choice))
        return
    names = draft_spellings(choice.version)
    if choice.draft_model is not None:
        settings = draft_settings(choice.version, choice.draft_model, depth)
        if "spec_type" in settings:
            reason = f"Drafting with a small model; {SPEC_DRAFT_TYPES.what} since {SPEC_DRAFT_TYPES.since_text}."
            command.set("spec_type", settings["spec_type"], reason)
        command.set(
            "draft_model",
            choice.draft_model,
            "A small model of the same family (same vocabulary) that guesses ahead; each guess that holds is a token "
            "for free while few requests run.",
            spelling=names["draft_model"],
        )
    elif not facts.draft_layers:
        command.leave_out("--spec-type draft-mtp", "This model ships no draft head; name a draft model instead.")
        return
    elif not SPEC_MTP.is_in(choice.version):
        command.leave_out("--spec-type draft-mtp", f"Draft heads are used since {SPEC_MTP.since_text}.")
        return
    else:
        command.set(
            "spec_type",
            "draft-mtp",
            "The model's own draft head guesses ahead; the GGUF must still hold it (conversions often drop it).",
        )
    reason = (
        f"{plural(depth, 'token')} a step; deeper guesses are kept less often, and each slot holds {depth + 1} states."
    )
    command.set(
        "draft_max", depth, reason if facts.is_hybrid else reason.split(",")[0] + ".", spelling=names["draft_max"]
    )


def _template(command: CommandBuilder, choice: LaunchChoice) -> None:
    if JINJA_DEFAULT.is_in(choice.version):
        reason = (
            f"The default since about {JINJA_DEFAULT.since_text}: tools and thinking are read by the file's template."
        )
        command.leave_out("--jinja, --reasoning-format", reason)
    else:
        command.set("jinja", None, "Tools and thinking need the chat template of the file.")
    if not CONTEXT_SHIFT_OFF.is_in(choice.version):
        command.set(
            "context_shift",
            None,
            "A prompt that does not fit is refused rather than cut without a word.",
            spelling="--no-context-shift",
        )


def _left_out(command: CommandBuilder, facts: ModelFacts, choice: LaunchChoice) -> None:
    if facts.is_hybrid:
        command.leave_out(
            "(state type)", "llama.cpp keeps the recurrent state of each slot in f32; no flag changes it."
        )
    if facts.window:
        command.leave_out("--swa-full", "It would keep the whole context in windowed layers too, for a rare reuse.")
    if choice.unified_memory:
        command.leave_out(
            "--cache-ram",
            "Prompts of idle slots are kept in up to 8 GiB, here of the same memory: lower it where that is short.",
        )
    command.leave_out("-b, -ub", "2048 and 512 are good: larger ones gained nothing in our measurements.")
