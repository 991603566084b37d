"""Calls left in the text are found in the forms of the model families, and nowhere else."""

# ruff: noqa: E501 - the sentences of servers and models are not broken
from __future__ import annotations

from typing import Any

import pytest

from widelane.wire.tool_recovery import recover_tool_calls


def tool(name: str, **kinds: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


TOOLS = [tool("read", path="string"), tool("move", x="number", fast="boolean", tags="array", note="string")]
READ_A = [("read", {"path": "a"})]


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>',
        '<tool_call>{"name": "read", "arguments": "{\\"path\\": \\"a\\"}"}</tool_call>',
        '<tool_call>{"name": "read", "arguments": {"path": "a"}}',
        '<tools>{"name": "read", "arguments": {"path": "a"}}</tools>',
        "<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
        "<function=read>\n<parameter=path>\na\n</parameter>\n</function>",
        "<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_",
        '<function=read>{"path": "a"}</function>',
        '<|python_tag|>{"name": "read", "parameters": {"path": "a"}}<|eom_id|>',
        '{"name": "read", "parameters": {"path": "a"}}',
        '{"type": "function", "name": "read", "parameters": {"path": "a"}}',
        '{"type": "function", "function": {"name": "read", "arguments": {"path": "a"}}}',
        '```json\n{"name": "read", "arguments": {"path": "a"}}\n```',
        '[TOOL_CALLS] [{"name": "read", "arguments": {"path": "a"}}]',
        '[TOOL_CALLS]read[ARGS]{"path": "a"}',
        '[TOOL_CALLS]read{"path": "a"}',
        'functools[{"name": "read", "arguments": {"path": "a"}}]',
        '<|tool_call|>[{"name": "read", "arguments": {"path": "a"}}]',
        '<|channel|>commentary to=functions.read <|constrain|>json<|message|>{"path": "a"}<|call|>',
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
        '{"path": "a"}<|tool_call_end|><|tool_calls_section_end|>',
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n```json\n"
        '{"path": "a"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{"path": "a"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        '<minimax:tool_call>\n<invoke name="read">\n<parameter name="path">a</parameter>\n</invoke>\n</minimax:tool_call>',
        "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
    ],
)
def test_a_call_in_any_form_is_recovered_and_taken_out(text: str) -> None:
    assert recover_tool_calls(text, TOOLS) == ("", READ_A, None)
    before = recover_tool_calls("I will read it.\n" + text, TOOLS)
    if not text.startswith(("{", "```")):  # these two are calls only when they are the whole answer
        assert before == ("I will read it.", READ_A, None)


def test_several_calls_are_recovered_in_order() -> None:
    one, two = (f'{{"name": "read", "arguments": {{"path": "{path}"}}}}' for path in "ab")
    both = [("read", {"path": "a"}), ("read", {"path": "b"})]
    assert recover_tool_calls(f"<tool_call>{one}</tool_call>\n<tool_call>{two}</tool_call>", TOOLS).calls == both
    assert recover_tool_calls(f"<tool_call>{one}\n{two}</tool_call>", TOOLS).calls == both
    assert recover_tool_calls(f"[TOOL_CALLS][{one}, {two}]", TOOLS).calls == both


def test_parameters_between_tags_get_the_types_of_their_schema() -> None:
    text = (
        "<function=move><parameter=x>\n1.5\n</parameter><parameter=fast>\nTrue\n</parameter>"
        '<parameter=tags>\n["a", "b"]\n</parameter><parameter=note>\n  12\n\n</parameter></function>'
    )
    assert recover_tool_calls(text, TOOLS).calls == [
        ("move", {"x": 1.5, "fast": True, "tags": ["a", "b"], "note": "  12\n"})
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Nothing to call here.",
        '<tool_call>{"name": "erase_disk", "arguments": {}}</tool_call>',
        "<function=erase_disk></function>",
        '{"name": "read"}',
        '{"name": "read", "pages": 3}',
        'For example:\n```\n<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>\n```',
        'Write `<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>` to call it.',
        'Here is one: {"name": "read", "arguments": {"path": "a"}}',
    ],
)
def test_what_is_no_call_stays_text(text: str) -> None:
    assert recover_tool_calls(text, TOOLS) == (text, [], None)


def test_without_tools_nothing_is_recovered() -> None:
    text = '<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>'
    assert recover_tool_calls(text, []) == (text, [], None)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "read", "arguments": {"path": "a',
        "<tool_call>\n<function=read>\n<parameter=path>\nsrc/",
        '<tool_call>{"name": "read", "arguments": "{\\"path\\": "}</tool_call>',
        '[TOOL_CALLS]read[ARGS]{"path": ',
    ],
)
def test_a_call_that_is_cut_off_is_not_run(text: str) -> None:
    assert recover_tool_calls(text, TOOLS)[1:] == ([], "arguments are not complete JSON")
