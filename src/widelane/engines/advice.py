"""From a finding to the exact change: the flag for this engine and version, and the whole command to paste."""

from __future__ import annotations

from collections.abc import Mapping

from widelane.engines.advice_llama_cpp import LLAMA_CPP_ADVICE
from widelane.engines.advice_others import ANY_ENGINE, OTHER_ADVICE
from widelane.engines.advice_parts import Advice, Adviser, Asked
from widelane.engines.advice_vllm import VLLM_ADVICE
from widelane.engines.launch_line import parse_launch
from widelane.engines.server_facts import ServerFacts
from widelane.errors import UsageError
from widelane.figures import Fix

_BY_ENGINE: Mapping[str, Mapping[str, Adviser]] = {
    "llama.cpp": LLAMA_CPP_ADVICE,
    "vllm": VLLM_ADVICE,
    **OTHER_ADVICE,
}


def fix_for(code: str, facts: ServerFacts, **known: float | int | str | bool | None) -> Fix | None:
    """What to change for a finding, None where nothing is known to help on this engine.

    Args:
        code: the finding's code.
        known: the finding's figures (see `Asked`): `slots`, `context`, `depth`, `cured_by_off`, `text`.
    """
    adviser = _BY_ENGINE.get(facts.engine, {}).get(code) or ANY_ENGINE.get(code)
    advice = adviser(Asked(facts, known)) if adviser else None
    if advice is None:
        return None
    return Fix(
        flag=advice.flag,
        command=advice.command or _command(advice, facts),
        engine=facts.engine,
        checked_on=advice.checked_on,
        reason=advice.reason,
    )


def _command(advice: Advice, facts: ServerFacts) -> str | None:
    """The launch line with the change made, None where there is no launch line to change."""
    line = facts.launch_command.value
    if advice.by_request or not isinstance(line, str) or not (advice.settings or advice.environ):
        return None
    try:
        return parse_launch(line, engine=facts.engine).changed(advice.settings, advice.environ)
    except UsageError:  # the line was read once already; a proxy's shell may still have cut it
        return None
