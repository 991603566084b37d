"""The sentence on top of a sweep: what was found, what limits it, or why there is no verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from widelane.figures import Figure, plural
from widelane.measure.profile import Knee, Level, Limit, Percentiles, SweepReport
from widelane.report.compare import best_level
from widelane.report.text import figure_text, list_text, number_text, seconds_text

LIMIT_WORDS = {
    Limit.SLOTS: "the server's slots",
    Limit.BANDWIDTH: "memory bandwidth",
    Limit.COMPUTE: "compute",
    Limit.KV_POOL: "the KV pool",
    Limit.CLIENT: "this client",
    Limit.NOT_REACHED: "not reached",
    Limit.UNKNOWN: "not known",
}


def sweep_verdict(report: SweepReport) -> str:
    """One or two sentences, the knee and the limit in them."""
    best = best_level(report.levels)
    if report.limit is Limit.CLIENT or (report.levels and best is None and _all_spoiled(report.levels)):
        return "No verdict: this client could not keep up, so the figures are its own and not the server's."
    if best is None:
        return "No verdict: no level gave a throughput."
    unfinished = "" if report.complete else " The sweep was cut short: this is what was finished."
    if report.server_gone:
        until = f"{figure_text(best.output_tok_s)} at {_requests(best.concurrency)}"
        return f"The server stopped answering. Best until then: {until}."
    if report.knee is None or report.knee.concurrency.number is None:
        return f"Best measured: {figure_text(best.output_tok_s)} at {_requests(best.concurrency)}.{unfinished}"
    return f"{_knee_words(report.knee, report.limit, best)}{unfinished}"


def _knee_words(knee: Knee, limit: Limit, best: Level) -> str:
    width = int(knee.concurrency.number or 0)
    if limit is Limit.NOT_REACHED and best.concurrency == 1:
        return f"One request at a time gets {figure_text(best.output_tok_s)}; no other level tells more."
    if limit is Limit.NOT_REACHED:
        return (
            f"Throughput still rose at {_requests(best.concurrency)}, to {figure_text(best.output_tok_s)}: "
            "this server is wider than what was offered."
        )
    who = "One request at a time gets" if width == 1 else f"{_requests(width)} get"
    cause = "what limits it is not known" if limit is Limit.UNKNOWN else f"the limit is {LIMIT_WORDS[limit]}"
    return f"{who} all this server gives: {figure_text(knee.output_tok_s)}. More lanes add nothing; {cause}."


def _requests(width: int) -> str:
    return "1 request at a time" if width == 1 else f"{number_text(width)} concurrent requests"


def _all_spoiled(levels: Sequence[Level]) -> bool:
    return all(level.client.spoiled for level in levels)


def client_text(levels: Sequence[Level]) -> str:
    """What the client cost at its worst level, and whose the figures are."""
    if not levels:
        return "not measured"
    spoiled = [level.concurrency for level in levels if level.client.spoiled]
    shares = [level.client.cpu_share.number for level in levels]
    lags = [level.client.lag_p99_s.number for level in levels]
    known_shares = [share for share in shares if share is not None]
    known_lags = [lag for lag in lags if lag is not None]
    words = [f"{number_text(round(max(known_shares) * 100, 1))} % of one core"] if known_shares else []
    words += [f"lag p99 {seconds_text(max(known_lags))}"] if known_lags else []
    used = ", ".join(words) or "own cost not measured"
    if spoiled:
        return f"{used}: the figures at {list_text(spoiled)} are the client's own"
    return f"{used}: the figures are the server's" if words else used


@dataclass(frozen=True, slots=True)
class Unknown:
    """A dash of the table and why it stands there: `TPOT p50 at 1 and 2`, `fewer than two output tokens`."""

    what: str
    reason: str


def unknown_cells(levels: Sequence[Level]) -> list[Unknown]:
    """Every figure of the levels that is not known, those with the same name and reason together."""
    found: dict[tuple[str, str], list[int]] = {}
    for level in levels:
        for name, figure in _named_figures(level):
            if figure.value is None:
                found.setdefault((name, figure.reason or "no reason given"), []).append(level.concurrency)
    return [Unknown(f"{name} at {list_text(widths)}", reason) for (name, reason), widths in found.items()]


def _named_figures(level: Level) -> Iterable[tuple[str, Figure]]:
    yield "output tok/s", level.output_tok_s
    percentiles: tuple[tuple[str, Percentiles], ...] = (
        ("TTFT", level.ttft_s),
        ("TPOT", level.tpot_s),
        ("E2E", level.e2e_s),
    )
    for name, values in percentiles:
        if values.p50.reason == values.p90.reason == values.p99.reason and values.p50.value is None:
            yield name, values.p50
        else:
            yield from ((f"{name} p50", values.p50), (f"{name} p90", values.p90), (f"{name} p99", values.p99))
    yield "client CPU", level.client.cpu_share
    yield "client lag", level.client.lag_p99_s


def failures_text(level: Level) -> str:
    """`3 overloaded, 1 connection_lost`, empty when none failed."""
    return ", ".join(f"{count:,} {code}" for code, count in sorted(level.failures.items()) if count)


def flag_lines(levels: Sequence[Level]) -> list[str]:
    """Doubts and failures of the levels, each said once with the levels it is true of.

    Calls in flight when a window ends are no doubt: every closed loop has them.
    """
    said: dict[str, list[int]] = {}
    for level in levels:
        for flag in level.flags:
            said.setdefault(flag, []).append(level.concurrency)
        if any(level.failures.values()):
            text = f"{plural(sum(level.failures.values()), 'call')} failed ({failures_text(level)})"
            said.setdefault(text, []).append(level.concurrency)
    return [f"at {list_text(widths)}: {text}" for text, widths in said.items()]
