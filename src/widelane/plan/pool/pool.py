"""What every pool can tell: its size, what a sequence takes of it, and how many sequences fit at once.

A pool is counted in its engine's own unit (vLLM: blocks; llama.cpp: cells; SGLang: tokens). `capacity` and `need` are
in that unit, so that a lane planner needs nothing else; a limit on the number of sequences stands beside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable


class Pool(ABC):
    """The memory that holds the sequences of one server."""

    __slots__ = ()

    @property
    @abstractmethod
    def engine(self) -> str:
        """`vllm`, `llama.cpp`, `sglang` or `ollama`."""

    @property
    @abstractmethod
    def unit(self) -> str:
        """What `capacity` and `need` count, in the plural: `blocks`, `cells`, `tokens`."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Units in the pool."""

    @abstractmethod
    def need(self, tokens: int) -> int:
        """Units that one sequence of so many tokens takes, at least 1. It may exceed what the pool has."""

    @property
    @abstractmethod
    def longest_tokens(self) -> int:
        """Tokens of the longest sequence the server takes, whatever else is free."""

    @property
    @abstractmethod
    def max_sequences(self) -> int | None:
        """Sequences it holds at most, however short; None when only the capacity limits them."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """Memory it takes, with recurrent states, on all devices together."""

    @property
    @abstractmethod
    def state_bytes(self) -> int:
        """The part of `bytes` set aside for recurrent states alone; 0 where they take blocks like everything else."""

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Tokens of context it holds, as one number: `meaning` says under which condition."""

    @property
    def block_tokens(self) -> int | None:
        """Tokens of one allocation unit, None where tokens are kept one by one."""
        return None

    @property
    def blocks(self) -> int | None:
        """Allocation units, None where there are none."""
        return None

    @property
    @abstractmethod
    def log_line_tokens(self) -> int:
        """The size in tokens that the engine's own start log shows."""

    @property
    @abstractmethod
    def meaning(self) -> str:
        """What `tokens` means for this engine and version, in a sentence."""

    def holds(self, tokens: int) -> int:
        """Sequences of so many tokens that fit at the same time; 0 for one that is longer than the server takes."""
        if tokens > self.longest_tokens:
            return 0
        by_capacity = self.capacity // self.need(tokens)
        return by_capacity if self.max_sequences is None else min(by_capacity, self.max_sequences)

    def fits(self, lengths: Iterable[int]) -> bool:
        """Whether sequences of these lengths (tokens) fit together."""
        listed = list(lengths)
        if self.max_sequences is not None and len(listed) > self.max_sequences:
            return False
        return all(tokens <= self.longest_tokens for tokens in listed) and (
            sum(self.need(tokens) for tokens in listed) <= self.capacity
        )

    def tokens_at(self, tokens: int) -> int:
        """Tokens of context held when every sequence has this length and the pool is full."""
        return self.holds(tokens) * tokens
