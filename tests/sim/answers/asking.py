"""Requests, as the tests of answerers ask them."""

import random
from typing import Any

from widelane.records import ChatRequest


def ask(text: str, **fields: Any) -> ChatRequest:
    """A chat request of one user message."""
    return ChatRequest(messages=[{"role": "user", "content": text}], **fields)


def rng(seed: int = 0) -> random.Random:
    """A generator for one request."""
    return random.Random(seed)
