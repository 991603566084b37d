"""How many tokens a call will hold in the server's KV pool, estimated before it is sent. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from widelane.metrics import percentile
from widelane.records import ChatRequest

CHARACTERS_PER_TOKEN = 4.0
"""Usual for English text; code and other scripts need more tokens, which the learned scale corrects."""
DEFAULT_OUTPUT_TOKENS = 512
"""Assumed for a call without max_tokens until enough calls have ended."""
ENOUGH_CALLS = 16
REMEMBERED_CALLS = 256


def prompt_tokens(request: ChatRequest) -> int:
    """Estimated prompt tokens: the request's own estimate, else characters / 4 of everything the template sees."""
    if request.prompt_tokens_estimate is not None:
        return request.prompt_tokens_estimate
    characters = len(request.prompt or "")
    characters += sum(_characters(message) for message in request.messages)
    if request.tools:
        characters += len(msgspec.json.encode(list(request.tools)))
    return max(1, round(characters / CHARACTERS_PER_TOKEN))


def _characters(value: Any) -> int:
    """Characters of all texts in a message, at any depth."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(_characters(item) for item in value.values())
    if isinstance(value, Sequence):
        return sum(_characters(item) for item in value)
    return 0


class Footprints:
    """Learns from ended calls how long answers are, and how far off the prompt estimate is."""

    def __init__(self) -> None:
        self._outputs: deque[int] = deque(maxlen=REMEMBERED_CALLS)
        self._scales: deque[float] = deque(maxlen=REMEMBERED_CALLS)

    def learn(self, estimated: int, prompt: int | None, output: int) -> None:
        """Note one ended call: its estimated and true prompt tokens, and its output tokens."""
        self._outputs.append(output)
        if prompt:
            self._scales.append(prompt / max(1, estimated))

    def tokens(self, request: ChatRequest) -> int:
        """Tokens to reserve for a call: the prompt, and max_tokens or else the p90 of what answers took."""
        scale = percentile(list(self._scales), 0.9) if len(self._scales) >= ENOUGH_CALLS else None
        estimate = prompt_tokens(request)
        prompt = estimate if request.prompt_tokens_estimate is not None else round(estimate * (scale or 1.0))
        return prompt + self._output_tokens(request) * request.n

    def _output_tokens(self, request: ChatRequest) -> int:
        if request.max_tokens is not None:
            return request.max_tokens
        if len(self._outputs) < ENOUGH_CALLS:
            return DEFAULT_OUTPUT_TOKENS
        return round(percentile(list(self._outputs), 0.9) or DEFAULT_OUTPUT_TOKENS)
