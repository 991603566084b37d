"""Plan requests for tests: a known model on a device of the table."""

from __future__ import annotations

from typing import Any

from widelane.facts.devices.table import find_device
from widelane.facts.known_models import known_model
from widelane.plan.footprint import parse_footprint
from widelane.plan.make import make_plan
from widelane.plan.report import PlanReport, Use
from widelane.plan.request import PlanRequest


def request(
    model: str = "qwen3.6-27b",
    device: str = "gb10",
    *,
    quant: str | None = None,
    weights_gb: float | None = None,
    typical: str = "4096",
    max_tokens: int = 16_384,
    use: Use = Use.BATCH,
    engine: str = "vllm",
    **more: Any,
) -> PlanRequest:
    facts = known_model(model, quant=quant, weights_bytes=None if weights_gb is None else weights_gb * 1e9)
    assert facts is not None
    asked: dict[str, Any] = {
        "model": facts,
        "weights_at": None,
        "device": find_device(device),
        "device_how": "--device",
        "engine": engine,
        "engine_version": None,
        "use": use,
        "typical": parse_footprint(typical),
        "typical_stated": True,
        "max_tokens": max_tokens,
        "max_stated": True,
        **more,
    }
    return PlanRequest(**asked)


def plan(*names: str, **options: Any) -> PlanReport:
    return make_plan(request(*names, **options))


def lever(report: PlanReport, code: str) -> Any:
    """The one lever of that code."""
    (found,) = [one for one in report.levers if one.code == code]
    return found


def arguments(report: PlanReport) -> dict[str | None, str | None]:
    """The command's flags with their values."""
    return {part.flag: part.value for part in report.launch.argv}
