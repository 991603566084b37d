"""Memory that steps need beside weights and cache: estimates by engine, in bytes, for one card.

Published start logs scatter by half around these; they matter where the pool is small.
"""

from __future__ import annotations

from widelane.facts.model import ModelFacts

_MIB, _GIB = 2**20, 2**30
CONTEXT_BYTES = _GIB // 2
"""Driver context and libraries on one card (0.35 to 0.6 GiB in published logs)."""
FIT_MARGIN_BYTES = _GIB
"""What llama.cpp's `--fit` leaves free on each card (`--fit-target`, 1024 MiB)."""
SYSTEM_BYTES = 4 * _GIB
"""Kept for the system and other programs where the model shares their memory (assumed)."""
_HIDDEN_COPIES = 16
"""Vectors of the hidden size, in 16 bits, alive at the peak of a layer: projections, gate and up, norms (assumed)."""
_LOGIT_COPIES = 3
"""Copies of the logits, in 32 bits, alive while a step samples (assumed)."""
_FALLBACK_HIDDEN, _FALLBACK_VOCAB = 4096, 128_000
"""Where a file does not tell the sizes."""
_LARGE_CARD_BYTES = 60 * _GIB
_SGLANG_CARDS = ((20, 2048, 8), (35, 2048, 24), (60, 4096, 32), (160, 8192, 256))
"""(card below GiB, prompt tokens a step, largest batch in a graph) of SGLang's defaults."""
_SGLANG_LARGEST = (16_384, 512)


def step_peak_bytes(facts: ModelFacts, *, tokens: int, sequences: int) -> int:
    """Peak memory of one vLLM step that reads `tokens` prompt tokens and samples `sequences` requests."""
    hidden, vocab = facts.hidden_size or _FALLBACK_HIDDEN, facts.vocab_size or _FALLBACK_VOCAB
    return tokens * hidden * 2 * _HIDDEN_COPIES + sequences * vocab * 4 * _LOGIT_COPIES


def graph_bytes(facts: ModelFacts) -> int:
    """Memory of vLLM's CUDA graphs: 8 MiB a layer over all captured sizes (0.2 to 0.8 GiB in published logs)."""
    return facts.n_layers * 8 * _MIB


def llama_cpp_buffer_bytes(facts: ModelFacts, *, micro_batch: int, slots: int) -> int:
    """llama.cpp's compute buffers: activations of a micro batch in 32 bits and the logits of its outputs."""
    hidden, vocab = facts.hidden_size or _FALLBACK_HIDDEN, facts.vocab_size or _FALLBACK_VOCAB
    return micro_batch * (hidden * 16 + vocab) * 4 + slots * vocab * 4


def sglang_reserved_bytes(card_bytes: float, cards: int, *, drafting: bool) -> int:
    """What SGLang's rule leaves beside its static share on one card (`_handle_gpu_memory_settings`)."""
    chunk, batch = next(
        ((chunk, batch) for limit, chunk, batch in _SGLANG_CARDS if card_bytes < limit * _GIB), _SGLANG_LARGEST
    )
    reserved = 512 + max(chunk, 2048) * 1.5 + batch * 2 + cards / 8 * 1024
    if card_bytes > _LARGE_CARD_BYTES:
        reserved = max(reserved, 10 * 1024)
    if drafting:
        reserved += 2 * 1024
    return int(reserved * _MIB)
