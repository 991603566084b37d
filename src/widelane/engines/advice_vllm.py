"""What to change on a vLLM server. Flags ran on 0.32.0 unless the version says otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from widelane.engines.advice_parts import THINKING_OFF, Advice, Adviser, Asked
from widelane.facts.model_family import form_of_family, reasoning_parsers, tool_form, tool_parsers
from widelane.plan.launch.changes import (
    CHECKED_ON,
    NO_ENABLE_REASONING,
    PREFIX_CACHE_DEFAULT,
    STATE_DTYPE_CHECKED,
    mtp_method,
)
from widelane.plan.launch.parsers import older_tool_parser

CHECKED = CHECKED_ON["vllm"]


def _too_few_slots(asked: Asked) -> Advice:
    slots = asked.slots_wanted
    pool, each = asked.facts.pool_tokens.number, asked.number("context")
    reason = "More sequences run at once; each is short of memory only when the KV pool is full."
    if pool and each:
        fit = int(pool // each)
        reason += f" The pool of {int(pool)} tokens holds about {fit} sequences of {each} tokens"
        reason += "." if fit >= slots else ": the rest would be preempted, so make the KV narrower too."
    return Advice(
        flag=f"--max-num-seqs {slots}", settings={"max_num_seqs": str(slots)}, reason=reason, checked_on=CHECKED
    )


def _small_context(asked: Asked) -> Advice | None:
    wanted = asked.number("context")
    if wanted is None:
        return None
    return Advice(
        flag=f"--max-model-len {wanted}",
        settings={"max_model_len": str(wanted)},
        reason="It bounds one sequence and reserves nothing; it must not exceed what the model was trained on.",
        checked_on=CHECKED,
    )


def _kv_wider(asked: Asked) -> Advice:
    return Advice(
        flag="--kv-cache-dtype fp8",
        settings={"kv_cache_dtype": "fp8"},
        reason="Half the bytes of a 16-bit cache. It needs a GPU with fp8, or a CPU with AVX-512: others refuse.",
        checked_on=CHECKED,
    )


def _state_float32(asked: Asked) -> Advice:
    return Advice(
        flag="--mamba-ssm-cache-dtype float16",
        settings={"mamba_ssm_cache_dtype": "float16"},
        reason="--mamba-cache-dtype alone changes only the small convolution part; the large state follows this flag, "
        "whose `auto` takes the float32 that the checkpoint names.",
        checked_on=STATE_DTYPE_CHECKED,
    )


def _reasoning_leak(asked: Asked) -> Advice:
    parser = reasoning_parsers(asked.model).vllm
    old = not NO_ENABLE_REASONING.is_in(asked.version)
    reason = f"`{parser}` fits the model's name" if parser else "PARSER is the one that vLLM lists for this model"
    return Advice(
        flag=("--enable-reasoning " if old else "") + f"--reasoning-parser {parser or 'PARSER'}",
        settings={"reasoning_parser": parser or "PARSER", **({"enable_reasoning": True} if old else {})},
        reason=f"{reason}; the thinking then comes in `reasoning` (`reasoning_content` in older versions).",
        checked_on=NO_ENABLE_REASONING.source if old else CHECKED,
    )


def _tool_calls(asked: Asked) -> Advice:
    """By the form of the template or of the call left in the text; by the model's name where neither is known."""
    seen = tool_form(str(asked.known.get("text") or ""))
    told = asked.facts.extra.get("template_tool_form")
    form = seen or (str(told.value) if told and told.value else None)
    by = "the form of its calls" if form else "the model's name"
    parser = older_tool_parser(tool_parsers(form or form_of_family(asked.model)).vllm, asked.version)
    reason = (
        f'`{parser}` by {by}. `<function=` in a template means qwen3_xml, a JSON object with "name" means hermes; '
        "a wrong parser leaves the call in the text without a word."
    )
    return Advice(
        flag=f"--enable-auto-tool-choice --tool-call-parser {parser or 'PARSER'}",
        settings={"enable_auto_tool_choice": True, "tool_call_parser": parser or "PARSER"},
        reason=reason if parser else "PARSER is the one that vLLM lists for this model.",
        checked_on=CHECKED,
    )


def _thinking_off(asked: Asked) -> Advice:
    return Advice(
        flag=THINKING_OFF,
        reason="With a reasoning parser everything before an end of thinking counts as thinking: a model that does not "
        "think leaves no answer, and schemas and tool choices wait for that end. Or start without --reasoning-parser.",
        checked_on=CHECKED,
        by_request=True,
    )


def _schema(asked: Asked) -> Advice | None:
    return _thinking_off(asked) if asked.cured_by_off or asked.facts.reasoning_parser.value else None


def _no_speculation(asked: Asked) -> Advice | None:
    head = asked.facts.extra.get("draft_head")
    if head is None or not head.value:
        return None
    method = mtp_method(asked.version, asked.model.rpartition("/")[2])
    config = f'{{"method":"{method}","num_speculative_tokens":2}}'
    return Advice(
        flag=f"--speculative-config '{config}'",
        settings={"speculative_config": config},
        reason="The model ships a draft head; measure it: many calls at once gain less.",
        checked_on="documentation of 0.32",
    )


def _harmful_speculation(asked: Asked) -> Advice:
    return Advice(
        flag="without --speculative-config",
        settings={"speculative_config": None},
        reason="Each drafted token is computed by the model, kept or not; most of them are thrown away. "
        "A smaller num_speculative_tokens is the milder cure.",
        checked_on=CHECKED,
    )


def _prefix_cache(asked: Asked) -> Advice:
    return Advice(
        flag="--enable-prefix-caching",
        settings={"enable_prefix_caching": True},
        reason=f"On by default since {PREFIX_CACHE_DEFAULT.since_text}, except for some model kinds.",
        checked_on=CHECKED,
    )


def _template(asked: Asked) -> Advice:
    return Advice(
        flag="--chat-template TEMPLATE.jinja",
        settings={"chat_template": "TEMPLATE.jinja"},
        reason="The model's own template is missing or lacks tools or end marks; use the one of the original model.",
        checked_on="documentation of 0.32",
    )


VLLM_ADVICE: Mapping[str, Adviser] = {
    "too-few-slots": _too_few_slots,
    "small-context": _small_context,
    "kv-wider-than-needed": _kv_wider,
    "state-float32": _state_float32,
    "reasoning-leak": _reasoning_leak,
    "reasoning-swallowed": _thinking_off,
    "schema-not-enforced": _schema,
    "tool-calls-in-text": _tool_calls,
    "template-wrong": _template,
    "no-speculation": _no_speculation,
    "harmful-speculation": _harmful_speculation,
    "prefix-cache-off": _prefix_cache,
}
