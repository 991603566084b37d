"""Is `max_tokens` kept, and what happens without it?"""

from __future__ import annotations

import asyncio

from widelane.engines.advice import fix_for
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Finding
from widelane.measure.findings import build
from widelane.measure.probes.probe import ProbeContext
from widelane.records import ChatRequest, Delta, Reply

IGNORED, TINY = "max-tokens-ignored", "max-tokens-default-tiny"
ASK = [{"role": "user", "content": "Count from 1 to 200 in words."}]
LIMIT_TOKENS = 8
ENOUGH_CHUNKS = 40
"""Without a limit the reply is dropped after this many chunks: more than the smallest default (16) allows."""


class OutputLimit:
    """A limit that is ignored, or one so small by default that answers are cut."""

    name = "output-limit"
    codes = (IGNORED, TINY)
    seconds = 25.0

    def applies(self, context: ProbeContext) -> str | None:
        return None

    async def run(self, context: ProbeContext) -> list[Finding]:
        long = context.engine.fixed_length(LIMIT_TOKENS)
        limited = await context.call(
            ChatRequest(messages=ASK, max_tokens=LIMIT_TOKENS, temperature=0, extra=dict(long), raw=True)
        )
        return [judge_limit(limited, LIMIT_TOKENS, context.facts), await _default(context)]


async def _default(context: ProbeContext) -> Finding:
    """One reply without a limit, dropped as soon as it is longer than any tiny default."""
    enough = asyncio.Event()
    chunks = 0

    def count(_: Delta) -> None:
        nonlocal chunks
        chunks += 1
        if chunks >= ENOUGH_CHUNKS:
            enough.set()

    # `ignore_eos` alone: a fixed length would set the limit that is being asked about.
    keep_writing = {k: v for k, v in context.engine.fixed_length(1).items() if k == "ignore_eos"}
    request = ChatRequest(messages=ASK, temperature=0, extra=keep_writing, raw=True)
    call = asyncio.ensure_future(context.call(request, count))
    waiter = asyncio.ensure_future(enough.wait())
    try:
        await asyncio.wait({call, waiter}, return_when=asyncio.FIRST_COMPLETED)
        reply = call.result() if call.done() else None
    finally:
        for task in (call, waiter):
            task.cancel()
        await asyncio.gather(call, waiter, return_exceptions=True)
    return judge_default(reply, chunks, context.facts)


def judge_limit(reply: Reply, limit: int, facts: ServerFacts) -> Finding:
    """`max-tokens-ignored`, from a reply that was made to write past a limit."""
    written = reply.usage.completion_tokens if reply.usage else None
    if "max_tokens_ignored" in reply.warnings or (written is not None and written > limit):
        many = f"{written} tokens" if written is not None else "more"
        said = f"max_tokens {limit}, and {many} came."
        return build.error(IGNORED, "max_tokens is ignored: a reply may never end.", said, fix_for(IGNORED, facts))
    if written is None:
        return build.not_checked(IGNORED, "the server does not count its tokens")
    if written < limit and reply.finish != "length":
        return build.not_checked(
            IGNORED, f"the model stopped by itself after {written} tokens, below the limit of {limit}"
        )
    return build.healthy(IGNORED, "max_tokens is kept (probed).", f"max_tokens {limit}: {written} tokens came.")


def judge_default(reply: Reply | None, chunks: int, facts: ServerFacts) -> Finding:
    """`max-tokens-default-tiny`, from a reply without a limit; None when it had to be dropped, still going."""
    if reply is None:
        said = (
            f"Without max_tokens {chunks} chunks came, and it went on; a default of some hundred tokens is not seen so."
        )
        return build.healthy(TINY, "Without max_tokens a reply is not cut early (probed).", said)
    written = reply.usage.completion_tokens if reply.usage else chunks
    if reply.finish == "length":
        return build.warning(
            TINY,
            f"Without max_tokens a reply is cut after {written} tokens.",
            f'finish_reason "length" after {written} tokens, and none was asked for.',
            fix_for(TINY, facts),
        )
    return build.not_checked(TINY, f"the model stopped by itself after {written} tokens")
