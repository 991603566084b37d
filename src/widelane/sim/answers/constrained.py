"""What an engine does that enforces a schema: whatever the model would write, the text obeys."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from widelane.records import ChatRequest
from widelane.sim.answers.answer import Answer, Answerer, estimated_tokens
from widelane.sim.answers.plain import json_text
from widelane.sim.answers.request_text import wanted_schema
from widelane.sim.answers.schema import conforming


@dataclass(frozen=True, slots=True)
class SchemaEnforced:
    """Another answerer under constrained decoding.

    Its JSON is kept as far as the request's schema allows; where it wrote none, a value that fits is made up. An
    answerer without this wrapper is a server that ignores schemas.
    """

    answerer: Answerer

    def __call__(self, request: ChatRequest, rng: random.Random) -> Answer:
        answer = self.answerer(request, rng)
        schema = wanted_schema(request)
        if schema is None or answer.tool_calls:
            return answer
        wanted = _decoded(answer.text)
        value = conforming(schema, wanted, rng)
        if value == wanted:
            return answer
        text = json_text(value)
        if wanted is not None:  # the same document, of the length that was drawn for it
            return replace(answer, text=text)
        return replace(answer, text=text, output_tokens=answer.reasoning_tokens + max(1, estimated_tokens(text)))


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
