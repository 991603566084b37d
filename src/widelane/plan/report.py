"""The document of `widelane plan --json`: what this machine could do with this model, every number with its origin.

Plain dataclasses; the JSON schema is generated from here (docs/reference/schemas). `plan.make` fills it in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from widelane.figures import Figure, Schema

PLAN_SCHEMA = Schema("widelane.plan", 1)
LAUNCH_SCHEMA = Schema("widelane.launch", 1)


class Use(StrEnum):
    """What the server is for."""

    INTERACTIVE = "interactive"
    """One person, one session: latency of a single request is all that counts."""
    BATCH = "batch"
    """Many independent requests: total throughput is what counts."""
    AGENTS = "agents"
    """Several long-lived tool-using sessions: width, long contexts, parsers that must be right."""


class Buys(StrEnum):
    """What a lever gives."""

    LATENCY = "latency"
    """Tokens/s of one request."""
    THROUGHPUT = "throughput"
    """Tokens/s of all requests together."""
    CAPACITY = "capacity"
    """Sequences, or tokens of context, that fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """The model as the plan understood it.

    Attributes:
        layers: layers by kind, e.g. `{"full-attention": 16, "gated-deltanet": 48}`.
        kv_bytes_per_token: cache bytes a token in layers that keep every token, in the planned KV type.
        kv_bytes_per_token_window: the same in sliding-window layers, which keep at most `window` tokens.
        state_bytes_per_sequence: recurrent state of one sequence, in the planned state type.
        read_bytes: weights read in a step whatever the batch.
        assumed: what was not understood or not stated, one sentence each.
    """

    name: str
    source: str
    architecture: str
    quant: str
    layers: dict[str, int]
    parameters: Figure
    active_parameters: Figure
    weights_bytes: Figure
    read_bytes: Figure
    routed_expert_bytes: Figure
    kv_bytes_per_token: Figure
    kv_bytes_per_token_window: Figure
    window: Figure
    state_bytes_per_sequence: Figure
    context_tokens: Figure
    draft_layers: Figure
    assumed: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSummary:
    """The device: nominal figures, and what was measured here where it was asked for."""

    name: str
    kind: str
    count: int
    bandwidth_bytes_s: Figure
    measured_read_bytes_s: Figure
    measured_copy_bytes_s: Figure
    memory_bytes: Figure
    usable_memory_bytes: Figure
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPoint:
    """One decode step at one batch and the typical context.

    Attributes:
        step_s: its length; weights_s, experts_s, cache_s, state_s, compute_s and overhead_s add up to it.
        output_tok_s: tokens/s of the whole batch; per_request_tok_s: of each of its sequences.
        fits: whether the pool holds that many sequences of the typical footprint.
    """

    batch: int
    step_s: Figure
    output_tok_s: Figure
    per_request_tok_s: Figure
    weights_s: float
    experts_s: float
    cache_s: float
    state_s: float
    compute_s: float
    overhead_s: float
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthPlan:
    """How wide the road is.

    Attributes:
        doubling_batch: the batch at which a step takes twice as long as for one request.
        doubling_tok_s: tokens/s of the whole batch there.
        gain: that over the rate of one request, a factor.
        sentence: dense or mixture of experts, and what that means here.
    """

    doubling_batch: Figure
    doubling_tok_s: Figure
    gain: Figure
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillPoint:
    """Reading a prompt: tokens/s at one depth, and seconds from 0 to it."""

    depth_tokens: int
    tok_s: Figure
    seconds: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """One part of the memory bar, from the bottom up: weights, activations, recurrent state, KV pool, free, reserve."""

    name: str
    bytes: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class KvPoolPlan:
    """The KV pool.

    Attributes:
        tokens: tokens of context it holds, as one number (see `meaning`).
        bytes: memory it takes, recurrent states that live in it included.
        block_tokens, blocks: how it is divided, where the engine does so.
        log_line_tokens: what the engine's own start log will show, by version; never plan from it.
        meaning: what `tokens` means for this engine and version, in a sentence.
    """

    tokens: Figure
    bytes: Figure
    block_tokens: Figure
    blocks: Figure
    log_line_tokens: Figure
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencesThatFit:
    """Requests that the pool holds at the same time.

    Attributes:
        typical: each at the typical footprint. worst_case: each at the longest allowed.
        lanes: how many to run: the most that keep the chance of a full pool below `risk`.
        slots: places the engine is started with.
    """

    typical: Figure
    worst_case: Figure
    lanes: Figure
    risk: Figure
    typical_tokens: Figure
    max_tokens: Figure
    slots: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One change and what it buys here.

    Attributes:
        code: `smaller-weights`, `kv-dtype`, `state-dtype`, `slots`, `speculation`.
        flag: what to set, as it is typed for this engine; None where it is another file.
        now, then: the metric without and with it.
        gain: `then` over `now`, a factor; below 1 it loses.
        price: what it costs or risks, in a sentence.
        taken: whether the recommended launch includes it.
    """

    code: str
    title: str
    buys: Buys
    flag: str | None
    now: Figure
    then: Figure
    gain: Figure
    price: str
    taken: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One flag of the command with its reason. `value` is None for a switch; the program's own words have no flag."""

    flag: str | None
    value: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A flag that one might expect and that is deliberately not set."""

    flag: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """The command that starts the server.

    Attributes:
        engine, version: the version it is written for; `checked_on` is the one on which the flags were seen to work.
        environ: variables to set, each with its reason (Ollama is configured by them alone).
        argv: the command word by word: program first.
        left_out: flags deliberately not set.
        command: the whole as one line to paste.
        host, port: where the server will listen.
        afterwards: commands to run once the server answers, e.g. to fetch the model into it.
        notes: what to know before starting it, one sentence each.
    """

    engine: str
    version: str | None
    checked_on: str
    environ: Sequence[Argument]
    argv: Sequence[Argument]
    left_out: Sequence[LeftOut]
    command: str
    host: str = "127.0.0.1"
    port: int | None = None
    afterwards: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What to do, in words, and the numbers that matter.

    Attributes:
        expected_tok_s: of all lanes together (one request for interactive use); without drafts where their acceptance
            is assumed.
        drafting_tok_s: the same with the drafts that the command sets, by an assumed acceptance; None where
            `expected_tok_s` is all there is to say.
    """

    sentence: str
    lanes: Figure
    expected_tok_s: Figure
    why: Sequence[str]
    drafting_tok_s: Figure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """What this machine could do with this model.

    Attributes:
        ceiling_tok_s: nominal bandwidth over the whole checkpoint, one request: the simple division.
        ceiling_read_tok_s: nominal bandwidth over the bytes that a step really reads.
        expected_tok_s: what one request will get without speculation.
        drafting_tok_s: what it will get with speculation at `draft_depth`; unknown without an acceptance.
        notes: what a reader should know, one sentence each (interval of the prediction, published figures that do not
            add up, …).
    """

    schema: Schema = PLAN_SCHEMA
    model: ModelSummary
    device: DeviceSummary
    engine: str
    engine_version: str | None
    use: Use
    ceiling_tok_s: Figure
    ceiling_read_tok_s: Figure
    expected_tok_s: Figure
    drafting_tok_s: Figure
    draft_depth: Figure
    steps: Sequence[StepPoint]
    width: WidthPlan
    prefill: Sequence[PrefillPoint]
    memory: Sequence[MemoryPart]
    kv_pool: KvPoolPlan
    sequences_that_fit: SequencesThatFit
    levers: Sequence[Lever]
    recommendation: Recommendation
    launch: LaunchPlan
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchReport:
    """The document of `widelane launch --json`: the command, and what it was made for."""

    schema: Schema = LAUNCH_SCHEMA
    model: ModelSummary
    device: DeviceSummary
    use: Use
    launch: LaunchPlan
