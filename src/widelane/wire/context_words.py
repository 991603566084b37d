"""Context overflow in the words of each server, and the numbers in them."""

from __future__ import annotations

import re
from typing import NamedTuple

from widelane.wire.error_body import ErrorBody

KINDS = frozenset({"exceed_context_size_error", "context_length_exceeded", "contextwindowexceedederror"})
"""`type` or `code` that says it outright (llama.cpp; OpenAI's own; LiteLLM)."""

_N = r"(?P<{}>\d+)"
_PROMPT, _CTX = _N.format("prompt"), _N.format("ctx")
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # vLLM and all who copied OpenAI's sentence, llama-cpp-python among them
        rf"maximum context length is {_CTX} tokens.{{0,80}}?requested \d+ tokens \({_PROMPT} in the messages",
        rf"maximum context length is {_CTX} tokens.{{0,80}}?\({_PROMPT} in your prompt",
        rf"maximum context length is {_CTX} tokens.{{0,80}}?messages resulted in {_PROMPT} tokens",
        rf"maximum context length is {_CTX} tokens.{{0,80}}?(?:has|contains at least|contains) {_PROMPT} input tokens",
        rf"passed {_PROMPT} input tokens.{{0,200}}?context length is only {_CTX} tokens",
        # SGLang
        rf"maximum context length of {_CTX} tokens.{{0,80}}?: {_PROMPT} tokens from the input",
        rf"input \({_PROMPT} tokens\) is longer than the model's context length \({_CTX} tokens\)",
        rf"input length \({_PROMPT} tokens\) exceeds the maximum allowed length \({_CTX} tokens\)",
        # vLLM
        rf"prompt \((?:total )?length {_PROMPT}\) is .{{0,24}}? the maximum model length of {_CTX}",
        rf"maximum context length is {_CTX} tokens",
        rf"cannot be greater than max_model_len(?:=|\s*\(?\s*){_CTX}",
        # llama.cpp
        rf"request \({_PROMPT} tokens\) exceeds the available context size \({_CTX} tokens\)",
        rf"exceeds? the available context size(?: \({_CTX} tokens\))?",
        # LM Studio
        rf"keep the first {_PROMPT} tokens when context the overflows.{{0,120}}?context length of only {_CTX}",
        rf"reached context length of {_CTX}",
        r"number of tokens to keep from the initial prompt is greater than the context length",
        # llama-cpp-python, Ollama
        rf"requested tokens \({_PROMPT}\) exceed context window of {_CTX}",
        r"input length exceeds (?:the )?(?:maximum )?context length",
        rf"exceeded max context length(?: by {_N.format('over')} tokens?)?",
        # TGI, TensorRT-LLM, TabbyAPI, Anthropic-like gateways
        rf"`inputs` tokens \+ `max_new_tokens` must be <= {_CTX}\. Given: {_PROMPT}",
        rf"`inputs` must have less than {_CTX} tokens\. Given: {_PROMPT}",
        rf"prompt length \({_PROMPT}\) exceeds max(?:imum)? input length \({_CTX}\)",
        rf"(?:prompt|context) length {_PROMPT} is greater than max_seq_len {_CTX}",
        rf"prompt is too long: {_PROMPT} tokens > {_CTX} maximum",
        # anybody
        r"context (?:length|window|size)(?: was| has been| is)? exceed",
        r"exceed\w* (?:the )?(?:model'?s? )?(?:maximum )?(?:context (?:length|window|size)|sequence length)",
    )
)
_POOL = re.compile(r"context size has been exceeded", re.IGNORECASE)


class Overflow(NamedTuple):
    """Token counts of an overflow, None where the server did not say.

    Attributes:
        pool: llama.cpp's shared pool ran full, which is nobody's prompt alone.
    """

    n_prompt: int | None
    n_ctx: int | None
    pool: bool = False


def read_overflow(status: int, error: ErrorBody) -> Overflow | None:
    """The overflow that an error is about; None when it is about something else."""
    if _POOL.search(error.message) and status >= 500 and error.n_ctx is None:
        return Overflow(None, None, pool=True)
    for pattern in _PATTERNS:
        found = pattern.search(error.message)
        if found:
            numbers = {name: int(text) for name, text in found.groupdict().items() if text}
            n_prompt = error.n_prompt if error.n_prompt is not None else numbers.get("prompt")
            n_ctx = error.n_ctx if error.n_ctx is not None else numbers.get("ctx")
            return Overflow(n_prompt, n_ctx)
    if error.kind in KINDS:
        return Overflow(error.n_prompt, error.n_ctx)
    return None
