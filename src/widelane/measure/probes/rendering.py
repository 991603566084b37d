"""The prompt as the chat template makes it, where a server shows it: does it hold the tools, does it open a thought?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from widelane.measure.probes.probe import ProbeContext

OPENING, CLOSING = "<think>", "</think>"


async def rendered_prompt(
    context: ProbeContext,
    content: str,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    fields: Mapping[str, Any] | None = None,
) -> str | None:
    """The rendered prompt; None where the server does not show it.

    llama.cpp has `/apply-template`; vLLM tokenises messages and turns the tokens back into text.

    Raises:
        CallError: no reply came.
    """
    body: dict[str, Any] = {"messages": [{"role": "user", "content": content}], **(fields or {})}
    if tools:
        body["tools"] = list(tools)
    if context.facts.engine == "llama.cpp":
        reply = await context.backend.fetch("POST", "/apply-template", body)
        return _string(reply.json(), "prompt")
    if context.facts.engine == "vllm":
        reply = await context.backend.fetch("POST", "/tokenize", {"model": context.model, **body})
        tokens = _member(reply.json(), "tokens")
        if not isinstance(tokens, list):
            return None
        reply = await context.backend.fetch("POST", "/detokenize", {"model": context.model, "tokens": tokens})
        return _string(reply.json(), "prompt")
    return None


async def template_source(context: ProbeContext) -> str | None:
    """The chat template's own text; None where the server does not show it.

    Raises:
        CallError: no reply came.
    """
    if context.facts.engine == "llama.cpp":
        return _string((await context.backend.fetch("GET", "/props")).json(), "chat_template")
    if context.facts.engine == "ollama":
        reply = await context.backend.fetch("POST", "/api/show", {"model": context.model})
        return _string(reply.json(), "template")
    return None


def opens_thought(prompt: str | None) -> bool:
    """True when the prompt ends inside a thought: the template itself wrote the opening tag."""
    return prompt is not None and prompt.rstrip().endswith(OPENING)


def thinks(source: str | None, prompt: str | None) -> bool | None:
    """Whether the template is one of a thinking model; None when nothing of it can be seen."""
    if opens_thought(prompt):
        return True
    return None if source is None else any(tag in source for tag in (OPENING, CLOSING, "reasoning_content"))


def _member(body: Any, name: str) -> Any:
    return body.get(name) if isinstance(body, dict) else None


def _string(body: Any, name: str) -> str | None:
    value = _member(body, name)
    return value if isinstance(value, str) and value else None
