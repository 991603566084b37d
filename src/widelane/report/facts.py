"""The facts of a server as a list of named figures, in the order in which a reader asks for them."""

from __future__ import annotations

from widelane.engines.server_facts import ServerFacts
from widelane.figures import Figure
from widelane.report.text import figure_text

_NAMES = {
    "version": "version",
    "model": "model",
    "slots": "slots",
    "context_per_slot": "context per slot",
    "context_trained": "context trained for",
    "pool_tokens": "KV pool",
    "unified_pool": "one pool shared by all slots",
    "kv_dtype": "KV type",
    "state_dtype": "recurrent state type",
    "weights_bytes": "weights",
    "parameters": "parameters",
    "speculation": "speculative decoding",
    "prefix_cache": "prefix cache",
    "reasoning_parser": "reasoning parser",
    "tool_parser": "tool-call parser",
    "queue_length": "queue length",
    "launch_command": "launch command",
}
_ON_SERVER_LINE = {"version", "model", "slots", "context_per_slot", "weights_bytes", "launch_command"}


def named_facts(facts: ServerFacts) -> list[tuple[str, Figure]]:
    """Every fact, known or not; the extra ones last, by name."""
    rows: list[tuple[str, Figure]] = [(name, getattr(facts, field)) for field, name in _NAMES.items()]
    return rows + [(name.replace("_", " "), figure) for name, figure in sorted(facts.extra.items())]


def known_beside(facts: ServerFacts) -> list[str]:
    """What is known beyond the server line: `KV type: f16 (inferred)`."""
    return [
        f"{name}: {figure_text(figure)}"
        for field, name in _NAMES.items()
        if field not in _ON_SERVER_LINE and (figure := getattr(facts, field)).value is not None
    ]


def fact_rows(facts: ServerFacts) -> list[tuple[str, str, str]]:
    """Name, text and reason of every fact, for a table."""
    return [(name, figure_text(figure), figure.reason or "") for name, figure in named_facts(facts)]


def unknown_by_reason(facts: ServerFacts) -> dict[str, list[str]]:
    """Reason → names of the facts that are not known for it."""
    found: dict[str, list[str]] = {}
    for name, figure in named_facts(facts):
        if figure.value is None:
            found.setdefault(figure.reason or "no reason given", []).append(name)
    return found
