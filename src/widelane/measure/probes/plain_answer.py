"""One plain question with a short answer: is there an answer, and does it stop where it should?"""

from __future__ import annotations

import re

from widelane.engines.advice import fix_for
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Finding
from widelane.measure.findings import build
from widelane.measure.probes.answer import Answer
from widelane.measure.probes.probe import ProbeContext
from widelane.measure.probes.rendering import rendered_prompt, thinks

SWALLOWED, SWITCH, TEMPLATE = "reasoning-swallowed", "thinking-not-switchable", "template-wrong"
QUESTION = "What is the capital of France?"
LIMIT_TOKENS = 32
CONTROL_TOKENS = re.compile(
    r"<\|(im_start|im_end|eot_id|start_header_id|end_header_id|endoftext|end|user|assistant|eom_id|return|start)\|>"
    r"|</?s>|\[/?INST\]|<(start|end)_of_turn>|^\s*(user|assistant|system)\s*:",
    re.IGNORECASE | re.MULTILINE,
)
"""Marks of a conversation that a model writes when its own end mark does not stop it."""


class PlainAnswer:
    """Answers lost in the thinking field, thinking that cannot be switched off, marks that do not stop the model."""

    name = "plain-answer"
    codes = (SWALLOWED, SWITCH, TEMPLATE)
    seconds = 25.0

    def applies(self, context: ProbeContext) -> str | None:
        return None

    async def run(self, context: ProbeContext) -> list[Finding]:
        off_fields = dict(context.engine.thinking_off())
        plain = await context.chat(QUESTION, max_tokens=LIMIT_TOKENS)
        off = await context.chat(QUESTION, max_tokens=LIMIT_TOKENS, **off_fields) if off_fields else None
        prompts = None
        if off_fields:
            rendered = await rendered_prompt(context, QUESTION)
            rendered_off = await rendered_prompt(context, QUESTION, fields=off_fields)
            prompts = (rendered, rendered_off) if rendered and rendered_off else None
        return [
            judge_swallowed(plain, off, context.facts),
            judge_switch(plain, off, prompts),
            judge_template(plain, context.facts),
        ]


def judge_swallowed(plain: Answer, off: Answer | None, facts: ServerFacts) -> Finding:
    """`reasoning-swallowed`: the whole answer stands in the thinking field, and the text is empty."""
    if plain.error is not None:
        return build.not_checked(SWALLOWED, f"the question failed: {plain.error}")
    if plain.content.strip():
        return build.healthy(SWALLOWED, "The answer stands in the text (probed).", f"{plain.content[:60]!r}.")
    if not plain.reasoning:
        return build.not_checked(SWALLOWED, "the reply was empty")
    if plain.finish == "length":
        return build.not_checked(SWALLOWED, f"the model still thought at {LIMIT_TOKENS} tokens")
    seen = f"The text is empty, and the answer is in the thinking field: {plain.reasoning[:60]!r}."
    cured = off is not None and off.error is None and bool(off.content.strip())
    cure = " With thinking switched off the same question is answered in the text." if cured else ""
    return build.error(
        SWALLOWED, "Answers are lost in the thinking field.", seen + cure, fix_for(SWALLOWED, facts, cured_by_off=cured)
    )


def judge_switch(plain: Answer, off: Answer | None, prompts: tuple[str, str] | None) -> Finding:
    """`thinking-not-switchable`: asked not to think, the model thinks all the same.

    Args:
        off: the reply with thinking switched off; None where no such switch is known.
        prompts: the rendered prompt as usual and switched off, where the server shows it.
    """
    if off is None:
        return build.not_checked(SWITCH, "no switch is known for this engine")
    if plain.error is not None or off.error is not None:
        return build.not_checked(SWITCH, f"the question failed: {plain.error or off.error}")
    if not _thinks(plain) and not (prompts and thinks(None, prompts[0])):
        return build.not_checked(SWITCH, "the model does not think by default: there is nothing to switch off")
    if _thinks(off):
        ignored = " The template renders the same prompt either way." if prompts and prompts[0] == prompts[1] else ""
        return build.warning(
            SWITCH,
            "Thinking cannot be switched off for one request.",
            f"Switched off, the reply still holds {len(off.reasoning)} characters of thinking.{ignored} "
            "A limit on tokens is then spent on thought.",
        )
    return build.healthy(SWITCH, "Thinking can be switched off for one request (probed).", f"{off.content[:60]!r}.")


def judge_template(plain: Answer, facts: ServerFacts) -> Finding:
    """`template-wrong`: the model runs past its own end mark, or the chat template is missing."""
    if plain.error is not None and "template" in plain.error.lower():
        return build.error(TEMPLATE, "The chat template fails.", plain.error, fix_for(TEMPLATE, facts))
    if plain.error is not None:
        return build.not_checked(TEMPLATE, f"the question failed: {plain.error}")
    mark = CONTROL_TOKENS.search(plain.text)
    if mark is not None:
        return build.error(
            TEMPLATE,
            "The model runs past its end mark: stop tokens or chat template are wrong.",
            f"{mark.group().strip()!r} stands in the answer to a plain question.",
            fix_for(TEMPLATE, facts),
        )
    if plain.finish == "stop":
        return build.healthy(TEMPLATE, "A short answer ends by itself (probed).", f"{plain.text[:60]!r}.")
    why = f"the answer did not end within {LIMIT_TOKENS} tokens, which a weak or thinking model may do by itself"
    return build.not_checked(TEMPLATE, why)


def _thinks(answer: Answer) -> bool:
    return bool(answer.reasoning.strip()) or "<think>" in answer.content
