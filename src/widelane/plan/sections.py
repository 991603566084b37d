"""The parts of a plan's document: each from an outlook, nothing decided here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from widelane.figures import Figure, Origin, unknown
from widelane.plan.outlook import Outlook
from widelane.plan.predicted import duration, rate, rounded
from widelane.plan.prefill import prefill_rates_for, prefill_seconds, prefill_seconds_per_token
from widelane.plan.report import (
    DeviceSummary,
    ModelSummary,
    PrefillPoint,
    SequencesThatFit,
    StepPoint,
    WidthPlan,
)
from widelane.plan.request import PlanRequest
from widelane.plan.sequences import sequences_that_fit
from widelane.plan.step_time import step_parts
from widelane.plan.width import WIDEST, width_of

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DEPTHS = (512, 2_048, 8_192, 32_768, 131_072)


def model_summary(outlook: Outlook) -> ModelSummary:
    """The model, with its cache and state in the types that are planned."""
    model, cost = outlook.setup.model, outlook.cost
    weights, parameters = model.weights, model.parameters
    layers: Counter[str] = Counter()
    layers.update({group.kind: group.count for group in model.recurrent})
    for group in model.attention:
        layers[group.kind] += group.count

    def read(value: int | None, unit: str) -> Figure:
        return unknown(unit, "the model's files do not say") if value is None else Figure(value, unit, Origin.READ)

    def weighed(value: int) -> Figure:
        return Figure(value, "bytes", weights.origin)

    def by_types(value: float) -> Figure:
        return Figure(round(value), "bytes", Origin.INFERRED, reason=_types(outlook))

    return ModelSummary(
        name=model.name,
        source=model.source,
        architecture=model.architecture,
        quant=weights.quant,
        layers=dict(layers),
        parameters=Figure(parameters.total, "parameters", Origin.INFERRED),
        active_parameters=Figure(parameters.active, "parameters", Origin.INFERRED),
        weights_bytes=weighed(weights.total_bytes),
        read_bytes=weighed(weights.read_bytes),
        routed_expert_bytes=weighed(weights.routed_expert_bytes),
        kv_bytes_per_token=by_types(cost.kv_bytes_per_token),
        kv_bytes_per_token_window=by_types(cost.kv_bytes_per_token_window),
        window=read(model.window, "tokens"),
        state_bytes_per_sequence=by_types(cost.state_bytes),
        context_tokens=read(model.context_tokens, "tokens"),
        draft_layers=read(model.draft_layers, "layers"),
        assumed=model.assumed,
    )


def device_summary(request: PlanRequest) -> DeviceSummary:
    """The device as its maker states it, and as it was measured."""
    device, measured = request.device, request.measured
    not_asked = "not measured; --measure-bandwidth does it"
    stands_in = measured is not None and device.memory_bandwidth_bytes_s == measured.read_bytes_s
    nominal = (
        unknown("bytes/s", "the maker's figure is not known")
        if stands_in or device.memory_bandwidth_bytes_s is None
        else Figure(device.memory_bandwidth_bytes_s, "bytes/s", Origin.READ, reason=f"nominal; {request.device_how}")
    )

    def seen(value: float | None) -> Figure:
        if value is None or measured is None:
            return unknown("bytes/s", not_asked, Origin.MEASURED)
        return Figure(round(value), "bytes/s", Origin.MEASURED, reason=measured.doubt)

    usable = device.usable_memory_bytes
    return DeviceSummary(
        name=device.name,
        kind=device.kind,
        count=device.count,
        bandwidth_bytes_s=nominal,
        measured_read_bytes_s=seen(measured.read_bytes_s if measured else None),
        measured_copy_bytes_s=seen(measured.copy_bytes_s if measured else None),
        memory_bytes=Figure(device.memory_bytes, "bytes", Origin.READ),
        usable_memory_bytes=unknown("bytes", "not known apart from the installed memory")
        if usable is None
        else Figure(usable, "bytes", Origin.ASSUMED),
        note=device.note,
    )


def ceiling(outlook: Outlook) -> Figure:
    """Nominal bandwidth over the whole checkpoint: the simple division, of one request."""
    weights, experts = outlook.setup.model.weights, outlook.setup.model.experts
    bandwidth = outlook.request.device.memory_bandwidth_bytes_s or 0.0
    read_bytes: float = weights.total_bytes
    words = f"{bandwidth / 1e9:.4g} GB/s over the {read_bytes / 1e9:.4g} GB of the whole checkpoint"
    if experts is not None:
        read_bytes -= weights.routed_expert_bytes * (1 - experts.top_k / experts.count)
        words = (
            f"{bandwidth / 1e9:.4g} GB/s over {read_bytes / 1e9:.4g} GB: the checkpoint with the "
            f"{experts.top_k} of {experts.count} experts that one token visits"
        )
    return Figure(rounded(bandwidth / read_bytes), "tok/s", Origin.PREDICTED, reason=words)


def ceiling_read(outlook: Outlook) -> Figure:
    """Nominal bandwidth over the weights that a step of one request really reads."""
    model = outlook.setup.model
    experts, weights = model.experts, model.weights
    routed = weights.routed_expert_bytes * experts.top_k / experts.count if experts else 0.0
    read_bytes = weights.read_bytes + routed
    bandwidth = outlook.request.device.memory_bandwidth_bytes_s or 0.0
    words = (
        f"{bandwidth / 1e9:.4g} GB/s over the {read_bytes / 1e9:.4g} GB that a step reads: the input embedding is "
        "looked up, a draft head and towers for pictures lie idle"
    )
    return Figure(rounded(bandwidth / read_bytes), "tok/s", Origin.PREDICTED, reason=words)


def steps(outlook: Outlook, further: Sequence[int]) -> list[StepPoint]:
    """Steps without drafts at powers of two and at the batches that matter here."""
    plain = outlook.but(draft_depth=0)
    expected, tokens = plain.expected, outlook.request.typical_tokens
    holds = outlook.pool.holds(tokens)
    points = []
    for batch in sorted({*BATCHES, *(one for one in further if 0 < one <= WIDEST)}):
        parts = step_parts(plain.cost, expected.rates, batch=batch, context=tokens)
        seconds = sum(parts)
        points.append(
            StepPoint(
                batch=batch,
                step_s=duration(seconds, expected.low, expected.high, expected.words),
                output_tok_s=rate(batch / seconds, expected),
                per_request_tok_s=rate(1 / seconds, expected),
                weights_s=parts.weights_s,
                experts_s=parts.experts_s,
                cache_s=parts.cache_s,
                state_s=parts.state_s,
                compute_s=parts.compute_s,
                overhead_s=parts.overhead_s,
                fits=batch <= holds,
            )
        )
    return points


def width_plan(outlook: Outlook) -> WidthPlan:
    """The batch at which a step takes twice as long, and what it gives."""
    plain = outlook.but(draft_depth=0)
    width = width_of(plain.cost, plain.expected.rates, context=outlook.request.typical_tokens)
    batch = (
        unknown("requests", f"a step takes less than twice as long up to {WIDEST} requests", Origin.PREDICTED)
        if width.doubling_batch is None
        else Figure(width.doubling_batch, "requests", Origin.PREDICTED, reason=plain.expected.words)
    )
    return WidthPlan(
        doubling_batch=batch,
        doubling_tok_s=rate(width.output_tok_s, plain.expected),
        gain=Figure(round(width.gain, 1), "times", Origin.PREDICTED, reason="all requests there over one alone"),
        sentence=width.sentence,
    )


def prefill(outlook: Outlook) -> list[PrefillPoint]:
    """Reading prompts of round lengths, up to the longest request."""
    model, request = outlook.setup.model, outlook.request
    expected = prefill_rates_for(request.device, request.engine, experts=model.experts is not None)
    points = []
    for depth in sorted({*(one for one in DEPTHS if one < request.max_tokens), request.max_tokens}):
        each_s = prefill_seconds_per_token(model, expected.rates, depth=depth)
        tok_s = 1 / each_s
        points.append(
            PrefillPoint(
                depth_tokens=depth,
                tok_s=Figure(
                    rounded(tok_s),
                    "tok/s",
                    expected.origin,
                    rounded(tok_s / expected.high),
                    rounded(tok_s / expected.low),
                    expected.words,
                ),
                seconds=duration(
                    prefill_seconds(model, expected.rates, tokens=depth), expected.low, expected.high, expected.words
                ),
            )
        )
    return points


def fitting(outlook: Outlook) -> SequencesThatFit:
    """Requests that the pool holds, and the lanes that are safe."""
    request, plan, pool = outlook.request, outlook.lanes, outlook.pool
    fit = sequences_that_fit(pool, typical_tokens=request.typical_tokens, max_tokens=request.max_tokens)
    safe = Figure(
        plan.lanes,
        "lanes",
        Origin.PREDICTED,
        min(plan.in_step, plan.out_of_step),
        max(plan.in_step, plan.out_of_step),
        f"the most that keep the chance of a full pool below {plan.risk * 100:g} %: {plan.in_step} where all requests "
        f"reach their ends together, {plan.out_of_step} where each is somewhere on its way",
    )
    return SequencesThatFit(
        typical=fit.typical,
        worst_case=fit.worst_case,
        lanes=safe,
        risk=Figure(plan.risk, "", Origin.ASSUMED, reason="chance of a full pool that is taken"),
        typical_tokens=Figure(
            request.typical_tokens,
            "tokens",
            Origin.READ if request.typical_stated else Origin.ASSUMED,
            reason=None if request.typical_stated else f"usual for {request.use} work; --typical-tokens sets it",
        ),
        max_tokens=Figure(
            request.max_tokens,
            "tokens",
            Origin.READ if request.max_stated else Origin.ASSUMED,
            reason=None if request.max_stated else f"usual for {request.use} work; --max-tokens sets it",
        ),
        slots=Figure(outlook.setup.slots, "slots", Origin.PREDICTED)
        if outlook.setup.slots is not None
        else unknown("slots", "left to the engine", Origin.PREDICTED),
    )


def _types(outlook: Outlook) -> str:
    setup = outlook.setup
    state = f", state {setup.state_dtype}" if outlook.setup.model.is_hybrid else ""
    return f"KV cache {setup.kv_dtype}{state}"
