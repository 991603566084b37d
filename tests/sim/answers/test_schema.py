"""Constrained decoding keeps what it may and makes up the rest."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.answers.asking import ask, rng
from widelane.sim.answers.answer import Answer
from widelane.sim.answers.constrained import SchemaEnforced
from widelane.sim.answers.plain import PlainAnswers
from widelane.sim.answers.schema import conforming

REAL = ["a.py", "b.py", "c.py"]
PLAN = {
    "type": "object",
    "properties": {
        "subtasks": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "maxLength": 8},
                    "files": {"type": "array", "maxItems": 2, "uniqueItems": True, "items": {"enum": REAL}},
                },
                "required": ["title", "files"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["subtasks"],
    "additionalProperties": False,
}


def test_what_obeys_is_left_alone() -> None:
    plan = {"subtasks": [{"title": "one", "files": ["a.py", "c.py"]}]}

    assert conforming(PLAN, plan, rng()) == plan


def test_an_enum_leaves_no_room_for_an_invented_name() -> None:
    wanted = {"subtasks": [{"title": "describe", "files": ["invented.py", "b.py", "c.py"], "more": 1}]}

    made = conforming(PLAN, wanted, rng())["subtasks"][0]

    assert set(made) == {"title", "files"}
    assert 1 <= len(made["files"]) <= 2
    assert set(made["files"]) <= set(REAL)


@pytest.mark.parametrize(
    ("schema", "wanted", "expected"),
    [
        ({"const": 4}, 5, 4),
        ({"type": "integer", "minimum": 0, "maximum": 99}, 120, 99),
        ({"type": "integer", "exclusiveMinimum": 3}, 1, 4),
        ({"type": "integer", "multipleOf": 5, "maximum": 12}, 11, 10),
        ({"type": "number", "maximum": 1.5}, 2.0, 1.5),
        ({"type": "string", "maxLength": 3}, "abcdef", "abc"),
        ({"type": "string", "minLength": 4}, "ab", "ab.."),
        ({"type": ["null", "string"]}, "x", "x"),
        ({"type": ["null", "string"]}, 3, None),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "x", "x"),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}, [1, 2, 3], [1, 2]),
        ({"allOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"type": "object"}]}, {}, {"a": 1}),
        ({"$defs": {"n": {"const": 7}}, "properties": {"x": {"$ref": "#/$defs/n"}}, "required": ["x"]}, {}, {"x": 7}),
        ({}, {"any": ["thing", None]}, {"any": ["thing", None]}),
    ],
)
def test_each_keyword_is_obeyed(schema: dict[str, Any], wanted: Any, expected: Any) -> None:
    assert conforming(schema, wanted, rng()) == expected


def test_of_several_forms_the_one_that_was_meant_is_taken() -> None:
    read = {"properties": {"tool": {"const": "read"}, "path": {"type": "string"}}, "required": ["tool", "path"]}
    write = {"properties": {"tool": {"const": "write"}, "text": {"type": "string"}}, "required": ["tool", "text"]}

    made = conforming({"anyOf": [read, write]}, {"tool": "write", "text": "hello"}, rng())

    assert made == {"tool": "write", "text": "hello"}


def test_a_schema_that_refers_to_itself_ends() -> None:
    tree = {
        "$defs": {"node": {"anyOf": [{"properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]},
                                     {"type": "null"}]}},
        "$ref": "#/$defs/node",
    }  # fmt: skip

    assert conforming(tree, {"next": {"next": None}}, rng()) == {"next": {"next": None}}


def test_a_schema_that_no_value_obeys_ends_too() -> None:
    endless = {"properties": {"next": {"$ref": "#"}}, "required": ["next"]}

    assert list(conforming(endless, {}, rng())) == ["next"]


@given(wanted=st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["subtasks", "title", "files"]), inner),
    max_leaves=12,
), seed=st.integers(0, 999))  # fmt: skip
def test_whatever_was_wanted_the_plan_is_one(wanted: Any, seed: int) -> None:
    made = conforming(PLAN, wanted, random.Random(seed))

    assert set(made) == {"subtasks"}
    for subtask in made["subtasks"]:
        assert set(subtask) == {"title", "files"}
        assert isinstance(subtask["title"], str) and len(subtask["title"]) <= 8
        assert len(subtask["files"]) <= 2 and set(subtask["files"]) <= set(REAL)


FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "x", "schema": {"type": "integer", "minimum": 5, "maximum": 5}},
}


def test_enforcement_turns_prose_into_json() -> None:
    request = ask("Give me a number.", response_format=FORMAT)

    assert SchemaEnforced(PlainAnswers())(request, rng()).text == "5"
    assert not PlainAnswers()(request, rng()).text.startswith("5")  # without it, a server that ignores the schema


def test_enforcement_keeps_the_drawn_length_of_a_document_that_it_corrects() -> None:
    enforced = SchemaEnforced(lambda request, rng: Answer(text="9", output_tokens=40))

    answer = enforced(ask("?", response_format=FORMAT), rng())

    assert (answer.text, answer.output_tokens) == ("5", 40)


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_schema", "schema": {"const": 5}}},
        {"extra": {"guided_json": {"const": 5}}},
        {"extra": {"json_schema": {"const": 5}}},
        {"extra": {"structured_outputs": {"json": {"const": 5}}}},
    ],
)
def test_every_way_to_state_a_schema_is_understood(fields: dict[str, Any]) -> None:
    assert SchemaEnforced(PlainAnswers())(ask("?", **fields), rng()).text == "5"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "minItems": 10**9},
        {"type": "array", "minItems": 10**9, "uniqueItems": True, "items": {"type": "integer"}},
        {"type": "array", "minItems": 999, "items": {"type": "array", "minItems": 999, "items": {"type": "integer"}}},
        {"type": "string", "minLength": 10**12},
        {"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]},
    ],
)
def test_a_schema_that_asks_for_too_much_is_met_as_far_as_an_answer_goes(schema: dict[str, Any]) -> None:
    """One request may not hold up the server: what is made ends."""
    assert len(json.dumps(conforming(schema, None, rng()))) < 1_000_000
