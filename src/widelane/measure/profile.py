"""What a sweep leaves: the profile that later parts read, and the documents of `sweep --json` and `doctor --json`.

All are plain dataclasses; their JSON schemas are generated from here (docs/reference/schemas).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import msgspec

from widelane.engines.server_facts import ServerFacts
from widelane.errors import UsageError
from widelane.figures import Figure, Finding, Schema
from widelane.records import Span
from widelane.whole_file import write_whole

SWEEP_SCHEMA = Schema("widelane.sweep", 1)
DOCTOR_SCHEMA = Schema("widelane.doctor", 1)


class Limit(StrEnum):
    """What made the plateau."""

    SLOTS = "slots"
    """TTFT grows by one service time a wave, TPOT does not."""
    BANDWIDTH = "bandwidth"
    """TPOT grows because each sequence adds bytes to read (KV, recurrent state, experts)."""
    COMPUTE = "compute"
    """TPOT grows in proportion to the batch: arithmetic, not memory, sets the step time."""
    KV_POOL = "kv-pool"
    """Preemptions, or failures on a full pool."""
    CLIENT = "client"
    """The client could not keep up; the figures are not the server's."""
    NOT_REACHED = "not-reached"
    """Throughput still rose at the widest level."""
    UNKNOWN = "unknown"
    """There is a plateau, and what was measured does not tell its cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """p50, p90 and p99 of one metric over the calls of a level."""

    p50: Figure
    p90: Figure
    p99: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientShare:
    """What the client itself cost while it measured.

    Attributes:
        cpu_share: the client's CPU time over wall time, 1 = one whole core.
        lag_p99_s: how late the client's event loop ran, p99.
        spoiled: True when the client used more than half its core, or lagged so much that the figures are its own.
    """

    cpu_share: Figure
    lag_p99_s: Figure
    spoiled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of concurrency, repeats pooled.

    Attributes:
        concurrency: calls kept in flight (offered, not decoded together).
        output_tok_s: output tokens per second over all calls in the steady window, with interval.
        queue_share: share of calls' time spent before the first token beyond what one call alone needs.
        decoding_together: most calls that were between first and last token at one time: the server's real width.
        failures: calls that failed, by error code; never averaged in.
        unfinished: calls cut off at the end of the window.
        preemptions: what the server reported for this level, None when it does not say.
        flags: what is impossible or doubtful about the row, each a sentence.
        codes: the same as kebab-case words (`impossible-figure`, `buffering-proxy`, `client-limited`, …).
        kv_usage: largest share of the KV pool that the server reported in use, None when it does not say.
    """

    concurrency: int
    output_tok_s: Figure
    ttft_s: Percentiles
    tpot_s: Percentiles
    icl_s: Percentiles
    e2e_s: Percentiles
    queue_share: Figure
    decoding_together: Figure
    requests: int
    failures: Mapping[str, int] = field(default_factory=dict)
    unfinished: int = 0
    preemptions: Figure | None = None
    repeats: int = 1
    window_s: float = 0.0
    client: ClientShare
    flags: Sequence[str] = ()
    codes: Sequence[str] = ()
    kv_usage: Figure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """The smallest width that gets (nearly) all the throughput."""

    concurrency: Figure
    output_tok_s: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What each call of a sweep asks for.

    Attributes:
        prompt_tokens, output_tokens: size of one call; the output length is forced where the engine can.
        endpoint: `chat` or `completions`.
        seed: prompts are made from it; the same seed gives the same prompts.
    """

    prompt_tokens: int
    output_tokens: int
    endpoint: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Which server a document is about."""

    url: str
    facts: ServerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReport:
    """The document of `widelane sweep --json`, and the saved profile.

    Attributes:
        levels: by rising concurrency.
        limit_evidence: why the limit was named, with figures.
        complete: False when time was up or the sweep was stopped before every level was measured.
        server_gone: True when the server stopped answering before the sweep was done.
        made: what replays the sweep: seed, versions, platform, when, every option as resolved.
        notes: what a reader must know beside the rows, e.g. levels that were not measured and why; each a sentence.
        timeline: the calls of one representative repeat of each level, for the lane timeline; empty in `--json`.
    """

    schema: Schema = SWEEP_SCHEMA
    server: Server
    workload: Workload
    levels: Sequence[Level]
    knee: Knee | None
    limit: Limit
    limit_evidence: str
    complete: bool = True
    server_gone: bool = False
    made: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    run_dir: str | None = None
    timeline: Mapping[str, Sequence[Span]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """The document of `widelane doctor --json`.

    Attributes:
        server: the server's URL.
        levels, knee: of the quick sweep; no levels when it was skipped.
    """

    schema: Schema = DOCTOR_SCHEMA
    server: str
    verdict: str
    facts: ServerFacts
    findings: Sequence[Finding]
    limit: Limit
    limit_evidence: str
    levels: Sequence[Level]
    knee: Knee | None
    made: Mapping[str, str] = field(default_factory=dict)


def save_profile(report: SweepReport, path: Path) -> None:
    """Write the report as a profile, whole or not at all.

    Raises:
        UsageError: the path cannot be written.
    """
    write_whole(path, msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


def load_profile(path: Path) -> SweepReport:
    """The profile that a sweep saved.

    Raises:
        UsageError: the file cannot be read, is no profile, or one of another version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"The profile {path} cannot be read: {error.strerror or error}.") from error
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not JSON, so it is no profile: {error}.") from error
    found = raw.get("schema") if isinstance(raw, dict) else None
    name, version = (found.get("name"), found.get("version")) if isinstance(found, dict) else (None, None)
    if name != SWEEP_SCHEMA.name:
        raise UsageError(f"{path} is no sweep profile (`schema` says {name!r}, a profile says {SWEEP_SCHEMA.name!r}).")
    if version != SWEEP_SCHEMA.version:
        raise UsageError(
            f"The profile {path} has version {version!r}; this widelane reads version {SWEEP_SCHEMA.version}. "
            "Run `widelane sweep` again."
        )
    try:
        return msgspec.convert(raw, SweepReport)
    except msgspec.ValidationError as error:
        raise UsageError(f"The profile {path} is damaged: {error}.") from error
