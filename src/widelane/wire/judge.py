"""Is a whole reply a usable answer? Status 200 does not say so."""

from __future__ import annotations

import re
from collections.abc import Mapping

from widelane.errors import BudgetSpentOnReasoning, CallError, EmptyAnswer, PromptTruncated, ServerFailed
from widelane.records import ChatRequest, Reply, UsageOrigin
from widelane.wire.choice import content_text

_CHARS_PER_TOKEN_AT_MOST = 8
"""No tokenizer packs more characters of prose into a token on average; below it, part of the prompt is missing."""
_MIN_PROMPT_TOKENS = 256
"""A server that counts only the uncached rest of a prompt says less than this; a window cut off is larger."""
_LONG_PROMPT_TOKENS = 2048
"""From here on a silent overflow is the likely reason of an empty answer: the smallest default windows."""
_A_FEW_TOKENS = 4
"""An end-of-turn token and its like; more than these were text once."""
_FAILED_FINISHES = frozenset({"error", "abort", "aborted", "cancelled"})


def judge(request: ChatRequest, reply: Reply) -> CallError | None:
    """What is wrong with the reply as an answer to the request; None when nothing is."""
    if reply.finish in _FAILED_FINISHES:
        return ServerFailed(f"The server ended the answer itself (finish reason `{reply.finish}`).", partial=reply)
    cut = _cut_prompt(request, reply)
    if cut is not None:
        return cut
    if any(text.strip() for text in (reply.text, *reply.choices)) or reply.tool_calls or reply.tool_error:
        return None
    if reply.reasoning.strip() and ran_out(request, reply):
        return BudgetSpentOnReasoning(
            f"The token limit was reached inside the reasoning ({len(reply.reasoning)} characters of it); "
            "there is no answer.",
            partial=reply,
            hint="Raise max_tokens, or lower or switch off thinking.",
        )
    return EmptyAnswer("The reply has no text and no tool call.", partial=reply, hint=_why_empty(reply))


def ran_out(request: ChatRequest, reply: Reply) -> bool:
    """True when the token limit ended the reply, also where the finish reason is unknown."""
    if reply.finish == "length":
        return True
    if reply.finish != "unknown" or request.max_tokens is None or reply.usage is None:
        return False
    return reply.usage.completion_tokens >= request.max_tokens


def prompt_chars(request: ChatRequest) -> int:
    """Characters of the prompt as text, runs of white space counted once (a token may hold a whole run)."""
    texts = [request.prompt or ""]
    for message in request.messages:
        if isinstance(message, Mapping):
            texts.extend(content_text(message.get("content")))
    return sum(len(re.sub(r"\s+", " ", text)) for text in texts)


def _cut_prompt(request: ChatRequest, reply: Reply) -> PromptTruncated | None:
    usage = reply.usage
    if usage is None or usage.origin is not UsageOrigin.READ or usage.prompt_tokens is None:
        return None
    counted = max(usage.prompt_tokens, usage.cached_tokens or 0)
    if counted < _MIN_PROMPT_TOKENS:
        return None
    chars = prompt_chars(request)
    if counted * _CHARS_PER_TOKEN_AT_MOST >= chars:
        return None
    return PromptTruncated(
        f"The server counted {counted} prompt tokens for a prompt of {chars} characters: it cut the prompt to its "
        "window and answered the rest.",
        partial=reply,
        hint="Give the server a larger context (Ollama: OLLAMA_CONTEXT_LENGTH; on /v1 it ignores num_ctx).",
    )


def _why_empty(reply: Reply) -> str:
    usage = reply.usage
    if reply.reasoning.strip():
        return (
            "Everything came as reasoning: the server's reasoning parser does not fit the model, or thinking should be "
            "switched off for this request."
        )
    if usage is not None and usage.prompt_tokens is not None and usage.prompt_tokens >= _LONG_PROMPT_TOKENS:
        return f"The prompt has {usage.prompt_tokens} tokens: it is probably near or over the server's context."
    if usage is not None and usage.completion_tokens > _A_FEW_TOKENS and usage.origin is UsageOrigin.READ:
        return f"The server counted {usage.completion_tokens} output tokens and sent none: a parser may swallow them."
    return "The model ended its turn at once: check the chat template and the stop strings."
