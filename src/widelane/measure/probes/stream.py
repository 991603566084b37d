"""One stream, looked at twice: do its events come as they are made, and does an error in it look like one?"""

from __future__ import annotations

from widelane.engines.advice import fix_for
from widelane.engines.server_facts import ServerFacts
from widelane.errors import CallError, ServerFailed, TruncatedStream
from widelane.figures import Finding
from widelane.measure.findings import build
from widelane.measure.probes.answer import Answer
from widelane.measure.probes.probe import ProbeContext
from widelane.metrics import e2e_s
from widelane.records import ChatRequest, Reply

BUFFERED, IN_STREAM = "buffering-proxy", "error-in-stream"
ASK = [{"role": "user", "content": "Count from 1 to 100 in words."}]
STREAM_TOKENS = 24
ENOUGH_TOKENS = 12
BURST_SHARE = 0.05
"""All chunks within this last share of the call came in one burst: nobody decodes that much faster than it reads."""


class Streaming:
    """Streams held back by something in between, and errors inside a stream."""

    name = "stream"
    codes = (BUFFERED, IN_STREAM)
    seconds = 20.0

    def applies(self, context: ProbeContext) -> str | None:
        return None

    async def run(self, context: ProbeContext) -> list[Finding]:
        extra = dict(context.engine.fixed_length(STREAM_TOKENS))
        request = ChatRequest(messages=ASK, max_tokens=STREAM_TOKENS, temperature=0, extra=extra, raw=True)
        try:
            reply = await context.call(request)
        except (ServerFailed, TruncatedStream) as error:
            return [build.not_checked(BUFFERED, "the stream failed"), failed_stream(error)]
        answer = await context.chat("Say OK.", max_tokens=4, stream=True)
        return [judge_buffering(reply, context.facts), judge_stream(answer)]


def judge_buffering(reply: Reply, facts: ServerFacts) -> Finding:
    """`buffering-proxy`, from the arrival of a stream's chunks."""
    timing, tokens = reply.timing, reply.usage.completion_tokens if reply.usage else 0
    if not timing.streamed:
        return build.warning(
            BUFFERED,
            "A stream was asked for, and the reply came as one body.",
            "The time to the first token cannot be measured then, and no call can be stopped by what it writes.",
        )
    if tokens < ENOUGH_TOKENS:
        return build.not_checked(BUFFERED, f"the stream ended after {tokens} tokens: too few to tell")
    whole_s = e2e_s(timing)
    span_s = (timing.chunk_ns[-1] - timing.chunk_ns[0]) / 1e9 if timing.chunk_ns else 0.0
    chunks = len(timing.chunk_ns)
    said = f"{tokens} tokens in {chunks} chunks over {span_s * 1e3:.0f} ms of a call of {whole_s * 1e3:.0f} ms"
    if span_s >= whole_s * BURST_SHARE:
        return build.healthy(BUFFERED, "Tokens arrive as they are made (probed).", f"{said}.")
    return build.warning(
        BUFFERED,
        "Streams arrive in one burst: something between holds them back.",
        f"{said}. TTFT and TPOT are then not the server's.",
        fix_for(BUFFERED, facts),
    )


def judge_stream(answer: Answer) -> Finding:
    """`error-in-stream`, from the events of one stream as they were sent."""
    if not answer.streamed:
        if answer.error is not None:
            return build.not_checked(IN_STREAM, f"the request was refused: {answer.error}")
        return build.not_checked(IN_STREAM, "the reply was not streamed")
    if answer.error is not None:
        end = " and then [DONE]" if answer.done else ""
        said = (
            f"HTTP {answer.status}, then an event {answer.error!r}{end}. A reader that skips it counts a short success."
        )
        return build.error(IN_STREAM, "A stream ended with an error under HTTP 200.", said)
    if answer.finish is None:
        return build.error(
            IN_STREAM,
            "A stream ended without a finish reason.",
            f"{'[DONE] came' if answer.done else 'No [DONE] came'}: a cut answer looks like a whole one.",
        )
    return build.healthy(IN_STREAM, "A stream says how it ended (probed).", f"finish_reason {answer.finish!r}.")


def failed_stream(error: CallError) -> Finding:
    """`error-in-stream`, from a stream that the client refused."""
    return build.error(IN_STREAM, "A stream failed after it had begun.", str(error))
