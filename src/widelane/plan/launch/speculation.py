"""Why a server is started without speculative decoding."""

from __future__ import annotations

from widelane.facts.model import ModelFacts
from widelane.plan.launch.choice import LaunchChoice
from widelane.plan.report import Use


def no_speculation_reason(facts: ModelFacts, choice: LaunchChoice) -> str:
    """Why nothing drafts, by what the server is for and what the model has."""
    if choice.use is Use.INTERACTIVE:
        head = "its own draft head" if facts.draft_layers else "a small model of the same family"
        return f"It would speed up a single session: try {head}, and keep it where most guesses hold."
    if facts.experts is not None:
        return "Each drafted token visits further experts: with many requests at once it costs more than it gives."
    return "With many requests at once the batch already uses the compute that guesses need; measure before using it."
