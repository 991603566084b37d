"""Which tool-call and reasoning parser a server needs for a model: by its chat template, else by its name.

A parser that is missing or wrong breaks a server silently: the call stays in the text, or the thinking is shown as the
answer, or the answer is taken for thinking. So a parser is chosen only on a sign, and the sign is told.
"""

from __future__ import annotations

from typing import NamedTuple

from widelane.facts.model import ModelFacts
from widelane.facts.model_family import (
    Parsers,
    form_of_family,
    reasoning_parsers,
    thinks,
    thinks_by_name,
    tool_form,
    tool_parsers,
)
from widelane.plan.launch.changes import CODER_PARSER, GEMMA4_PARSER, GLM47_PARSER, XML_PARSER
from widelane.plan.launch.choice import LaunchChoice


class Parser(NamedTuple):
    """A parser and why; `name` None where none is set."""

    name: str | None
    reason: str


_NEEDS = {"qwen3_xml": XML_PARSER, "qwen3_coder": CODER_PARSER, "glm47": GLM47_PARSER, "gemma4": GEMMA4_PARSER}
"""vLLM's parsers that not every version has."""
_OLDER = {"qwen3_xml": "qwen3_coder", "glm47": "glm45"}
"""What older versions of vLLM have instead."""
NOBODY = "none"


def tool_parser(facts: ModelFacts, choice: LaunchChoice) -> Parser:
    """The tool-call parser for this model on this engine and version."""
    if choice.tool_parser is not None:
        return _stated(choice.tool_parser)
    template = facts.chat_template
    form = tool_form(template) if template else form_of_family(_names(facts))
    if template and form is None:
        return Parser(None, "The chat template has no form of tool calls that is known here; tools would be refused.")
    if form is None:
        return Parser(None, "Neither a chat template nor the model's name tells the form of its tool calls.")
    parsers = _newer_glm(tool_parsers(form), facts, form)
    name = _for_engine(parsers, choice)
    if name is None:
        return Parser(None, f"{choice.engine} of this version has no parser for the form {form}.")
    sign = f"the chat template writes calls in the form {form}" if template else f"by the model's name, form {form}"
    return Parser(
        name,
        f"{sign[0].upper()}{sign[1:]}. Without a parser tools are refused; with a wrong one calls stay in the text.",
    )


def reasoning_parser(facts: ModelFacts, choice: LaunchChoice) -> Parser:
    """The reasoning parser for this model on this engine and version, none for a model that does not think."""
    if choice.reasoning_parser is not None:
        return _stated(choice.reasoning_parser)
    template, names = facts.chat_template, _names(facts)
    by_template = template is not None and (thinks(template) or "<|channel|>" in template)
    if not (by_template if template is not None else thinks_by_name(names)):
        return Parser(
            None,
            "This model does not think: a reasoning parser would wait for the end of a thinking that never begins, "
            "and leave the answer empty.",
        )
    name = _for_engine(reasoning_parsers(names), choice)
    if name is None:
        return Parser(
            None, f"The model thinks, and no reasoning parser of {choice.engine} is known for it: look it up there."
        )
    sign = "The chat template thinks" if by_template else "Models of this name think"
    return Parser(
        name, f"{sign}: without it the thinking (`</think>`) is shown as part of the answer, which looks like bad text."
    )


def older_tool_parser(parser: str | None, version: str | None) -> str | None:
    """The parser of vLLM that stands for `parser` in this version, None where there is none."""
    while parser is not None and (needed := _NEEDS.get(parser)) and not needed.is_in(version):
        parser = _OLDER.get(parser)
    return parser


def _for_engine(parsers: Parsers, choice: LaunchChoice) -> str | None:
    return older_tool_parser(parsers.vllm, choice.version) if choice.engine == "vllm" else parsers.sglang


def _newer_glm(parsers: Parsers, facts: ModelFacts, form: str) -> Parsers:
    """GLM 4.7 and 5 write the same tags as 4.5 with other line breaks."""
    newer = any(part in _names(facts) for part in ("glm-4.7", "glm-5", "glm4_moe_lite"))
    return Parsers("glm47", "glm47") if form == "glm" and newer else parsers


def _stated(name: str) -> Parser:
    if name.lower() == NOBODY:
        return Parser(None, "You asked for none.")
    return Parser(name, "The one that you named.")


def _names(facts: ModelFacts) -> str:
    return " ".join((facts.name, facts.architecture, *facts.made_for)).lower()
