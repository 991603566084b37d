"""One level's row from its repeats. Pure: the same functions judge a live sweep, a resumed one and a recording."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from widelane.figures import Figure, Origin, unknown
from widelane.measure import sanity
from widelane.measure.calls import CallRecord, tokens_per_chunk
from widelane.measure.client_watch import ClientLoad, client_share, pooled
from widelane.measure.knee import too_many_failed
from widelane.measure.known import Known
from widelane.measure.opening_only import opening_only
from widelane.measure.profile import Level, Percentiles
from widelane.metrics import percentile_figure
from widelane.records import Span
from widelane.stats import mean_interval

CLIENT = "client-limited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """One steady window of a level: what is stored, and all that the row is made of.

    Attributes:
        number: 0, 1, … in the level.
        window_s: its length.
        output_tokens: tokens that arrived in it, of all calls, finished or not.
        calls: calls that ended in it (number 0 also has those that ended before it, in the opening).
        decoding_together: most calls decoding at one time, from the level's start to the window's end.
        unfinished: calls still in flight at its end; they are cut off when it is the last.
        cut_short: True when time was up before as many calls ended as one turn of the running batch has.
        preemptions: counted by the server in this window, None when it does not tell.
        kv_usage: largest share of the KV pool in use that was read in it, None when none was.
        spans: the calls of the level so far, for the timeline; only with number 0.
    """

    number: int
    window_s: float
    output_tokens: float
    calls: tuple[CallRecord, ...]
    decoding_together: int
    unfinished: int
    client: ClientLoad
    cut_short: bool = False
    preemptions: float | None = None
    kv_usage: float | None = None
    spans: tuple[Span, ...] = ()

    @property
    def tok_s(self) -> float:
        """Output tokens a second in this window."""
        return self.output_tokens / self.window_s


def level_row(concurrency: int, repeats: Sequence[Repeat], known: Known, *, tail: Sequence[CallRecord] = ()) -> Level:
    """The row of a level with at least one repeat; refused figures are None with the reason.

    `tail` are calls that ended after the last repeat: they count for latencies and failures.
    """
    calls = [*(call for repeat in repeats for call in repeat.calls), *tail]
    counted, opening = _counted(calls)
    doubts = [*sanity.call_doubts(calls), *sanity.prefix_doubts(calls), *sanity.buffered_doubts(counted)]
    row = _figures(concurrency, repeats, calls, counted, known)
    row = replace(row, flags=tuple(_failure_flags(row)))
    if opening:
        row = opening_only(row, known)
    if any(doubt.code == sanity.BUFFERED for doubt in doubts):
        row = _without_latencies(row, "streams are buffered on the way: arrival says nothing about generation")
    doubts += sanity.impossible(_sanity_row(row, counted, known, strict=known.steady and not opening))
    client, said = client_share(
        pooled([repeat.client for repeat in repeats]), row.tpot_s.p50.number, row.ttft_s.p50.number
    )
    if client.spoiled:
        row = _refused(row, said[0])
    flags = [*row.flags, *_length_flags(counted, known), *(doubt.sentence for doubt in doubts), *said]
    codes = [doubt.code for doubt in doubts] + ([CLIENT] if client.spoiled else [])
    return replace(row, client=client, flags=tuple(flags), codes=tuple(dict.fromkeys(codes)))


def with_series_doubts(levels: Sequence[Level], alone_ttft_s: float | None) -> list[Level]:
    """The levels, with a flag where the first tokens came faster than the series of levels allows."""
    series = [(level.concurrency, ttft) for level in levels if (ttft := level.ttft_s.p50.number) is not None]
    doubts = sanity.series_doubts(series, alone_ttft_s)
    return [
        replace(level, flags=(*level.flags, doubt.sentence), codes=(*level.codes, doubt.code))
        if (doubt := doubts.get(level.concurrency))
        else level
        for level in levels
    ]


def _counted(calls: Sequence[CallRecord]) -> tuple[list[CallRecord], bool]:
    """The calls whose latencies count, and whether they are only those of the opening burst."""
    usable = [call for call in calls if call.usable]
    steady = [call for call in usable if not call.opening and call.full_length]
    if steady or not usable:
        return steady, False
    whole = [call for call in usable if call.full_length]
    return whole or usable, True


def _figures(
    concurrency: int,
    repeats: Sequence[Repeat],
    calls: Sequence[CallRecord],
    counted: Sequence[CallRecord],
    known: Known,
) -> Level:
    client, _ = client_share(ClientLoad(None, None, None), None, None)
    failures = Counter(call.failure for call in calls if call.failure is not None)
    unfinished = repeats[-1].unfinished
    return Level(
        concurrency=concurrency,
        output_tok_s=_throughput(repeats),
        ttft_s=_percentiles(counted, lambda call: [call.ttft_s]),
        tpot_s=_percentiles(counted, lambda call: [call.tpot_s]),
        icl_s=_percentiles(counted, lambda call: call.gaps_s),
        e2e_s=_percentiles(counted, lambda call: [call.e2e_s if call.full_length else None]),
        queue_share=_queue_share(counted, known.alone_ttft_s),
        decoding_together=Figure(max(repeat.decoding_together for repeat in repeats), "calls", Origin.MEASURED)
        if any(call.streamed for call in calls) or not calls
        else unknown("calls", "the server does not stream", Origin.MEASURED),
        requests=len(calls) + unfinished,
        failures=dict(sorted(failures.items())),
        unfinished=unfinished,
        preemptions=_total([repeat.preemptions for repeat in repeats]),
        kv_usage=_highest([repeat.kv_usage for repeat in repeats]),
        repeats=len(repeats),
        window_s=sum(repeat.window_s for repeat in repeats),
        client=client,
    )


def _throughput(repeats: Sequence[Repeat]) -> Figure:
    tokens = sum(repeat.output_tokens for repeat in repeats)
    seconds = sum(repeat.window_s for repeat in repeats)
    if tokens <= 0:
        return unknown("tok/s", "no output token came in the steady window", Origin.MEASURED)
    interval = mean_interval([repeat.tok_s for repeat in repeats])
    if interval is None:
        cut = ", cut short when time was up" if repeats[0].cut_short else ""
        return Figure(tokens / seconds, "tok/s", Origin.MEASURED, reason=f"one steady window{cut}: no interval")
    return Figure(interval.value, "tok/s", Origin.MEASURED, low=max(0.0, interval.low), high=interval.high)


def _percentiles(calls: Sequence[CallRecord], of: Callable[[CallRecord], Sequence[float | None]]) -> Percentiles:
    values = [value for call in calls for value in of(call) if value is not None]
    why = "no call with this metric ended in the steady window"
    return Percentiles(
        p50=percentile_figure(values, 0.5, "s", why),
        p90=percentile_figure(values, 0.9, "s", why),
        p99=percentile_figure(values, 0.99, "s", why),
    )


def _queue_share(calls: Sequence[CallRecord], alone_ttft_s: float | None) -> Figure:
    if alone_ttft_s is None:
        return unknown("", "the TTFT of a lone call was not measured", Origin.MEASURED)
    waits = [(call.ttft_s, call.e2e_s) for call in calls]
    known = [(ttft, e2e) for ttft, e2e in waits if ttft is not None and e2e > 0]
    if not known:
        return unknown("", "no call with a first token ended in the steady window", Origin.MEASURED)
    waited = sum(max(0.0, ttft - alone_ttft_s) for ttft, _ in known)
    return Figure(waited / sum(e2e for _, e2e in known), "", Origin.MEASURED)


def _sanity_row(row: Level, counted: Sequence[CallRecord], known: Known, *, strict: bool) -> sanity.Row:
    rates = [call.output_tokens / call.e2e_s for call in counted if call.output_tokens and call.e2e_s > 0]
    tpot = row.tpot_s.p50.number
    return sanity.Row(
        concurrency=row.concurrency,
        output_tok_s=row.output_tok_s.number,
        per_request_tok_s=statistics.fmean(rates) if strict and len(rates) >= row.concurrency else None,
        ttft_s=row.ttft_s.p50.number,
        tpot_s=tpot,
        e2e_s=row.e2e_s.p50.number,
        decoding_together=row.decoding_together.number,
        step_s=tpot * tokens_per_chunk(counted) if tpot else None,
        read_bytes=known.read_bytes,
        bandwidth_bytes_s=known.bandwidth_bytes_s,
    )


def _failure_flags(row: Level) -> list[str]:
    if not too_many_failed(row):
        return []
    codes = ", ".join(f"{count} {code}" for code, count in row.failures.items())
    return [
        f"{sum(row.failures.values())} of {row.requests} calls failed ({codes}): the throughput holds "
        "their tokens, too, so it is not used for the knee."
    ]


def _length_flags(counted: Sequence[CallRecord], known: Known) -> list[str]:
    """What to say about the tokens: not as many as asked, or not counted by the server."""
    flags = []
    lengths = [call.output_tokens for call in counted if call.full_length and call.output_tokens is not None]
    if lengths and statistics.median(lengths) < 0.9 * known.output_tokens:
        flags.append(
            f"Calls wrote {statistics.median(lengths):.0f} tokens (median) instead of {known.output_tokens}: this "
            "server cannot be made to write on, so calls end when the model wants."
        )
    if any(call.counted_tokens for call in counted):
        flags.append("The server reports no token counts: tokens are counted as chunks, a lower bound.")
    return flags


def _without_latencies(row: Level, why: str) -> Level:
    none = unknown("s", why, Origin.MEASURED)
    nothing = Percentiles(p50=none, p90=none, p99=none)
    return replace(
        row,
        ttft_s=nothing,
        tpot_s=nothing,
        icl_s=nothing,
        queue_share=unknown("", why, Origin.MEASURED),
        decoding_together=unknown("calls", why, Origin.MEASURED),
    )


def _refused(row: Level, why: str) -> Level:
    """The row without any figure that the client spoiled."""
    none = unknown("s", why, Origin.MEASURED)
    return replace(
        _without_latencies(row, why),
        output_tok_s=unknown("tok/s", why, Origin.MEASURED),
        e2e_s=Percentiles(p50=none, p90=none, p99=none),
    )


def _total(values: Sequence[float | None]) -> Figure | None:
    told = [value for value in values if value is not None]
    return Figure(sum(told), "preemptions", Origin.READ) if told else None


def _highest(values: Sequence[float | None]) -> Figure | None:
    told = [value for value in values if value is not None]
    return Figure(max(told), "", Origin.READ) if told else None
