"""How far a claimed gain in pool size can come from smaller types alone.

Halving every byte at equal memory holds at most twice the tokens. The field report's 182k → 522k (2.9 times, fp8 cache)
therefore also needs about one and a half times the memory; this says so with figures wherever such a claim is shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from widelane.plan.pool.pool import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedGain:
    """A gain in tokens between two start logs, taken apart.

    Attributes:
        claimed: figure after over figure before.
        by_types: what the types give at equal memory.
        before_bytes, after_bytes: pool memory that each figure needs.
        by_memory: after over before.
    """

    claimed: float
    by_types: float
    before_bytes: int
    after_bytes: int

    @property
    def by_memory(self) -> float:
        return self.after_bytes / self.before_bytes

    @property
    def sentence(self) -> str:
        """The claim in words, with the part that the types cannot explain."""
        text = f"{self.claimed:.1f} times the tokens: the cache types give {self.by_types:.2f} times at equal memory"
        if self.by_memory <= 1.01:
            return f"{text}."
        gib = 2**30
        return (
            f"{text}; the rest needs {self.by_memory:.2f} times the free memory"
            f" ({self.before_bytes / gib:.1f} to {self.after_bytes / gib:.1f} GiB)."
        )


def gain_at(before: Pool, after: Pool, tokens: int) -> float | None:
    """Sequences of this length that `after` holds for each that `before` holds; fractions of a sequence count.

    None where `before` holds nothing at all.
    """
    if not before.capacity:
        return None
    return (after.capacity / after.need(tokens)) / (before.capacity / before.need(tokens))


def claimed_gain(before: Pool, after: Pool) -> ClaimedGain:
    """Take apart a gain between two pools read from start logs (see `make.pool_from_log_line`)."""
    claimed = after.log_line_tokens / before.log_line_tokens
    by_memory = after.bytes / before.bytes
    return ClaimedGain(
        claimed=claimed, by_types=claimed / by_memory, before_bytes=before.bytes, after_bytes=after.bytes
    )
