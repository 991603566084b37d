"""Batches for which vLLM captures CUDA graphs when it is not told.

    largest = min(--max-num-batched-tokens, 2 * --max-num-seqs * (1 + drafted tokens), 512)
    sizes   = 1, 2, 4, then every 8 below 256, then every 16

Source: vllm/config/vllm.py, `_set_cudagraph_sizes`; `--max-cudagraph-capture-size` replaces the largest. Sizes are
tokens; with drafts only whole sequences count, so each is rounded up to a multiple of the tokens of one.
"""

from __future__ import annotations

LARGEST = 512


def vllm_graph_sizes(
    slots: int, step_tokens: int, *, draft_depth: int = 0, largest: int | None = None
) -> tuple[int, ...]:
    """The captured sizes in tokens, rising.

    Args:
        slots: `--max-num-seqs`.
        step_tokens: `--max-num-batched-tokens`.
        draft_depth: drafted tokens a step.
        largest: `--max-cudagraph-capture-size`, None when it is not set.
    """
    each = 1 + draft_depth
    most = min(step_tokens, min(2 * slots * each, LARGEST) if largest is None else largest)
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, most + 1, 16)]
    whole = {-(-size // each) * each for size in sizes if size <= most}
    return tuple(sorted(size for size in whole if size <= most))
