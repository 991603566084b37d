"""One self-contained HTML page for a plan: what to do, what it rests on, what else could be changed, how to start it.

Nothing is loaded from anywhere (see `page_shell`).
"""

from __future__ import annotations

from typing import Any

from widelane.figures import Figure
from widelane.plan.report import PlanReport
from widelane.report.launch_lines import argv_lines, environ_lines, left_out_lines, written_for
from widelane.report.memory_bar import memory_bar
from widelane.report.page_shell import render
from widelane.report.plan_charts import step_chart, throughput_chart
from widelane.report.plan_words import (
    by_gain,
    device_text,
    engine_text,
    key_figures,
    layers_text,
    lever_change,
    lever_gain,
    loses,
    model_text,
    share_text,
    shown_parts,
    steps_note,
    unknown_figures,
)
from widelane.report.prefill_charts import prefill_charts
from widelane.report.text import figure_text


def plan_page(report: PlanReport) -> str:
    """The page as text; the same report always gives the same page."""
    return render("plan.html.j2", _context(report), styles=("plan.css",))


def _context(report: PlanReport) -> dict[str, Any]:
    launch = report.launch
    drawn = [chart for chart in (throughput_chart(report), step_chart(report)) if chart is not None]
    return {
        "subject": (model_text(report.model), device_text(report.device), engine_text(report)),
        "recommendation": report.recommendation,
        "key_figures": key_figures(report),
        "width": report.width,
        "charts": drawn,
        "prefill_charts": prefill_charts(report.prefill),
        "prefill": report.prefill,
        "steps": report.steps,
        "steps_note": steps_note(report),
        "parts": shown_parts(report.steps),
        "memory": memory_bar(report.memory, report.device.memory_bytes),
        "capacity": _capacity(report),
        "levers": [(lever, lever_gain(lever), lever_change(lever), loses(lever)) for lever in by_gain(report.levers)],
        "command": launch.command,
        "afterwards": launch.afterwards,
        "launch_notes": launch.notes,
        "written_for": written_for(launch),
        "environ": environ_lines(launch),
        "argv": argv_lines(launch),
        "left_out": left_out_lines(launch),
        "unknown": unknown_figures(report),
        "assumed": report.model.assumed,
        "notes": report.notes,
        "model": _model(report),
        "device": _device(report),
        "made": [("schema", f"{report.schema.name} {report.schema.version}")],
    }


def _capacity(report: PlanReport) -> list[tuple[str, str, str]]:
    """Name, figure and explanation of everything about the pool and what fits in it."""
    pool, fit = report.kv_pool, report.sequences_that_fit
    lanes = "" if fit.lanes.reason else f"the most that keep the chance of a full pool below {share_text(fit.risk)}"
    rows = [
        ("KV pool", pool.tokens, pool.meaning),
        ("its memory", pool.bytes, "recurrent states that live in it included"),
        ("block", pool.block_tokens, "the pool is handed out in blocks"),
        ("blocks", pool.blocks, ""),
        ("start log will say", pool.log_line_tokens, "its meaning changes with the version: do not plan from it"),
        ("typical requests that fit", fit.typical, f"each {figure_text(fit.typical_tokens)}"),
        ("longest requests that fit", fit.worst_case, f"each {figure_text(fit.max_tokens)}"),
        ("lanes the pool allows", fit.lanes, lanes),
        ("slots to start with", fit.slots, "places in the running batch"),
    ]
    return [_row(name, figure, aside) for name, figure, aside in rows]


def _model(report: PlanReport) -> list[tuple[str, str, str]]:
    model = report.model
    rows = [
        ("parameters", model.parameters),
        ("active parameters", model.active_parameters),
        ("weights", model.weights_bytes),
        ("read every step", model.read_bytes),
        ("routed experts", model.routed_expert_bytes),
        ("KV cache a token", model.kv_bytes_per_token),
        ("KV cache a token, window layers", model.kv_bytes_per_token_window),
        ("window", model.window),
        ("recurrent state a sequence", model.state_bytes_per_sequence),
        ("context made for", model.context_tokens),
        ("draft layers", model.draft_layers),
    ]
    words = [
        ("name", model.name, ""),
        ("source", model.source, ""),
        ("architecture", model.architecture, ""),
        ("format", model.quant, ""),
        ("layers", layers_text(model), ""),
    ]
    return words + [_row(name, figure) for name, figure in rows]


def _device(report: PlanReport) -> list[tuple[str, str, str]]:
    device = report.device
    rows = [
        ("nominal bandwidth", device.bandwidth_bytes_s),
        ("measured reading", device.measured_read_bytes_s),
        ("measured copying", device.measured_copy_bytes_s),
        ("memory", device.memory_bytes),
        ("usable memory", device.usable_memory_bytes),
    ]
    words = [("name", device.name, device.note), ("kind", device.kind, "")]
    words += [("count", f"{device.count}", "")] if device.count > 1 else []
    return words + [_row(name, figure) for name, figure in rows]


def _row(name: str, figure: Figure, aside: str = "") -> tuple[str, str, str]:
    """The figure as text and what is to be said beside it: why it is not known, else what it means."""
    reason = figure.reason or ""
    return name, figure_text(figure), reason if figure.value is None else "; ".join(p for p in (aside, reason) if p)
