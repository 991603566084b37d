"""Widelane: measure, plan, predict, spend and prove the width of a local language-model server.

The public names below are loaded when they are first used, so that importing the package stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from widelane.clock import LoopClock, SystemClock
    from widelane.engines.detect import detect
    from widelane.engines.embedded import EmbeddedServer
    from widelane.errors import CallError, UsageError, WidelaneError
    from widelane.facts.devices.device import Device
    from widelane.facts.devices.table import find_device
    from widelane.facts.find_model import find_model
    from widelane.facts.model import ModelFacts
    from widelane.lanes.budget import Budget
    from widelane.lanes.lanes import Lanes
    from widelane.lanes.retry import RetryPolicy
    from widelane.lanes.store import RunStore
    from widelane.measure.doctor import DoctorOptions, diagnose
    from widelane.measure.options import SweepOptions
    from widelane.measure.profile import load_profile, save_profile
    from widelane.measure.sweep import sweep
    from widelane.plan.footprint import Footprint, parse_footprint
    from widelane.plan.make import make_plan
    from widelane.plan.report import PlanReport, Use
    from widelane.plan.request import PlanRequest
    from widelane.predict.job_file import read_job
    from widelane.predict.make import predict_job
    from widelane.predict.open_server import predicted_server
    from widelane.predict.report import PredictReport
    from widelane.predict.shape import best_of, map_reduce, parse_calls
    from widelane.records import ChatRequest, Reply
    from widelane.sim.answers.script_file import parse_script
    from widelane.sim.open_server import assemble
    from widelane.sim.server import SimServer
    from widelane.sim.spec import parse_sim
    from widelane.virtual_time import run_virtual
    from widelane.wire.client import HttpBackend
    from widelane.wire.limits import Limits

__version__ = "0.1.0"

_HOMES = {
    "Budget": "widelane.lanes.budget",
    "CallError": "widelane.errors",
    "ChatRequest": "widelane.records",
    "Device": "widelane.facts.devices.device",
    "DoctorOptions": "widelane.measure.doctor",
    "EmbeddedServer": "widelane.engines.embedded",
    "Footprint": "widelane.plan.footprint",
    "HttpBackend": "widelane.wire.client",
    "Lanes": "widelane.lanes.lanes",
    "Limits": "widelane.wire.limits",
    "LoopClock": "widelane.clock",
    "ModelFacts": "widelane.facts.model",
    "PlanReport": "widelane.plan.report",
    "PlanRequest": "widelane.plan.request",
    "PredictReport": "widelane.predict.report",
    "Reply": "widelane.records",
    "RetryPolicy": "widelane.lanes.retry",
    "RunStore": "widelane.lanes.store",
    "SimServer": "widelane.sim.server",
    "SweepOptions": "widelane.measure.options",
    "SystemClock": "widelane.clock",
    "UsageError": "widelane.errors",
    "Use": "widelane.plan.report",
    "WidelaneError": "widelane.errors",
    "assemble": "widelane.sim.open_server",
    "best_of": "widelane.predict.shape",
    "detect": "widelane.engines.detect",
    "diagnose": "widelane.measure.doctor",
    "find_device": "widelane.facts.devices.table",
    "find_model": "widelane.facts.find_model",
    "load_profile": "widelane.measure.profile",
    "make_plan": "widelane.plan.make",
    "map_reduce": "widelane.predict.shape",
    "parse_calls": "widelane.predict.shape",
    "parse_footprint": "widelane.plan.footprint",
    "parse_script": "widelane.sim.answers.script_file",
    "parse_sim": "widelane.sim.spec",
    "predict_job": "widelane.predict.make",
    "predicted_server": "widelane.predict.open_server",
    "read_job": "widelane.predict.job_file",
    "run_virtual": "widelane.virtual_time",
    "save_profile": "widelane.measure.profile",
    "sweep": "widelane.measure.sweep",
}
"""Public name → the module it lives in."""

__all__ = [
    "Budget", "CallError", "ChatRequest", "Device", "DoctorOptions", "EmbeddedServer", "Footprint", "HttpBackend",
    "Lanes", "Limits", "LoopClock", "ModelFacts", "PlanReport", "PlanRequest", "PredictReport", "Reply",
    "RetryPolicy", "RunStore", "SimServer", "SweepOptions", "SystemClock", "UsageError", "Use", "WidelaneError",
    "__version__", "assemble", "best_of", "detect", "diagnose", "find_device", "find_model", "load_profile",
    "make_plan", "map_reduce", "parse_calls", "parse_footprint", "parse_script", "parse_sim", "predict_job",
    "predicted_server", "read_job", "run_virtual", "save_profile", "sweep",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'widelane' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
