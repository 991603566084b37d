"""Widelane: measure, plan, predict, spend and prove the width of a local language-model server.

The public names below are loaded when they are first used, so that importing the package stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from widelane.clock import SystemClock
    from widelane.engines.detect import detect
    from widelane.engines.embedded import EmbeddedServer
    from widelane.errors import CallError, UsageError, WidelaneError
    from widelane.lanes.budget import Budget
    from widelane.lanes.lanes import Lanes
    from widelane.lanes.retry import RetryPolicy
    from widelane.lanes.store import RunStore
    from widelane.measure.doctor import DoctorOptions, diagnose
    from widelane.measure.options import SweepOptions
    from widelane.measure.profile import load_profile, save_profile
    from widelane.measure.sweep import sweep
    from widelane.records import ChatRequest, Reply
    from widelane.wire.client import HttpBackend
    from widelane.wire.limits import Limits

__version__ = "0.1.0"

_HOMES = {
    "Budget": "widelane.lanes.budget",
    "CallError": "widelane.errors",
    "ChatRequest": "widelane.records",
    "DoctorOptions": "widelane.measure.doctor",
    "EmbeddedServer": "widelane.engines.embedded",
    "HttpBackend": "widelane.wire.client",
    "Lanes": "widelane.lanes.lanes",
    "Limits": "widelane.wire.limits",
    "Reply": "widelane.records",
    "RetryPolicy": "widelane.lanes.retry",
    "RunStore": "widelane.lanes.store",
    "SweepOptions": "widelane.measure.options",
    "SystemClock": "widelane.clock",
    "UsageError": "widelane.errors",
    "WidelaneError": "widelane.errors",
    "detect": "widelane.engines.detect",
    "diagnose": "widelane.measure.doctor",
    "load_profile": "widelane.measure.profile",
    "save_profile": "widelane.measure.profile",
    "sweep": "widelane.measure.sweep",
}
"""Public name → the module it lives in."""

__all__ = [
    "Budget", "CallError", "ChatRequest", "DoctorOptions", "EmbeddedServer", "HttpBackend", "Lanes", "Limits", "Reply",
    "RetryPolicy", "RunStore", "SweepOptions", "SystemClock", "UsageError", "WidelaneError", "__version__", "detect",
    "diagnose", "load_profile", "save_profile", "sweep",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'widelane' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
