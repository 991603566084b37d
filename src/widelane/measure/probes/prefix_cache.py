"""Is a prompt's beginning computed once, or again for every call?

The same long beginning is sent twice with different ends. What the server says about reused tokens counts most, its
counters next, and the time to the first token last: then the result is inferred.
"""

from __future__ import annotations

from dataclasses import dataclass

from widelane.engines.advice import fix_for
from widelane.engines.engine import Gauges
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Figure, Finding, Origin
from widelane.measure.findings import build
from widelane.measure.probes.probe import ProbeContext
from widelane.metrics import ttft_s
from widelane.records import ChatRequest, Reply

CODE = "prefix-cache-off"
PREFIX = "You are a careful assistant who reads every line twice before answering. " * 16
"""About 210 tokens: more than the blocks of nearly every cache, and a second or two of reading on a slow CPU."""
REUSED_SHARE = 0.5
FASTER = 0.5
"""A first token in less than half the time is a prefix reused."""
TOO_QUICK_S = 0.15
"""Below this the first token's time says nothing about reading the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One of the two calls.

    Attributes:
        ttft_s: None when the reply was not streamed.
        cached_tokens: None when the server does not say.
    """

    prompt_tokens: int | None
    cached_tokens: int | None
    ttft_s: float | None


class PrefixCache:
    """A prefix that is computed again for every call."""

    name = "prefix-cache"
    codes = (CODE,)
    seconds = 25.0

    def applies(self, context: ProbeContext) -> str | None:
        held = context.facts.context_per_slot.number
        return f"one call holds only {held:.0f} tokens" if held is not None and held < 320 else None

    async def run(self, context: ProbeContext) -> list[Finding]:
        # The clock makes the beginning new in every run, or the first call would find the last run's prefix.
        beginning = f"Note {context.clock.now_ns() % 1_000_000}. {PREFIX}"
        first = await _read(context, beginning, "Say A.")
        before = await context.engine.gauges()
        second = await _read(context, beginning, "Say B.")
        after = await context.engine.gauges()
        return [judge(first, second, hits(before, after), context.facts)]


async def _read(context: ProbeContext, beginning: str, end: str) -> Reading:
    messages = [{"role": "system", "content": beginning}, {"role": "user", "content": end}]
    return reading(await context.call(ChatRequest(messages=messages, max_tokens=2, temperature=0, raw=True)))


def reading(reply: Reply) -> Reading:
    """What a reply says about its prompt; llama.cpp's own timings stand in where usage is silent."""
    usage, timings = reply.usage, reply.server_timings or {}
    cached = usage.cached_tokens if usage else None
    return Reading(
        prompt_tokens=usage.prompt_tokens if usage else None,
        cached_tokens=timings.get("cache_n") if cached is None else cached,
        ttft_s=ttft_s(reply.timing),
    )


def hits(before: Gauges, after: Gauges) -> float | None:
    """Prompt tokens found in the cache between two looks; None when the server does not count them."""
    if before.prefix_hits_total is None or after.prefix_hits_total is None:
        return None
    return after.prefix_hits_total - before.prefix_hits_total


def judge(first: Reading, second: Reading, hits_between: float | None, facts: ServerFacts) -> Finding:
    """The finding from the two calls and the server's counter of hits between them."""
    total = second.prompt_tokens
    reused = second.cached_tokens or hits_between
    if reused is not None and total:
        said = f"{reused:.0f} of {total} prompt tokens were reused at the second call{_times(first, second)}."
        if reused >= total * REUSED_SHARE:
            return build.healthy(CODE, "A prompt's beginning is computed once (probed).", said)
        return _off(said, first, second, facts)
    return _by_time(first, second, facts)


def _by_time(first: Reading, second: Reading, facts: ServerFacts) -> Finding:
    if first.ttft_s is None or second.ttft_s is None:
        return build.not_checked(CODE, "the server counts no reused tokens, and the replies were not streamed")
    said = f"The server does not count reused tokens{_times(first, second)} (inferred)."
    if second.ttft_s <= first.ttft_s * FASTER:
        return build.healthy(CODE, "A prompt's beginning is computed once (inferred).", said)
    if first.ttft_s < TOO_QUICK_S:
        why = f"no reused tokens are counted, and {first.ttft_s * 1e3:.0f} ms to a first token are too quick to tell"
        return build.not_checked(CODE, why)
    return _off(said, first, second, facts)


def _off(said: str, first: Reading, second: Reading, facts: ServerFacts) -> Finding:
    if facts.prefix_cache.value is True and facts.prefix_cache.origin is Origin.READ:
        block = facts.extra.get("block_size")
        size = f" in blocks of {block.value} tokens" if block is not None and block.value else ""
        why = f"the cache is on (read){size}, and the probe's prefix of {second.prompt_tokens} tokens did not hit it"
        return build.not_checked(CODE, why)
    return build.warning(
        CODE, "A prompt's beginning is computed again for every call.", said, fix_for(CODE, facts), _gain(first)
    )


def _gain(first: Reading) -> Figure | None:
    if first.ttft_s is None or not first.prompt_tokens:
        return None
    reason = f"shorter time to the first token of a call that shares {first.prompt_tokens} tokens with an earlier one"
    return Figure(round(first.ttft_s, 3), "s", Origin.PREDICTED, 0.0, round(first.ttft_s, 3), reason)


def _times(first: Reading, second: Reading) -> str:
    if first.ttft_s is None or second.ttft_s is None:
        return ""
    return f"; first token after {first.ttft_s:.2f} s, then {second.ttft_s:.2f} s"
