"""Does the server keep the model's thinking apart from its answer?

The text of a thought and an answer is forced, so that the check works with any model; a server that cannot force text
gets a plain question, and the result is marked as inferred.
"""

from __future__ import annotations

from widelane.engines.advice import fix_for
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Finding
from widelane.measure.findings import build
from widelane.measure.probes.answer import Answer
from widelane.measure.probes.probe import ProbeContext
from widelane.measure.probes.rendering import CLOSING, OPENING, opens_thought, rendered_prompt, template_source, thinks

CODE = "reasoning-leak"
THOUGHT, SAID = "I think.", "Hello."
FORCED = f"{OPENING}\n{THOUGHT}\n{CLOSING}\n\n{SAID}"
FORCED_AFTER_OPENING = f"{THOUGHT}\n{CLOSING}\n\n{SAID}"
"""For templates that write the opening tag themselves."""


class ReasoningLeak:
    """Thinking that is left in the answer."""

    name = "reasoning-leak"
    codes = (CODE,)
    seconds = 20.0

    def applies(self, context: ProbeContext) -> str | None:
        return None

    async def run(self, context: ProbeContext) -> list[Finding]:
        prompt = await rendered_prompt(context, "Hi.")
        thinking_model = thinks(await template_source(context), prompt)
        text = FORCED_AFTER_OPENING if opens_thought(prompt) else FORCED
        forced = context.engine.forced_text(text)
        if forced is None:
            answer = await context.chat("What is 17 + 25?", max_tokens=64)
            return [judge_unforced(answer, context.facts)]
        whole = await context.chat("Hi.", max_tokens=64, **forced)
        streamed = await context.chat("Hi.", max_tokens=64, stream=True, **forced)
        return [judge(whole, streamed, thinking_model, context.facts)]


def leaks(answer: Answer) -> bool:
    """True when a thinking tag stands in the answer."""
    return OPENING in answer.content or CLOSING in answer.content


def judge(whole: Answer, streamed: Answer, thinking_model: bool | None, facts: ServerFacts) -> Finding:
    """The finding from a forced thought, asked for as one body and as a stream.

    Args:
        thinking_model: whether the chat template is one of a thinking model; None when it cannot be seen.
    """
    for answer in (whole, streamed):
        if answer.error is not None:
            return build.not_checked(CODE, f"the forced answer was refused: {answer.error}")
    leaking = [name for name, answer in (("a whole reply", whole), ("a stream", streamed)) if leaks(answer)]
    if leaking:
        return _leak(leaking, thinking_model, facts)
    for answer in (whole, streamed):
        if answer.content.strip() != SAID:
            return _not_forced(answer)
    return build.healthy(CODE, "Thinking is kept apart from the answer (probed).", "A forced thought was separated.")


def judge_unforced(answer: Answer, facts: ServerFacts) -> Finding:
    """The weaker finding from an ordinary question, for servers that cannot force text."""
    if answer.error is not None:
        return build.not_checked(CODE, f"the question failed: {answer.error}")
    if leaks(answer):
        return _leak(["an ordinary reply"], True, facts)
    if answer.reasoning:
        return build.healthy(
            CODE,
            "Thinking is kept apart from the answer (inferred from one reply).",
            f"An ordinary question gave {len(answer.reasoning)} characters of thinking in its own field.",
        )
    return build.not_checked(CODE, "this server cannot force a text, and the model did not think when asked")


def _leak(where: list[str], thinking_model: bool | None, facts: ServerFacts) -> Finding:
    seen = f"A forced thought came back with its tags in the answer, in {' and in '.join(where)}."
    if thinking_model is False:
        return build.info(
            CODE,
            "Thinking would be left in the answer; this model's template has none.",
            f"{seen} It does not matter unless the model is exchanged for one that thinks.",
        )
    unsure = "" if thinking_model else " It matters when the model thinks, which could not be seen."
    report = build.error if thinking_model else build.warning
    return report(CODE, "Thinking is left in the answer.", seen + unsure, fix_for(CODE, facts))


def _not_forced(answer: Answer) -> Finding:
    if answer.reasoning and not answer.content:
        why = "the parser takes everything for thinking, so no answer could be forced (see reasoning-swallowed)"
        return build.not_checked(CODE, why)
    return build.not_checked(CODE, f"the server did not write the forced text but {answer.text[:60]!r}")
