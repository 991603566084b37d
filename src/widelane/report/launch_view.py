"""`widelane launch` in a terminal: what the command is for, and the command."""

from __future__ import annotations

from rich.console import Group, RenderableType

from widelane.plan.report import LaunchReport
from widelane.report.launch_table import launch_table
from widelane.report.plan_words import USES, device_text, model_text
from widelane.report.terminal_parts import labelled


def launch_view(report: LaunchReport) -> RenderableType:
    """What to type and why, for a person (print it uncropped)."""
    return Group(
        labelled("Model", model_text(report.model)),
        labelled("Device", f"{device_text(report.device)} · for {USES[report.use]}"),
        "",
        launch_table(report.launch),
    )
