"""One choice of a reply while it is being assembled: text, reasoning, tool calls, finish reason, logprobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from widelane.records import ToolCall
from widelane.wire.json_text import mend_surrogates
from widelane.wire.reasoning import split_reasoning
from widelane.wire.special_tokens import cut_special_tokens
from widelane.wire.tool_calls import ToolCallAssembler
from widelane.wire.tool_recovery import recover_tool_calls

_FINISH_WORDS = {
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "complete": "stop",
    "completed": "stop",
    "max_tokens": "length",
    "max_length": "length",
    "model_length": "length",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
}
"""Other servers' words for OpenAI's (TGI, Anthropic-like gateways, Mistral)."""


class ReadChoice(NamedTuple):
    """A finished choice, taken apart."""

    text: str
    reasoning: str
    tool_calls: list[ToolCall]
    tool_error: str | None
    warnings: list[str]
    finish: str | None
    logprobs: Any


class ChoiceAssembler:
    """Takes the deltas of one choice."""

    __slots__ = ("calls", "events", "finish", "logprobs", "reasoning", "recent", "text")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.calls = ToolCallAssembler()
        self.finish: str | None = None
        self.logprobs: Any = None
        self.events = 0
        self.recent: list[str] = []
        """Output not yet looked at for repetition, of whatever kind."""

    def read_delta(self, choice: dict[str, Any]) -> tuple[str, str, str, bool]:
        """(text, reasoning, tool argument text, was there a piece of a tool call) that a choice of a chunk brings."""
        delta = choice.get("delta")
        if type(delta) is not dict:
            return self._odd_delta(choice, delta)
        text, reasoning = content_text(delta.get("content"))
        reasoning = reasoning or reasoning_field(delta)
        fragments = delta.get("tool_calls")
        if not fragments and delta.get("function_call"):
            fragments = {"index": 0, "function": delta["function_call"]}
        if not fragments:
            return text, reasoning, "", False
        return text, reasoning, self.calls.feed(fragments), True

    def feed_whole(self, choice: Mapping[str, Any]) -> None:
        """Takes a choice of an unstreamed reply."""
        message = choice.get("message")
        if isinstance(message, Mapping):
            text, reasoning = content_text(message.get("content"))
            self.text.append(text)
            self.reasoning.append(reasoning or reasoning_field(message))
            self.calls.feed_whole(message.get("tool_calls"))
            if not self.calls and isinstance(message.get("function_call"), Mapping):
                self.calls.feed_whole([{"function": message["function_call"]}])
        else:
            self.text.append(content_text(choice.get("text"))[0])
        self.feed_logprobs(choice.get("logprobs"))
        self.finish = finish_word(choice.get("finish_reason"))

    def feed_logprobs(self, logprobs: Any) -> None:
        """Joins what came to what is there: lists are continued, under whatever keys."""
        if not isinstance(logprobs, Mapping):
            return
        if self.logprobs is None:
            self.logprobs = {}
        for key, value in logprobs.items():
            if isinstance(value, list):
                known = self.logprobs.get(key)
                if isinstance(known, list):
                    known.extend(value)
                else:
                    self.logprobs[key] = list(value)
            else:
                self.logprobs.setdefault(key, value)

    def read(self, tools: Sequence[Mapping[str, Any]], seed: str) -> ReadChoice:
        """The choice taken apart: thought from answer, calls from text, control tokens away."""
        warnings: list[str] = []
        calls, tool_error = self.calls.result(seed)
        reasoning = mend_surrogates("".join(self.reasoning))
        split = split_reasoning(mend_surrogates("".join(self.text)), parsed=bool(reasoning.strip()))
        text = split.text
        if split.leaked:
            warnings.append("reasoning_in_content")
            reasoning = reasoning or split.reasoning
        if tools and not self.calls and not split.unfinished:
            recovered = recover_tool_calls(text, tools)
            if recovered.calls or recovered.error:
                text, tool_error = recovered.text, recovered.error
                again = ToolCallAssembler()
                again.feed_whole([{"name": name, "arguments": dict(values)} for name, values in recovered.calls])
                calls, _ = again.result(seed)
                if calls:
                    warnings.append("tool_call_recovered")
        text, leaked = cut_special_tokens(text)
        if leaked:
            warnings.append("special_token_leak")
        return ReadChoice(text, reasoning, calls, tool_error, warnings, self.finish, self.logprobs)

    def _odd_delta(self, choice: dict[str, Any], delta: Any) -> tuple[str, str, str, bool]:
        """Without a delta object: the text of /v1/completions, a bare string, or a whole message in a stream."""
        text = choice.get("text")
        if isinstance(text, str):
            return text, "", "", False
        if isinstance(delta, str):
            return delta, "", "", False
        message = choice.get("message")
        if isinstance(message, dict) and not self.events:
            return self.read_delta({"delta": message})
        return "", "", "", False


def finish_word(reason: Any) -> str | None:
    """The finish reason in OpenAI's words; None for null and empty ones."""
    if isinstance(reason, Mapping):  # SGLang's own form: {"type": "stop", "matched": …}
        reason = reason.get("type")
    if not isinstance(reason, str) or reason in ("", "null", "None"):
        return None
    word = reason.lower()
    return _FINISH_WORDS.get(word, word)


def content_text(content: Any) -> tuple[str, str]:
    """(text, reasoning) of a `content` that is a string, a list of parts, one part, or null."""
    if isinstance(content, str):
        return content, ""
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list):
        return "", ""
    text: list[str] = []
    reasoning: list[str] = []
    for part in content:
        if isinstance(part, str):
            text.append(part)
        elif isinstance(part, Mapping):
            thought = part.get("thinking", part.get("reasoning"))
            if thought is not None:  # Mistral's reasoning models: {"type": "thinking", "thinking": [{…}]}
                reasoning.append("".join(content_text(thought)))
            elif isinstance(part.get("text"), str):
                text.append(part["text"])
    return "".join(text), "".join(reasoning)


def reasoning_field(message: Mapping[str, Any]) -> str:
    """Reasoning under whichever name the server uses; where it sends two, they are the same text."""
    for name in ("reasoning_content", "reasoning", "thinking"):
        value = message.get(name)
        if isinstance(value, str) and value:
            return value
    return ""
