"""What the quick sweep says besides its knee: whether the client kept up, and whether the rows are possible."""

from __future__ import annotations

from widelane.engines.advice import fix_for
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Finding
from widelane.measure.findings import build
from widelane.measure.profile import Limit, SweepReport

NO_SWEEP = "no sweep was made"


def client_limited(sweep: SweepReport | None) -> Finding:
    """`client-limited`: the figures are the client's, not the server's."""
    code = "client-limited"
    if sweep is None or not sweep.levels:
        return build.not_checked(code, NO_SWEEP)
    spoiled = [level.concurrency for level in sweep.levels if level.client.spoiled]
    busiest = max(sweep.levels, key=lambda level: level.client.cpu_share.number or 0.0).client
    share, lag = busiest.cpu_share.number, busiest.lag_p99_s.number
    if share is None or lag is None:
        return build.not_checked(code, busiest.cpu_share.reason or busiest.lag_p99_s.reason or "it was not measured")
    said = f"At most {share:.0%} of one core, event-loop lag p99 {lag * 1e3:.1f} ms."
    if spoiled or sweep.limit is Limit.CLIENT:
        widths = ", ".join(str(width) for width in spoiled) or "the widest"
        return build.error(
            code,
            "The client could not keep up: these figures are its own, not the server's.",
            f"{said} Spoiled at {widths} calls. Measure from another machine, or leave this one a free core.",
        )
    return build.healthy(code, "The client kept up: the figures are the server's.", said)


def impossible_figure(sweep: SweepReport | None) -> Finding:
    """`impossible-figure`: rows that no machine can produce, or that contradict themselves."""
    code = "impossible-figure"
    if sweep is None or not sweep.levels:
        return build.not_checked(code, NO_SWEEP)
    doubtful = [level for level in sweep.levels if code in level.codes]
    if not doubtful:
        return build.healthy(code, "No row of the sweep is impossible.", f"{len(sweep.levels)} rows were checked.")
    rows = len(doubtful)
    flags = [f"At {level.concurrency} calls: {flag}" for level in doubtful for flag in level.flags]
    return build.warning(
        code, f"{rows} row{'s' if rows > 1 else ''} of the sweep cannot be true as measured.", " ".join(flags)
    )


def buffered_sweep(facts: ServerFacts, sweep: SweepReport | None) -> Finding | None:
    """`buffering-proxy`, seen in the sweep's own streams; None when they say nothing of the kind."""
    code = "buffering-proxy"
    held = [level for level in sweep.levels if code in level.codes] if sweep is not None else []
    if not held:
        return None
    widths = ", ".join(str(level.concurrency) for level in held)
    return build.warning(
        code,
        "Streams arrive in one burst: something between holds them back.",
        f"Seen in the sweep at {widths} calls. TTFT and TPOT are then not the server's.",
        fix_for(code, facts),
    )
