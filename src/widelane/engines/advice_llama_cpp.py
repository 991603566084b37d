"""What to change on a llama.cpp server. Flags ran on b11549, unless the version says otherwise.

Which flag has which spelling in which build is in `plan.launch.changes`; builds refuse the spellings of others.
"""

from __future__ import annotations

from collections.abc import Mapping

from widelane.engines.advice_parts import THINKING_OFF, Advice, Adviser, Asked
from widelane.plan.launch.changes import (
    CHECKED_ON,
    SPEC_FLAGS,
    SPEC_MTP,
    draft_settings,
    draft_spellings,
    flash_attention_words,
)
from widelane.plan.launch.llama_cpp import MOST_SLOTS, padded

CHECKED = CHECKED_ON["llama.cpp"]
_UNKNOWN_SHARE = 4096
_BEFORE = f"source before {SPEC_FLAGS.since_text}"


def _too_few_slots(asked: Asked) -> Advice:
    """`-np` never alone: it splits `-c`, and a start without it had one shared pool."""
    slots = min(asked.slots_wanted, MOST_SLOTS)
    each, why = _context_each(asked)
    reason = (
        f"An explicit -np splits -c between the slots and turns the shared pool off: {slots} slots of {each} tokens "
        f"need -c {slots * each} ({why}). --kv-unified would keep one pool for all, and a full pool fails every call."
    )
    return _slots_and_context(slots, each, reason)


def _small_context(asked: Asked) -> Advice | None:
    wanted = asked.number("context")
    slots = asked.number("slots") or int(asked.facts.slots.number or 1)
    if wanted is None:
        return None
    each = _padded(wanted)
    if asked.facts.unified_pool.value is True:
        reason = (
            f"The {slots} slots share -c: for {each} tokens in each at the same time it must be {slots} times that."
        )
        return Advice(
            flag=f"-c {slots * each}", settings={"ctx_size": str(slots * each)}, reason=reason, checked_on=CHECKED
        )
    return _slots_and_context(slots, each, f"-c is divided by -np: {slots} slots of {each} tokens need {slots * each}.")


def _shared_pool_overflow(asked: Asked) -> Advice:
    slots = asked.number("slots") or int(asked.facts.slots.number or 4)
    each, why = _context_each(asked)
    reason = (
        f"Each slot then has a context of its own ({each} tokens, {why}), and a call that outgrows it fails alone. "
        "Without a restart: keep the tokens of all calls in flight below the pool."
    )
    advice = _slots_and_context(slots, each, reason)
    return Advice(
        flag=f"{advice.flag} --no-kv-unified",
        settings={**advice.settings, "kv_unified": False},
        reason=reason,
        checked_on=CHECKED,
    )


def _slots_and_context(slots: int, each: int, reason: str) -> Advice:
    return Advice(
        flag=f"-np {slots} -c {slots * each}",
        settings={"parallel": str(slots), "ctx_size": str(slots * each), "kv_unified": None},
        reason=reason,
        checked_on=CHECKED,
    )


def _context_each(asked: Asked) -> tuple[int, str]:
    """Context that one slot should have, and where the figure comes from."""
    facts = asked.facts
    wanted = asked.number("context")
    if wanted is not None:
        return _padded(wanted), "as much as this use needs"
    context, slots = facts.context_per_slot.number, facts.slots.number
    if facts.unified_pool.value is True and facts.pool_tokens.number and slots:
        return _padded(int(facts.pool_tokens.number / slots)), "each slot's share of the pool so far"
    if context:
        return _padded(int(context)), "as each slot has now"
    return _UNKNOWN_SHARE, "the present context is not known"


def _padded(tokens: int) -> int:
    """A context that a slot can have: never below the step in which llama.cpp counts."""
    return padded(max(1, tokens))


def _kv_wider(asked: Asked) -> Advice:
    words = flash_attention_words(asked.version)
    return Advice(
        flag=" ".join(("-ctk q8_0 -ctv q8_0", *words)),
        settings={"cache_type_k": "q8_0", "cache_type_v": "q8_0", "flash_attn": True if len(words) == 1 else words[1]},
        reason="34 bytes for 32 values instead of 64: nearly half the cache. A quantised V needs flash attention, "
        "without which the server refuses to start.",
        checked_on=CHECKED,
    )


def _reasoning_leak(asked: Asked) -> Advice:
    return Advice(
        flag="--jinja --reasoning-format deepseek",
        settings={"jinja": True, "reasoning_format": "deepseek"},
        reason="The thinking then comes in `reasoning_content`. Both are the defaults of new builds; a request may "
        'override them with "reasoning_format".',
        checked_on=CHECKED,
    )


