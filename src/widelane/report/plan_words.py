"""What a plan says in words, the same in the terminal and on the page. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from widelane.figures import Figure
from widelane.plan.report import DeviceSummary, Lever, ModelSummary, PlanReport, StepPoint, Use
from widelane.report.key_figure import KeyFigure
from widelane.report.launch_lines import engine_name
from widelane.report.text import (
    DASH,
    bare_text,
    figure_text,
    gain_text,
    interval_text,
    list_text,
    number_text,
    origin_word,
    unit_text,
    value_text,
)

USES = {
    Use.INTERACTIVE: "one interactive session",
    Use.BATCH: "batch work",
    Use.AGENTS: "agents",
}
_EXPECTED = {
    Use.INTERACTIVE: "One request gets",
    Use.BATCH: "All lanes together get",
    Use.AGENTS: "All lanes together get",
}
STEP_PARTS: Sequence[tuple[str, str, Callable[[StepPoint], float]]] = (
    ("weights", "weights", lambda step: step.weights_s),
    ("experts", "experts", lambda step: step.experts_s),
    ("cache", "KV cache", lambda step: step.cache_s),
    ("state", "recurrent state", lambda step: step.state_s),
    ("compute", "arithmetic", lambda step: step.compute_s),
    ("overhead", "overhead", lambda step: step.overhead_s),
)
"""Key, name and seconds of the parts of a step, in the order in which they are stacked."""


def model_text(model: ModelSummary) -> str:
    """`Qwen/Qwen3.6-27B · fp8 · 28.5 GB (read) · 27.4 B parameters`."""
    parts = [model.name, model.quant]
    parts += [figure_text(model.weights_bytes)] if model.weights_bytes.value is not None else []
    if model.parameters.value is not None:
        active = value_text(model.active_parameters)
        sparse = (model.routed_expert_bytes.number or 0) > 0 and model.active_parameters.value is not None
        parts.append(f"{value_text(model.parameters)} parameters{f', {active} active' if sparse else ''}")
    return " · ".join(part for part in parts if part)


def layers_text(model: ModelSummary) -> str:
    """`16 full-attention, 48 gated-deltanet`."""
    return ", ".join(f"{count:,} {kind}" for kind, count in model.layers.items())


def device_text(device: DeviceSummary) -> str:
    """`gb10 · 273 GB/s nominal · 128 GB, 116 GB of it usable`; what was measured stands beside what is nominal."""
    parts = [device.name]
    if device.bandwidth_bytes_s.value is not None:
        parts.append(f"{value_text(device.bandwidth_bytes_s)} nominal")
    if device.measured_read_bytes_s.value is not None:
        parts.append(f"{value_text(device.measured_read_bytes_s)} measured")
    if device.memory_bytes.value is not None:
        usable = device.usable_memory_bytes
        whole, part = value_text(device.memory_bytes), value_text(usable)
        parts.append(whole if usable.value is None or part == whole else f"{whole}, {part} of it usable")
    return " · ".join(parts)


def engine_text(report: PlanReport) -> str:
    """`vLLM 0.33.0 · for agents · typical request 24,576 tokens, longest 131,072`."""
    version = f" {report.engine_version}" if report.engine_version else ""
    parts = [f"{engine_name(report.engine)}{version}", f"for {USES[report.use]}"]
    fit = report.sequences_that_fit
    if fit.typical_tokens.value is not None:
        longest = f", longest {bare_text(fit.max_tokens)}" if fit.max_tokens.value is not None else ""
        origin = origin_word(fit.typical_tokens)
        parts.append(
            f"typical request {value_text(fit.typical_tokens)}{longest}{f' ({origin})' if origin == 'assumed' else ''}"
        )
    return " · ".join(parts)


def key_figures(report: PlanReport) -> list[KeyFigure]:
    """The numbers that matter, the recommended ones first; those that are not known are left out."""
    fit, width = report.sequences_that_fit, report.width
    # For one session it can be the recommended figure itself: once is enough.
    said = report.recommendation.expected_tok_s == report.expected_tok_s
    undrafted = [] if said else [("One request, undrafted", report.expected_tok_s, _drafting_note(report))]
    found = [
        (_lanes_name(report), report.recommendation.lanes, _risk_note(report)),
        (_EXPECTED[report.use], report.recommendation.expected_tok_s, _together_note(report)),
        *undrafted,
        ("Ceiling, one request", report.ceiling_tok_s, _ceiling_note(report)),
        ("A step doubles at", width.doubling_batch, _doubling_note(report)),
        ("Typical requests that fit", fit.typical, _worst_note(fit.worst_case)),
    ]
    return [
        KeyFigure(name, bare_text(figure), unit_text(figure), note)
        for name, figure, note in found
        if figure.value is not None
    ]


def by_gain(levers: Sequence[Lever]) -> list[Lever]:
    """The largest gain first; what loses after what gains, and what is not known last."""
    return sorted(levers, key=lambda lever: -lever.gain.number if lever.gain.number is not None else float("inf"))


def loses(lever: Lever) -> bool:
    """Whether it makes its metric worse."""
    return lever.gain.number is not None and lever.gain.number < 1


def lever_gain(lever: Lever) -> str:
    """`×1.82`, with its interval where there is one: `×1.82 (1.60–1.90)`."""
    interval = interval_text(lever.gain)
    return f"{gain_text(lever.gain)} ({interval})" if interval else gain_text(lever.gain)


def lever_change(lever: Lever) -> str:
    """`51 → 87 sequences`; empty when neither is known."""
    now, then = lever.now, lever.then
    if now.value is None and then.value is None:
        return ""
    if now.unit == then.unit and not now.unit.startswith("bytes") and now.unit != "s":
        return f"{bare_text(now)} → {bare_text(then)} {unit_text(then)}".rstrip()
    return f"{value_text(now)} → {value_text(then)}"


def shown_parts(steps: Sequence[StepPoint]) -> list[tuple[str, str, Callable[[StepPoint], float]]]:
    """The parts that any of the steps has at all: a dense model has no experts, most have no recurrent state."""
    return [part for part in STEP_PARTS if any(part[2](step) > 0 for step in steps)]


def largest_share(of: Callable[[StepPoint], float], steps: Sequence[StepPoint]) -> float:
    """The most that a part takes of any of the steps, 0 … 1."""
    totals = [sum(each(step) for _, _, each in STEP_PARTS) for step in steps]
    return max((of(step) / total for step, total in zip(steps, totals, strict=True) if total > 0), default=0.0)


def steps_note(report: PlanReport) -> str:
    """That drafts are not in the steps, where they are in the recommended rate; else empty."""
    if report.drafting_tok_s.value is None:
        return ""
    return "These steps draft nothing; the rates with drafts above are higher by the tokens that are accepted."


def unknown_figures(report: PlanReport) -> list[tuple[str, str]]:
    """What of the plan's main figures is not known, and why; what has the same reason is said once."""
    fit = report.sequences_that_fit
    named = [
        ("ceiling", report.ceiling_tok_s),
        ("ceiling of the bytes really read", report.ceiling_read_tok_s),
        ("expected rate", report.expected_tok_s),
        ("rate with drafts", report.drafting_tok_s),
        ("doubling batch", report.width.doubling_batch),
        ("KV pool", report.kv_pool.tokens),
        ("requests that fit", fit.typical),
        ("longest requests that fit", fit.worst_case),
        ("lanes", report.recommendation.lanes),
        ("recommended rate", report.recommendation.expected_tok_s),
        *((f"step at {step.batch:,}", step.step_s) for step in report.steps),
        *((f"prefill at {point.depth_tokens:,}", point.tok_s) for point in report.prefill),
        *((f"memory of {part.name}", part.bytes) for part in report.memory),
        *((f"gain of {lever.code}", lever.gain) for lever in report.levers),
    ]
    found: dict[str, list[str]] = {}
    for name, figure in named:
        if figure.value is None:
            found.setdefault(figure.reason or "no reason given", []).append(name)
    return [(list_text(names), reason) for reason, names in found.items()]


