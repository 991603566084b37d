"""The writer: whoever answers with text alone, as an integrator or a reducer does."""

from __future__ import annotations

import re
from typing import Final

from widelane.sim.answers.agent.mistakes import Mistake
from widelane.sim.answers.agent.reading import names_defined
from widelane.sim.answers.agent.turn import Turn
from widelane.sim.answers.answer import Answer, estimated_tokens
from widelane.sim.answers.writing import filler

_MOST_NAMES: Final = 40
_QUOTED: Final = re.compile(r"`([A-Za-z_]\w*)(?:\(\))?`")


def overview(turn: Turn) -> Answer:
    """A text that mentions the names which stand in what was handed over."""
    names = list(dict.fromkeys(_QUOTED.findall(turn.opening))) or names_defined([turn.opening])
    tokens = turn.lengths.overview.draw(turn.rng)
    text = document("Overview", turn.named(names), tokens)
    drifts = bool(names) and turn.makes(Mistake.DRIFTING_NAMES)
    return Answer(text=text, output_tokens=tokens, mistake=Mistake.DRIFTING_NAMES if drifts else None)


def document(title: str, names: list[str], tokens: int) -> str:
    """A text of about so many tokens (more when the names alone need more): a title, prose, a line for every name."""
    head = f"# {title}\n\n"
    listed = "".join(f"- `{name}`\n" for name in names[:_MOST_NAMES])
    listed = f"\n\n## Names\n\n{listed}" if listed else "\n"
    return head + filler(max(8, tokens - estimated_tokens(head + listed))) + listed
