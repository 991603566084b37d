"""Tool calls from fragments, as real servers send them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widelane.wire.tool_calls import ToolCallAssembler


def fragment(index: int | None = 0, call_id: str | None = None, name: str | None = None, arguments: Any = None) -> Any:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = {"index": index, "id": call_id, "function": function}
    return {key: value for key, value in fields.items() if value is not None}


def assemble(*fragments: Any) -> tuple[list[tuple[str, Any]], str | None]:
    assembler = ToolCallAssembler()
    for one in fragments:
        assembler.feed([one])
    calls, error = assembler.result("seed")
    assert len({call.id for call in calls}) == len(calls)
    assert all(call.id for call in calls)
    return [(call.name, call.arguments) for call in calls], error


A, B = '{"path":"a"}', '{"path":"b"}'
ONE = [("read", {"path": "a"})]
BOTH = [("read", {"path": "a"}), ("read", {"path": "b"})]


@pytest.mark.parametrize(
    ("fragments", "calls"),
    [
        ([fragment(0, "a1", "read", A)], ONE),
        ([fragment(0, "a1", "read", ""), fragment(0, arguments='{"pa'), fragment(0, arguments='th":"a"}')], ONE),
        # LM Studio: an empty name and no id in the later fragments
        ([fragment(0, "a1", "read", ""), fragment(0, None, "", '{"path"'), fragment(0, None, "", ':"a"}')], ONE),
        # the name and the id once more in every fragment
        (
            [fragment(0, "a1", "read", ""), fragment(0, "a1", "read", '{"path"'), fragment(0, "a1", "read", ':"a"}')],
            ONE,
        ),
        # a fresh id in every fragment, as some vLLM versions made them
        ([fragment(0, "a1", "read", ""), fragment(0, "a2", None, '{"path"'), fragment(0, "a3", None, ':"a"}')], ONE),
        # Ollama: all parallel calls are number 0
        ([fragment(0, "a1", "read", A), fragment(0, "a2", "read", B)], BOTH),
        ([fragment(0, None, "read", A), fragment(0, None, "read", B)], BOTH),
        # two calls interleaved by index
        (
            [
                fragment(0, "a1", "read", '{"path":'),
                fragment(1, "a2", "read", '{"path":'),
                fragment(0, arguments='"a"}'),
                fragment(1, arguments='"b"}'),
            ],
            BOTH,
        ),
        # no index at all: by id, or by order
        ([fragment(None, "a1", "read", A), fragment(None, "a2", "read", B)], BOTH),
        ([fragment(None, "a1", "read", '{"path":'), fragment(None, "a1", None, '"a"}')], ONE),
        ([fragment(None, "a1", "read", '{"path":'), fragment(None, None, None, '"a"}')], ONE),
        ([fragment(None, None, "read", A), fragment(None, None, "read", B)], BOTH),
        # the same id for two calls: both are kept, one gets another id
        ([fragment(0, "x", "read", A), fragment(1, "x", "read", B)], BOTH),
        # arguments in other clothes
        ([fragment(0, "a1", "read", {"path": "a"})], ONE),
        ([fragment(0, "a1", "read", json.dumps(A))], ONE),
        ([fragment(0, "a1", "read", A), fragment(0, "a1", None, A)], ONE),
        ([fragment(0, "a1", "list", "")], [("list", {})]),
        ([fragment(0, "a1", "list")], [("list", {})]),
        ([fragment(0, "a1", "list", "null")], [("list", {})]),
        ([fragment(0, "a1", "list", " {} ")], [("list", {})]),
        ([{"index": 0, "id": "a1", "name": "read", "arguments": A}], ONE),
        # nonsense is passed over
        (["x", None, {"index": 0}, fragment(0, "a1", "read", A)], ONE),
    ],
)
def test_fragments_become_calls(fragments: list[Any], calls: list[tuple[str, Any]]) -> None:
    assert assemble(*fragments) == (calls, None)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ('{"cmd": "mkdir -p /tmp/x && cat > ', "arguments are not complete JSON"),
        ('{"cmd": "ls"', "arguments are not complete JSON"),
        ("ls -l", "arguments are not complete JSON"),
        ('["ls"]', "arguments are not a JSON object"),
        ("3", "arguments are not a JSON object"),
    ],
)
def test_arguments_that_are_no_object_make_no_call(arguments: str, error: str) -> None:
    assert assemble(fragment(0, "a1", "run", arguments)) == ([], error)


def test_a_call_without_a_name_is_an_error_and_the_others_stand() -> None:
    calls, error = assemble(fragment(0, "a1", "", A), fragment(1, "a2", "read", A))
    assert calls == ONE
    assert error == "a tool call has no name"


def test_made_up_ids_are_nine_letters_and_digits_and_differ_between_replies() -> None:
    ids = []
    for seed in ("reply one", "reply two"):
        assembler = ToolCallAssembler()
        assembler.feed([fragment(0, None, "read", A)])
        ids.append(assembler.result(seed)[0][0].id)
    assert all(len(one) == 9 and one.isalnum() for one in ids)
    assert ids[0] != ids[1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(arguments=st.dictionaries(st.text(), JSON), cuts=st.lists(st.integers(0, 200)), ascii_only=st.booleans())
def test_arguments_survive_any_way_of_cutting(arguments: dict[str, Any], cuts: list[int], ascii_only: bool) -> None:
    text = json.dumps(arguments, ensure_ascii=ascii_only)
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    parts = [text[a:b] for a, b in itertools.pairwise(places)]
    first = fragment(0, "a1", "f", "")
    assert assemble(first, *(fragment(0, arguments=part) for part in parts)) == ([("f", arguments)], None)
