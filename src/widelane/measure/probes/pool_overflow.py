"""Fills the shared pool to see whether everybody fails. Only on request: it can fail other users' calls."""

from __future__ import annotations

import asyncio
from collections import Counter

from widelane.engines.advice import fix_for
from widelane.engines.server_facts import ServerFacts
from widelane.errors import CallError
from widelane.figures import Finding
from widelane.measure.findings import build
from widelane.measure.probes.probe import ProbeContext
from widelane.records import ChatRequest

CODE = "shared-pool-overflow"
LARGEST_POOL_TOKENS = 16_384
PROMPT_SHARE, TOTAL_SHARE = 0.8, 1.3
"""Prompts alone fill this much of the pool; with their output the calls need this much of it together."""


class PoolOverflow:
    """Calls that fit alone and fail together."""

    name = "pool-overflow"
    codes = (CODE,)
    seconds = 90.0

    def applies(self, context: ProbeContext) -> str | None:
        if not context.intrusive:
            return "filling the pool can fail other users' calls: ask for it with --intrusive"
        pool, slots = context.facts.pool_tokens.number, context.facts.slots.number
        if pool is None or slots is None or slots < 2:
            return "the size of the pool or the number of slots is unknown, or there is one slot"
        return f"a pool of {pool:,.0f} tokens takes too long to fill" if pool > LARGEST_POOL_TOKENS else None

    async def run(self, context: ProbeContext) -> list[Finding]:
        pool, calls = int(context.facts.pool_tokens.number or 0), int(context.facts.slots.number or 0)
        words = int(pool * PROMPT_SHARE / calls)
        output = int(pool * (TOTAL_SHARE - PROMPT_SHARE) / calls)
        outcomes = await asyncio.gather(*(_call(context, number, words, output) for number in range(calls)))
        return [judge(Counter(outcomes), calls, words + output, context.facts)]


async def _call(context: ProbeContext, number: int, words: int, output: int) -> str:
    """`ok`, or the code of the failure."""
    extra = dict(context.engine.fixed_length(output))
    content = f"Part {number}.{' word' * words}"
    request = ChatRequest(
        messages=[{"role": "user", "content": content}], max_tokens=output, temperature=0, extra=extra, raw=True
    )
    try:
        await context.call(request)
    except CallError as error:
        return error.code
    return "ok"


def judge(outcomes: Counter[str], calls: int, tokens_each: int, facts: ServerFacts) -> Finding:
    """The finding from calls that each fit alone and together exceed the pool."""
    counts = ", ".join(f"{count} {code}" for code, count in sorted(outcomes.items()))
    said = f"{calls} calls of about {tokens_each:,} tokens: {counts}."
    if outcomes["pool_overflow"]:
        return build.error(
            CODE,
            "A full pool fails running calls (probed).",
            f"{said} Calls that fit alone failed together.",
            fix_for(CODE, facts, slots=calls, context=tokens_each),
        )
    if outcomes["ok"] == calls:
        return build.healthy(CODE, "A full pool makes calls wait, not fail (probed).", said)
    return build.not_checked(CODE, f"the calls failed otherwise: {said}")
