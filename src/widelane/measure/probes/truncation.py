"""A prompt larger than the context: refused, or cut without a word?"""

from __future__ import annotations

import re

from widelane.engines.advice import fix_for
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Finding
from widelane.measure.findings import build
from widelane.measure.probes.answer import Answer
from widelane.measure.probes.probe import ProbeContext

CODE = "prompt-truncated"
OVERSIZE = 1.2
LARGEST_PROMPT_TOKENS = 16_384
"""A server that does not refuse reads the prompt: beyond this size it is asked only where that may be intrusive."""
MARKER = "The code word is Marzipan."
ASK = "What is the code word?"
CALIBRATION_WORDS = 64
OVERFLOW_WORDS = re.compile(r"context|too long|maximum.*length|max_model_len|exceed|too many tokens", re.IGNORECASE)


class Truncation:
    """A prompt that is cut without a word."""

    name = "prompt-truncated"
    codes = (CODE,)
    seconds = 25.0

    def applies(self, context: ProbeContext) -> str | None:
        held = context.facts.context_per_slot.number
        if held is None:
            return f"the context of one call is unknown: {context.facts.context_per_slot.reason}"
        if held * OVERSIZE > LARGEST_PROMPT_TOKENS and not context.intrusive:
            return (
                f"a prompt beyond {held:,.0f} tokens would have to be read if it were not refused: "
                "ask for it with --intrusive"
            )
        return None

    async def run(self, context: ProbeContext) -> list[Finding]:
        held = int(context.facts.context_per_slot.number or 0)
        words = int(held * OVERSIZE)
        answer = await context.chat(oversized(words), max_tokens=8)
        small = None
        if answer.error is None:
            small = await context.chat(oversized(CALIBRATION_WORDS), max_tokens=1)
        return [judge(answer, held, words, small, context.facts)]


def oversized(words: int) -> str:
    """A prompt of about one token a word, with the marker at its beginning and the question at its end."""
    return f"{MARKER}{' word' * words} {ASK}"


def judge(answer: Answer, context_tokens: int, words: int, small: Answer | None, facts: ServerFacts) -> Finding:
    """The finding from a prompt of `words` words against a stated context.

    Args:
        small: the same prompt with `CALIBRATION_WORDS` words, which tells how many tokens a word takes.
    """
    if answer.error is not None and answer.refused and OVERFLOW_WORDS.search(answer.error):
        return build.healthy(CODE, "A prompt beyond the context is refused (probed).", f"{_short(answer.error)}.")
    if answer.error is not None and answer.status >= 500:
        said = f"HTTP {answer.status}: {_short(answer.error)}. A client cannot tell it from a crash and may try again."
        return build.warning(CODE, "A prompt beyond the context fails as a server error.", said)
    if answer.error is not None:
        return build.not_checked(CODE, f"the request failed otherwise: {_short(answer.error)}")
    sent = _sent_tokens(words, small)
    if answer.prompt_tokens is None:
        return build.not_checked(CODE, "the server took the prompt and does not say how many tokens it read")
    seen = f"About {sent:,} tokens were sent, and the server read {answer.prompt_tokens:,} (context {context_tokens:,})"
    if answer.prompt_tokens >= sent * 0.95:
        return build.healthy(
            CODE, "The whole prompt was read, though it exceeds the stated context (probed).", f"{seen}."
        )
    return build.error(
        CODE,
        "Prompts are cut without a word.",
        f"{seen}, with HTTP 200. The beginning is lost: a system prompt, or the question itself.",
        fix_for(CODE, facts),
    )


def _sent_tokens(words: int, small: Answer | None) -> int:
    """Tokens of the oversized prompt, from the tokens a word took in the small one (else one)."""
    if small is None or small.prompt_tokens is None or small.prompt_tokens <= CALIBRATION_WORDS // 2:
        return words
    frame = max(0, small.prompt_tokens - CALIBRATION_WORDS)
    return (
        words + frame
        if small.prompt_tokens < 2 * CALIBRATION_WORDS
        else round(words * small.prompt_tokens / CALIBRATION_WORDS)
    )


def _short(message: str) -> str:
    return message if len(message) <= 160 else f"{message[:157]}…"