def share_text(share: Figure) -> str:
    """`1 %`."""
    return DASH if share.number is None else f"{number_text(round(share.number * 100, 3))} %"


def _lanes_name(report: PlanReport) -> str:
    return "Lanes to run" if report.use is not Use.INTERACTIVE else "Sessions"


def _note(figure: Figure) -> str:
    return ", ".join(part for part in (interval_text(figure), origin_word(figure)) if part)


def _together_note(report: PlanReport) -> str:
    drafted = report.recommendation.drafting_tok_s
    note = _note(report.recommendation.expected_tok_s)
    return note if drafted is None else f"{note}; undrafted, {bare_text(drafted)} with drafts"


def _risk_note(report: PlanReport) -> str:
    risk = report.sequences_that_fit.risk
    if report.use is Use.INTERACTIVE or risk.number is None:
        return ""
    return f"chance of a full pool below {share_text(risk)}"


def _drafting_note(report: PlanReport) -> str:
    if report.drafting_tok_s.value is None:
        return _note(report.expected_tok_s)
    depth = f", depth {bare_text(report.draft_depth)}" if report.draft_depth.value is not None else ""
    return f"{bare_text(report.drafting_tok_s)} with drafts{depth}"


def _ceiling_note(report: PlanReport) -> str:
    read = report.ceiling_read_tok_s
    return f"{bare_text(read)} for the bytes really read" if read.value is not None else ""


def _doubling_note(report: PlanReport) -> str:
    width = report.width
    if width.doubling_tok_s.value is None or width.gain.value is None:
        return ""
    return f"{value_text(width.doubling_tok_s)} together, {gain_text(width.gain)}"


def _worst_note(worst: Figure) -> str:
    return f"{bare_text(worst)} of the longest" if worst.value is not None else ""