def _thinking_off(asked: Asked) -> Advice:
    return Advice(
        flag=THINKING_OFF,
        reason="The template opens the thinking for the model, and a model that does not close it leaves no answer. "
        "In the request, or for all with --chat-template-kwargs '{\"enable_thinking\":false}'.",
        checked_on=CHECKED,
        by_request=True,
    )


def _schema(asked: Asked) -> Advice | None:
    return _thinking_off(asked) if asked.cured_by_off else None


def _template(asked: Asked) -> Advice:
    return Advice(
        flag="--jinja --chat-template-file TEMPLATE.jinja",
        settings={"jinja": True, "chat_template_file": "TEMPLATE.jinja"},
        reason="llama.cpp takes tools, thinking and end marks from the chat template; the one in the file is missing "
        "them. Use the template of the original model (its tokenizer_config.json).",
        checked_on=CHECKED,
    )


def _no_speculation(asked: Asked) -> Advice:
    head = asked.facts.extra.get("draft_head")
    if head is not None and head.value and SPEC_MTP.is_in(asked.version):
        return Advice(
            flag="--spec-type draft-mtp --spec-draft-n-max 2",
            settings={"spec_type": "draft-mtp", "draft_max": "2"},
            reason="The model file has a draft head of its own; measure it: many calls at once gain less.",
            checked_on="source of b11434",
        )
    settings = draft_settings(asked.version, "DRAFT.gguf", 8)
    spellings = {"spec_type": "--spec-type", **draft_spellings(asked.version)}
    new = SPEC_FLAGS.is_in(asked.version)
    return Advice(
        flag=" ".join(f"{spellings[name]} {value}" for name, value in settings.items()),
        settings=settings,
        reason="DRAFT.gguf is a small model of the same family. "
        + (
            "The older --draft and --draft-max were removed."
            if new
            else f"From about {SPEC_FLAGS.since_text} the flags are --spec-type draft-simple, --spec-draft-model and "
            "--spec-draft-n-max."
        ),
        checked_on=CHECKED if new else _BEFORE,
    )


def _harmful_speculation(asked: Asked) -> Advice:
    depth, new = asked.number("depth"), SPEC_FLAGS.is_in(asked.version)
    if depth:
        return Advice(
            flag=f"{draft_spellings(asked.version)['draft_max']} {depth}",
            settings={"draft_max": str(depth)},
            reason=f"Drafted tokens after the first {depth} are nearly all thrown away.",
            checked_on=CHECKED if new else _BEFORE,
        )
    gone: Mapping[str, None] = dict.fromkeys(("spec_type", "draft_model", "draft_hf", "draft_max", "draft_min"))
    return Advice(
        flag="--spec-type none" if new else "without -md and --draft-max",
        settings=gone,
        reason="Each drafted token is computed by the model, kept or not; most of them are thrown away.",
        checked_on=CHECKED if new else _BEFORE,
    )


def _prefix_cache(asked: Asked) -> Advice:
    if any(word in str(asked.facts.launch_command.value) for word in ("--no-cache-prompt", "CACHE_PROMPT=")):
        return Advice(
            flag="--cache-prompt",
            settings={"cache_prompt": None},
            reason="It is the default; the launch line turns it off.",
            checked_on=CHECKED,
        )
    return Advice(
        flag='"cache_prompt": true',
        reason="Reuse is on by default; a request or a proxy must be turning it off.",
        checked_on=CHECKED,
        by_request=True,
    )


def _truncated(asked: Asked) -> Advice:
    return Advice(
        flag="--no-context-shift",
        settings={"context_shift": False},
        reason="A prompt that does not fit is then refused with 400 instead of being cut.",
        checked_on="source of b11434",
    )


def _tiny_max_tokens(asked: Asked) -> Advice:
    return Advice(
        flag="-n -1",
        settings={"predict": None},
        reason="-1, the default, lets an answer go on until it ends; the launch line sets a limit.",
        checked_on=CHECKED,
    )


def _partial_offload(asked: Asked) -> Advice:
    return Advice(
        flag="-ngl 999",
        settings={"gpu_layers": "999"},
        reason="All layers on the GPU, if they fit; if not, a smaller quantisation or context makes room.",
        checked_on="source of b11434",
    )


LLAMA_CPP_ADVICE: Mapping[str, Adviser] = {
    "too-few-slots": _too_few_slots,
    "small-context": _small_context,
    "shared-pool-overflow": _shared_pool_overflow,
    "kv-wider-than-needed": _kv_wider,
    "reasoning-leak": _reasoning_leak,
    "reasoning-swallowed": _thinking_off,
    "schema-not-enforced": _schema,
    "tool-calls-in-text": _template,
    "template-wrong": _template,
    "no-speculation": _no_speculation,
    "harmful-speculation": _harmful_speculation,
    "prefix-cache-off": _prefix_cache,
    "prompt-truncated": _truncated,
    "max-tokens-default-tiny": _tiny_max_tokens,
    "partial-offload": _partial_offload,
}
