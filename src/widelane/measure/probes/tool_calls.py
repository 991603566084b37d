"""Do tool calls arrive as tool calls, or as text?

Where the server lets a text be forced beside tools, the model's own form of a call is forced and must come back as
`tool_calls`. Elsewhere (llama.cpp refuses a grammar beside tools) the model is asked for a call; prose proves nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import msgspec

from widelane.engines.advice import fix_for
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Finding, Severity
from widelane.measure.findings import build
from widelane.measure.probes.answer import Answer
from widelane.measure.probes.probe import ProbeContext
from widelane.measure.probes.rendering import rendered_prompt

CODE = "tool-calls-in-text"
QUESTION = "What is the weather in Paris? Call the tool."
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
QWEN_XML = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"
RAW_CALL = re.compile(
    r"<tool_call>|<function=|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call|<\|channel\|>commentary|<｜tool▁call"
)
"""How the usual models write a call when nobody reads it."""


class ToolCalls:
    """Tool calls left in the text, refused, or never shown to the model."""

    name = "tool-calls"
    codes = (CODE,)
    seconds = 25.0

    def applies(self, context: ProbeContext) -> str | None:
        return None

    async def run(self, context: ProbeContext) -> list[Finding]:
        off = dict(context.engine.thinking_off())
        form = form_of(await rendered_prompt(context, QUESTION, tools=[TOOL]))
        forced = context.engine.forced_text(form) if form else None
        if forced is not None:
            whole = await context.chat(QUESTION, max_tokens=96, tools=[TOOL], **off, **forced)
            if not grammar_beside_tools_refused(whole):
                streamed = await context.chat(QUESTION, max_tokens=96, tools=[TOOL], stream=True, **off, **forced)
                return [judge_both(whole, streamed, context.facts)]
        bare = await context.chat(QUESTION, max_tokens=1, **off)
        answer = await context.chat(QUESTION, max_tokens=48, tools=[TOOL], **off)
        return [judge_asked(answer, bare, context.facts, needs_tools=context.use == "agents")]


def form_of(prompt: str | None) -> str | None:
    """A call as the model itself would write it, from the prompt that shows it its tools; None when that is unknown."""
    if prompt is None or "get_weather" not in prompt:
        return None
    if "<function=" in prompt:
        return QWEN_XML
    return HERMES if "<tool_call>" in prompt and "arguments" in prompt else None


def grammar_beside_tools_refused(answer: Answer) -> bool:
    """True when the server does not force a text in a request with tools."""
    return answer.refused and "grammar" in (answer.error or "").lower()


def judge_both(whole: Answer, streamed: Answer, facts: ServerFacts) -> Finding:
    """The worse of the findings from one forced call asked for as one body and as a stream: parsers differ there."""
    first, second = judge_forced(whole, facts), judge_forced(streamed, facts)
    order = (*build.RANK[:3], Severity.NOT_CHECKED, Severity.OK)
    worst = min(first, second, key=lambda finding: order.index(finding.severity))
    if first.severity is second.severity or not build.is_problem(worst):
        return worst
    where = "Only in a whole reply" if worst is first else "Only in a stream"
    return replace(worst, evidence=f"{where}: {worst.evidence}")


def judge_forced(answer: Answer, facts: ServerFacts) -> Finding:
    """The finding from a forced call in the model's own form."""
    clear = _call_or_failure(answer, facts)
    if clear is not None:
        return clear
    if answer.reasoning and not answer.content:
        return build.not_checked(CODE, "the parser takes everything for thinking (see reasoning-swallowed)")
    if not answer.text and answer.finish is not None:
        written = f"{answer.completion_tokens} tokens were written" if answer.completion_tokens else "Nothing came"
        said = f"{written}, finish_reason {answer.finish!r}, and neither text nor a call arrived."
        return build.error(
            CODE, "Tool calls vanish: the parser holds back what it cannot read.", said, fix_for(CODE, facts)
        )
    return build.not_checked(CODE, f"the server did not write the forced call but {answer.text[:60]!r}")


def judge_asked(answer: Answer, bare: Answer, facts: ServerFacts, *, needs_tools: bool) -> Finding:
    """The weaker finding from a model that was asked to call.

    Args:
        bare: the same question without tools, for its prompt tokens.
        needs_tools: the declared use lives by tools, so that a template without any is a fault.
    """
    clear = _call_or_failure(answer, facts)
    if clear is not None:
        return clear
    if answer.prompt_tokens is not None and answer.prompt_tokens == bare.prompt_tokens:
        if not needs_tools:
            return build.not_checked(CODE, "the template has no tools: they are dropped without a word")
        return build.error(
            CODE,
            "Tools are dropped without a word: the chat template has none.",
            f"The prompt has {bare.prompt_tokens} tokens with tools and without.",
            fix_for("template-wrong", facts),
        )
    return build.not_checked(CODE, "the model answered in prose, and this server does not force a call")


def _call_or_failure(answer: Answer, facts: ServerFacts) -> Finding | None:
    """The finding where the reply leaves no doubt; None for prose."""
    if answer.error is not None and answer.refused and "tool" in answer.error.lower():
        return build.error(CODE, "Tools are refused: no tool parser is set.", answer.error, fix_for(CODE, facts))
    if answer.error is not None and answer.status >= 500:
        said = f"With tools in the request: HTTP {answer.status}, {answer.error}"
        return build.warning(CODE, "The server fails on what the model writes.", said)
    if answer.error is not None:
        return build.not_checked(CODE, f"the request failed: {answer.error}")
    raw = RAW_CALL.search(answer.text)
    if raw is not None:
        said = f"{raw.group()!r} stands in the {'text' if raw.group() in answer.content else 'thinking'}, and "
        said += f"{len(answer.tool_calls)} tool calls were returned."
        return build.error(CODE, "Tool calls are left in the text.", said, fix_for(CODE, facts, text=answer.text))
    if answer.finish == "tool_calls" and not answer.tool_calls:
        return build.error(
            CODE, "The server announces tool calls and returns none.", 'finish_reason "tool_calls", no call.'
        )
    if answer.tool_calls:
        return _judge_arguments(answer)
    return None


def _judge_arguments(answer: Answer) -> Finding:
    name, arguments = answer.tool_calls[0]
    try:
        decoded = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        decoded = None
    if not name or not isinstance(decoded, dict):
        said = f"name {name!r}, arguments {arguments[:60]!r}."
        return build.error(CODE, "Tool calls arrive broken: the arguments are no JSON object.", said)
    return build.healthy(CODE, "Tool calls arrive as tool calls (probed).", f"{name}({arguments[:60]}).")
