"""The request of a call of which only the sizes are known: a prompt of so many tokens, an answer of exactly so many."""

from __future__ import annotations

import random

from widelane.records import ChatRequest

_WORDS = (
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by", "on", "not", "he",
    "but", "at", "are", "this", "have", "from", "or", "had", "an", "they", "which", "one", "you", "were", "all",
    "her", "she", "there", "would", "their", "we", "him", "been", "has", "when", "who", "will", "no", "more", "if",
    "out", "so",
)  # fmt: skip
"""Words that are one token each, with the space before them, in every large vocabulary, and in the simulator."""
_OWN_WORDS = 32
"""Words that tell one prompt from another; what follows need not differ."""


def call_request(key: str, prompt_tokens: int, output_tokens: int) -> ChatRequest:
    """A request that no other key shares the beginning of, so that no prefix cache makes it cheaper than it is.

    The length of the answer is forced (`ignore_eos`, as llama.cpp and vLLM take it), for a server that answers in
    earnest. What a chat template adds to the prompt comes on top.
    """
    return ChatRequest(
        messages=({"role": "user", "content": filler_prompt(key, prompt_tokens)},),
        max_tokens=output_tokens,
        extra={"ignore_eos": True},
        prompt_tokens_estimate=prompt_tokens,
        raw=True,
    )


def filler_prompt(key: str, tokens: int) -> str:
    """`tokens` words of a token each, the first of them drawn from the key."""
    rng = random.Random(key)
    own = rng.choices(_WORDS, k=min(tokens, _OWN_WORDS))
    return " ".join(own + ["and"] * (tokens - len(own)))
