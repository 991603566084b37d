"""Is a JSON schema enforced, or only hoped for?"""

from __future__ import annotations

from typing import Any

import msgspec

from widelane.engines.advice import fix_for
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Finding
from widelane.measure.findings import build
from widelane.measure.probes.answer import Answer
from widelane.measure.probes.probe import ProbeContext

CODE = "schema-not-enforced"
QUESTION = "Give me a person."
"""It does not ask for JSON: only an enforced schema makes a model answer it in JSON."""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}


class SchemaEnforced:
    """A schema that is ignored."""

    name = "schema"
    codes = (CODE,)
    seconds = 25.0

    def applies(self, context: ProbeContext) -> str | None:
        return None

    async def run(self, context: ProbeContext) -> list[Finding]:
        default = await context.chat(QUESTION, max_tokens=64, response_format=FORMAT)
        off_fields = dict(context.engine.thinking_off())
        off = None
        if fits(default) is False and off_fields:
            off = await context.chat(QUESTION, max_tokens=64, response_format=FORMAT, **off_fields)
        return [judge(default, off, context.facts)]


def fits(answer: Answer) -> bool | None:
    """Whether the text obeys the schema; None when it was cut off while it still might, or there is no reply."""
    if answer.error is not None:
        return None
    text = answer.content.strip()
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None if answer.finish == "length" and text.startswith("{") else False
    return isinstance(value, dict) and set(value) == {"name", "age"} and _is_person(value)


def judge(default: Answer, off: Answer | None, facts: ServerFacts) -> Finding:
    """The finding from a question with a schema, as usual and (when that failed) with thinking switched off."""
    if default.error is not None and default.refused:
        said = f"HTTP {default.status}: {default.error}"
        return build.warning(CODE, "A JSON schema is refused.", said, fix_for(CODE, facts))
    if default.error is not None:
        return build.not_checked(CODE, f"the question failed: {default.error}")
    verdict = fits(default)
    if verdict is None:
        return build.not_checked(CODE, "the answer begins like JSON and was cut off by the token limit")
    if verdict:
        return build.healthy(CODE, "A JSON schema is enforced (probed).", f"{_short(default)}.")
    seen = f"Asked with a schema, the answer was {_short(default)}"
    if off is not None and fits(off):
        return build.error(
            CODE,
            "A JSON schema is enforced only with thinking switched off.",
            f"{seen}; with thinking switched off it was {_short(off)}. The server waits for an end of thinking.",
            fix_for(CODE, facts, cured_by_off=True),
        )
    return build.error(CODE, "A JSON schema is not enforced.", f"{seen}.", fix_for(CODE, facts))


def _is_person(value: dict[str, Any]) -> bool:
    age = value["age"]
    return isinstance(value["name"], str) and isinstance(age, int) and not isinstance(age, bool)


def _short(answer: Answer) -> str:
    where = "" if answer.content else " (in the thinking field)"
    return f"{' '.join(answer.text.split())[:70]!r}{where}"
