"""Server facts for tests: nothing is known but what a test states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from widelane.engines.server_facts import ServerFacts
from widelane.figures import Figure, Origin
from widelane.measure.findings.unreachable import no_facts


def read(value: float | str | bool, unit: str = "") -> Figure:
    """A figure that the server says."""
    return Figure(value, unit, Origin.READ)


def facts(engine: str = "llama.cpp", **known: Any) -> ServerFacts:
    """Facts with these fields read; a plain value becomes a read figure."""
    figures = {name: value if isinstance(value, (Figure, dict)) else read(value) for name, value in known.items()}
    return replace(no_facts("not stated in this test"), engine=engine, **figures)
