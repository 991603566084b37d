"""What the tests of lanes share."""

import random
from collections.abc import Callable
from typing import Any

from widelane.clock import LoopClock
from widelane.lanes import Lanes, RetryPolicy
from widelane.records import CallTiming, ChatRequest, Reply, Usage
from widelane.testing.fake_backend import FakeBackend

ASK = ChatRequest(prompt="What is two and two?", max_tokens=8)
ONCE = RetryPolicy.none()


def lanes_over(backend: Any, *, width: int = 4, seed: int = 1, **options: Any) -> Lanes:
    """Lanes on the loop's time."""
    return Lanes(backend, width=width, clock=LoopClock(), rng=random.Random(seed), **options)


def reply(text: str = "ok", **fields: Any) -> Reply:
    """A finished reply with usage 8 + 1."""
    timing = CallTiming(sent_ns=0, headers_ns=1, first_token_ns=2, ended_ns=3, chunk_ns=(2,))
    return Reply(**{
        "text": text, "finish": "stop", "usage": Usage(8, 1), "timing": timing, "choices": (text,), **fields
    })  # fmt: skip


class Switch:
    """An `is_up` that answers False until a loop time, and counts how often it was asked."""

    def __init__(self, now_s: Callable[[], float], up_from_s: float) -> None:
        self.asked = 0
        self._now_s = now_s
        self._up_from_s = up_from_s

    async def __call__(self) -> bool:
        self.asked += 1
        return self._now_s() >= self._up_from_s


__all__ = ["ASK", "ONCE", "FakeBackend", "Switch", "lanes_over", "reply"]
