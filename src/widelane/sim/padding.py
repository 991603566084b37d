"""The batch that is really computed: decode steps run in captured graphs, each for a fixed number of tokens.

Source: vLLM's `cudagraph_capture_sizes` (1, 2, 4, then multiples of 8, from 256 on of 16): a batch of 65 sequences
takes the time of 72, which shows as dips of 17 to 25 % just above a captured size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def padded_batch(batch: int, tokens_per_sequence: int, sizes: Sequence[int]) -> int:
    """Sequences that a step of `batch` sequences computes.

    Args:
        tokens_per_sequence: 1, and the drafted ones.
        sizes: captured numbers of tokens, rising; a larger batch runs without a graph and is not padded.
    """
    tokens = batch * tokens_per_sequence
    index = bisect_left(sizes, tokens)
    return batch if index == len(sizes) else -(-sizes[index] // tokens_per_sequence)
