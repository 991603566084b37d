"""Whether a failed call is sent again, and when. Pure: an error and a policy in, a decision out.

Rules:
1. Only what the error's `retry` allows. A chat completion has no effect outside the server, so sending it again is
   safe; whoever runs tools between calls must not put the tool's effect inside one.
2. A stale pooled connection (AT_ONCE) was never seen by the server: sent again once, at once, at nobody's charge.
3. BACKOFF waits with full jitter (a uniform time up to a doubling bound), after Retry-After where the server asked.
4. WHEN_UP and WHEN_READY wait for the one probe of the server (`breaker`), and cost no attempt.
5. At most `max_attempts` charged attempts, and over a minute at most a tenth of all sendings are retries.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from widelane.errors import CallError, EmptyAnswer, Retry

WINDOW_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Limits of sending again. All times in seconds.

    Attributes:
        max_attempts: charged attempts a call; 1 means that nothing but a stale connection is sent again.
        max_empty_attempts: attempts for an empty answer: it is rarely a passing fault.
        first_wait_s, longest_wait_s: bound of the first wait, doubled each time, and the largest bound.
        retry_after_limit_s: a longer Retry-After is shortened to this.
        down_limit_s: how long nobody may listen before the run stops with ServerDown.
        loading_limit_s: how long the server may load its model.
        retry_share: share of the sendings in a minute that may be retries.
        retry_floor: retries a minute allowed in any case, for small runs; the width, when that is larger, because
            one fault of the server may fail every call in flight.
        adaptive_width: cut the width when the server sheds load.
    """

    max_attempts: int = 5
    max_empty_attempts: int = 2
    first_wait_s: float = 1.0
    longest_wait_s: float = 30.0
    retry_after_limit_s: float = 120.0
    down_limit_s: float = 120.0
    loading_limit_s: float = 900.0
    retry_share: float = 0.10
    retry_floor: int = 10
    adaptive_width: bool = True

    @classmethod
    def none(cls) -> RetryPolicy:
        """Every call is tried once and the width stays as stated: for measuring."""
        return cls(max_attempts=1, adaptive_width=False)


class Then(StrEnum):
    """What comes after a failed attempt."""

    GIVE_UP = "give-up"
    WAIT = "wait"
    WHEN_UP = "when-up"
    WHEN_READY = "when-ready"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about a failure.

    Attributes:
        wait_s: seconds this call waits.
        pause_s: seconds in which no call at all is sent to the server (Retry-After); 0: only this call waits.
    """

    then: Then
    wait_s: float = 0.0
    pause_s: float = 0.0


def resend_at_once(error: CallError, *, resent: bool) -> bool:
    """Whether to send again in the same breath: a stale connection, the first time. Holds even without retries."""
    return error.retry is Retry.AT_ONCE and not resent


def decide(error: CallError, *, charged: int, policy: RetryPolicy, rng: random.Random) -> Decision:
    """The decision after an attempt failed (and was not sent again at once).

    Args:
        charged: attempts so far that count, this one included.
    """
    kind = error.retry
    limit = policy.max_attempts
    if isinstance(error, EmptyAnswer):
        limit = min(limit, policy.max_empty_attempts)
    if kind is Retry.NEVER or policy.max_attempts <= 1 or charged >= limit:
        return Decision(Then.GIVE_UP)
    if kind is Retry.WHEN_UP:
        return Decision(Then.WHEN_UP)
    if kind is Retry.WHEN_READY:
        return Decision(Then.WHEN_READY)
    bound_s = min(policy.longest_wait_s, policy.first_wait_s * 2.0 ** (max(1, charged) - 1))
    if error.retry_after_s is None:
        return Decision(Then.WAIT, rng.uniform(0.0, bound_s))
    pause_s = min(max(0.0, error.retry_after_s), policy.retry_after_limit_s)
    # Not all lanes at the very moment the server named, but soon after it.
    return Decision(Then.WAIT, pause_s + rng.uniform(0.0, min(0.5, bound_s)), pause_s)


class RetryQuota:
    """Counts sendings and retries over the last minute, so that retries stay a tenth of them."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._sent: deque[float] = deque()
        self._retried: deque[float] = deque()

    def sent(self, now_s: float) -> None:
        """A request is sent."""
        self._forget(now_s)
        self._sent.append(now_s)

    def take(self, now_s: float, width: int) -> float:
        """Take leave for one retry: 0 when it is given, else the seconds after which to ask again."""
        self._forget(now_s)
        floor = max(self._policy.retry_floor, width)
        if len(self._retried) < max(floor, int(len(self._sent) * self._policy.retry_share)):
            self._retried.append(now_s)
            return 0.0
        return max(0.001, self._retried[0] + WINDOW_S - now_s)

    def _forget(self, now_s: float) -> None:
        for times in (self._sent, self._retried):
            while times and times[0] <= now_s - WINDOW_S:
                times.popleft()
