"""The chat template of the simulated model: ChatML with the tools and thoughts of its family, as Qwen's are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from widelane.facts.model_family import form_of_family, thinks_by_name
from widelane.records import Message
from widelane.sim.answers.request_text import message_text
from widelane.sim.tokens import pieces_of

SEGMENT_TOKENS = 32
"""Prompts are compared in pieces of this size: a shared beginning is found up to the last whole one."""
_XML_FORM = (
    "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
    "</function>\n</tool_call>"
)
_JSON_FORM = '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """How messages become a prompt.

    Attributes:
        thinks: the template ends in an opened thought unless thinking is switched off, as Qwen3.5's does.
        xml_calls: tool calls are written as `<function=…>`, else as JSON in `<tool_call>`.
        switchable: `enable_thinking: false` closes the thought.
        knows_tools: tools stand in the prompt; else they are dropped without a word.
    """

    thinks: bool
    xml_calls: bool
    switchable: bool = True
    knows_tools: bool = True

    @property
    def source(self) -> str:
        """What `/props` shows: enough of Jinja for a reader to see what the template can do."""
        tools = "{%- if tools %}# Tools\n" + (_XML_FORM if self.xml_calls else _JSON_FORM) + "{%- endif %}"
        thought = "{%- if enable_thinking is not false %}<think>\n{%- endif %}" if self.thinks else ""
        messages = "{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
        return f"{tools if self.knows_tools else ''}{messages}{{%- endfor %}}<|im_start|>assistant\n{thought}"

    def opens_thought(self, fields: Mapping[str, Any]) -> bool:
        """Whether the prompt of a request with these body fields ends inside a thought."""
        stated = fields.get("chat_template_kwargs")
        off = isinstance(stated, Mapping) and stated.get("enable_thinking") is False
        return self.thinks and not (off and self.switchable)

    def parts(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]
    ) -> list[tuple[str, bool]]:
        """(text, whether a model wrote it) of the prompt in order; joined they are the prompt."""
        parts: list[tuple[str, bool]] = []
        if tools and self.knows_tools:
            listed = "\n".join(msgspec.json.encode(tool).decode() for tool in tools)
            form = _XML_FORM if self.xml_calls else _JSON_FORM
            parts.append((f"<|im_start|>system\n# Tools\n<tools>\n{listed}\n</tools>\n{form}<|im_end|>\n", False))
        for message in messages:
            parts += self._message(message)
        opening = "<|im_start|>assistant\n"
        if self.thinks:
            opening += "<think>\n" if self.opens_thought(fields) else "<think>\n\n</think>\n\n"
        return [*parts, (opening, False)]

    def _message(self, message: Message) -> list[tuple[str, bool]]:
        role = str(message.get("role", "user"))
        content = message_text(message)
        if role != "assistant":
            return [(f"<|im_start|>{role}\n{content}<|im_end|>\n", False)]
        calls = message.get("tool_calls")
        said = content + (msgspec.json.encode(calls).decode() if calls else "")
        return [("<|im_start|>assistant\n", False), (said, True), ("<|im_end|>\n", False)]


def template_of(model: str) -> ChatTemplate:
    """The template that models of this name have."""
    return ChatTemplate(thinks=thinks_by_name(model), xml_calls=form_of_family(model) == "function-xml")


def segments(text: str) -> list[tuple[str, int]]:
    """The text in pieces of `SEGMENT_TOKENS` tokens, each its own key for the prefix cache."""
    pieces = pieces_of(text)
    cut = [pieces[at : at + SEGMENT_TOKENS] for at in range(0, len(pieces), SEGMENT_TOKENS)]
    return [("".join(part), len(part)) for part in cut]
