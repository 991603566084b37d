"""The planner covers what it was shown, or makes the known mistakes; the integrator mentions what is really there."""

from typing import Any

import msgspec
import pytest

from tests.sim.answers.asking import ask, rng
from widelane.errors import UsageError
from widelane.records import ChatRequest
from widelane.sim.answers.agent.agent import Agent, Role, role_of
from widelane.sim.answers.agent.mistakes import Mistake, parse_mistakes
from widelane.sim.answers.agent.reading import inputs_and_outputs, paths_in
from widelane.sim.answers.agent.turn import AgentLengths
from widelane.sim.answers.constrained import SchemaEnforced
from widelane.sim.answers.lengths import Fixed

FILES = ["httpx/__init__.py", "httpx/__version__.py", "httpx/_client.py", "httpx/_transports/base.py", "README.md"]
LISTING = "\n".join(f"{path}  {60 + place} lines" for place, path in enumerate(FILES))
GOAL = f"Split this job into subtasks: document every module.\n\n{LISTING}\n"
SCHEMA = {
    "type": "object",
    "properties": {
        "tasks": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "goal": {"type": "string"},
                    "source_files": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"enum": FILES}},
                    "output": {"type": "string"},
                },
                "required": ["goal", "source_files", "output"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["tasks"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "plan", "schema": SCHEMA}}


def _plan(*mistakes: Mistake, schema: bool = False, scope: int = 1) -> list[dict[str, Any]]:
    agent = SchemaEnforced(Agent(mistakes=dict.fromkeys(mistakes, 1.0), scope=scope))
    request = ask(GOAL, response_format=FORMAT) if schema else ask(GOAL)
    value: dict[str, list[dict[str, Any]]] = msgspec.json.decode(agent(request, rng()).text)
    return value["tasks" if schema else "subtasks"]


def test_every_file_gets_a_subtask_and_a_document() -> None:
    plan = _plan()

    assert [subtask["files"] for subtask in plan] == [[path] for path in FILES]
    assert plan[3]["deliverable"] == "notes/httpx__transports_base.md"
    assert len({subtask["deliverable"] for subtask in plan}) == len(FILES)


def test_a_subtask_holds_as_many_files_as_the_scope_allows() -> None:
    assert [len(subtask["files"]) for subtask in _plan(scope=2)] == [2, 2, 1]


def test_the_fields_of_a_schema_are_filled_by_what_they_are_called() -> None:
    plan = _plan(schema=True)

    assert [subtask["source_files"] for subtask in plan] == [[path] for path in FILES]
    assert plan[2] == {
        "goal": "Describe httpx/_client.py",
        "source_files": ["httpx/_client.py"],
        "output": "notes/httpx__client.md",
    }


def test_an_ungrounded_plan_invents_twelve_files() -> None:
    plan = _plan(Mistake.INVENTED_FILES)
    named = [path for subtask in plan for path in subtask["files"]]
    made_up = [path for path in named if path not in FILES]

    assert len(set(made_up)) == len(made_up) == 12
    assert all(path.endswith(".py") for path in made_up)


def test_an_enum_of_the_real_files_makes_that_impossible() -> None:
    plan = _plan(Mistake.INVENTED_FILES, schema=True)

    assert {path for subtask in plan for path in subtask["source_files"]} == set(FILES)


def test_coarse_subtasks_and_the_schema_that_forbids_them() -> None:
    files = [f"pkg/m{number}.py" for number in range(23)]
    agent = Agent(mistakes={Mistake.COARSE_SUBTASKS: 1.0})
    answer = agent(ask("Plan the subtasks:\n" + "\n".join(files)), rng())
    sizes = [len(subtask["files"]) for subtask in msgspec.json.decode(answer.text)["subtasks"]]
    assert (sizes, answer.mistake) == ([8, 8, 7], Mistake.COARSE_SUBTASKS)

    assert max(len(subtask["source_files"]) for subtask in _plan(Mistake.COARSE_SUBTASKS, schema=True)) <= 3


def test_a_plan_has_the_length_that_is_stated() -> None:
    assert Agent(lengths=AgentLengths(plan=Fixed(800)))(ask(GOAL), rng()).output_tokens == 800


def test_an_overview_mentions_what_was_handed_over() -> None:
    request = ask("Write the overview from these notes.\n\n- `Client`: sends\n- `build_request()`: builds")
    right = Agent(lengths=AgentLengths(overview=Fixed(300)))(request, rng())
    drifted = Agent(mistakes={Mistake.DRIFTING_NAMES: 1.0})(request, rng())

    assert "`Client`" in right.text and "`build_request`" in right.text
    assert len(right.text) == pytest.approx(1200, abs=8)
    assert "`build_request`" not in drifted.text
    assert (right.mistake, drifted.mistake) == (None, Mistake.DRIFTING_NAMES)


@pytest.mark.parametrize(
    ("request_", "role"),
    [
        (ask(GOAL), Role.PLANNER),
        (ask("Go.", response_format=FORMAT), Role.PLANNER),
        (ask("Integrate the results of all subtasks."), Role.INTEGRATOR),
        (ask("Summarise."), Role.INTEGRATOR),
        (ask(GOAL, tools=[{"type": "function", "function": {"name": "write_file"}}]), Role.WORKER),
        (ask("Go.", extra={"guided_json": {"properties": {"tool": {"enum": ["read", "write"]}}}}), Role.WORKER),
    ],
)
def test_the_role_follows_from_the_request(request_: ChatRequest, role: Role) -> None:
    assert role_of(request_) is role


def test_the_role_can_be_stated() -> None:
    agent = Agent(role=lambda request: Role.PLANNER)

    assert msgspec.json.decode(agent(ask("Look at a.py"), rng()).text)["subtasks"][0]["files"] == ["a.py"]


def test_file_names_are_told_from_other_words() -> None:
    text = "httpx/_client.py, ./a/b.test.ts and Makefile, e.g. httpx.Client (v3.11) at https://x.org/a.html. main.rs!"

    assert paths_in(text) == ["httpx/_client.py", "./a/b.test.ts", "main.rs"]


@pytest.mark.parametrize(
    ("task", "outputs"),
    [
        ("Read a.py and write notes/a.md", ["notes/a.md"]),
        ("Write notes on a.py to notes/a.md.", ["notes/a.md"]),
        ("Deliverable: notes/a.md\nSource: a.py", ["notes/a.md"]),
        ("Look at a.py.", []),
    ],
)
def test_what_is_to_be_written_is_told_from_what_is_to_be_read(task: str, outputs: list[str]) -> None:
    assert inputs_and_outputs(task) == (["a.py"], outputs)


def test_mistakes_as_people_type_them() -> None:
    assert parse_mistakes("invented-files, repeated-call=0.3") == {
        Mistake.INVENTED_FILES: 1.0,
        Mistake.REPEATED_CALL: 0.3,
    }
    assert parse_mistakes("all=0.5") == dict.fromkeys(Mistake, 0.5)
    assert parse_mistakes("") == {}


@pytest.mark.parametrize("text", ["laziness", "repeated-call=often", "repeated-call=2"])
def test_an_unknown_mistake_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"known are invented-files|between 0 and 1"):
        parse_mistakes(text)


def test_a_scope_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one file, not 0"):
        Agent(scope=0)
