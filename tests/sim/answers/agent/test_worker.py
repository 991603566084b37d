"""The worker does its task; with a mistake switched on it fails until the harness helps."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from tests.sim.answers.agent.harness import REPO, Run
from tests.sim.answers.asking import ask, rng
from widelane.records import ChatRequest, Message
from widelane.sim.answers.agent.agent import Agent
from widelane.sim.answers.agent.mistakes import Mistake
from widelane.sim.answers.agent.turn import AgentLengths
from widelane.sim.answers.agent.worker import REPEATS, RESEARCH_CALLS
from widelane.sim.answers.constrained import SchemaEnforced
from widelane.sim.answers.lengths import Fixed

ONE = "Document pkg/client.py.\nWrite your notes to notes/client.md."
NAMES = ("Client", "send", "build_request")


def _run(task: str = ONE, *mistakes: Mistake, guards: tuple[str, ...] = (), budget: int = 60) -> tuple[Run, str | None]:
    run = Run(task, Agent(mistakes=dict.fromkeys(mistakes, 1.0)), guards, budget)
    return run, run.play()


def test_it_reads_writes_and_says_that_it_is_done() -> None:
    run, last = _run()

    assert [(call.name, call.arguments["path"]) for call in run.calls] == [
        ("read_file", "pkg/client.py"),
        ("write_file", "notes/client.md"),
    ]
    assert last == "Every document is written."
    assert all(f"`{name}`" in run.written["notes/client.md"] for name in NAMES)
    assert [answer.mistake for answer in run.answers] == [None] * 3


def test_each_file_is_read_and_written_in_turn() -> None:
    run, _ = _run("Read pkg/client.py and pkg/models.py.\nWrite to notes/client.md and notes/models.md.")

    assert [call.arguments["path"] for call in run.calls] == [
        "pkg/client.py", "notes/client.md", "pkg/models.py", "notes/models.md",
    ]  # fmt: skip
    assert "`Response`" in run.written["notes/models.md"]
    assert "`Response`" not in run.written["notes/client.md"]


def test_several_files_may_go_into_one_document() -> None:
    run, _ = _run("Summarise pkg/client.py and pkg/models.py: write notes/all.md")

    assert all(f"`{name}`" in run.written["notes/all.md"] for name in ("Client", "Response"))


def test_without_file_names_it_looks_for_them() -> None:
    run, _ = _run("Document this package.")

    assert run.calls[0].name == "list_files"
    assert sorted(run.written) == ["notes/pkg_client.md", "notes/pkg_models.md"]


def test_a_file_that_is_not_there_is_given_up() -> None:
    run, last = _run("Document pkg/gone.py.\nWrite notes/gone.md.")

    assert Counter(call.name for call in run.calls) == {"read_file": 2, "write_file": 1}
    assert last is not None


def test_documents_and_steps_have_the_lengths_that_are_stated() -> None:
    lengths = AgentLengths(step=Fixed(40), document=Fixed(500), thinking=Fixed(10))
    run = Run(ONE, Agent(lengths=lengths))
    run.play()

    assert [answer.output_tokens for answer in run.answers[:2]] == [50, 510]
    assert len(run.written["notes/client.md"]) == pytest.approx(2000, abs=8)


# --- mistakes, without and with the guard


def test_the_same_read_again_and_again() -> None:
    run, _ = _run(ONE, Mistake.REPEATED_CALL)
    reads = [call for call in run.calls if call.name == "read_file"]
    assert len(reads) == REPEATS == 12
    assert len({tuple(call.arguments.items()) for call in reads}) == 1

    run, _ = _run(ONE, Mistake.REPEATED_CALL, guards=("repeats",))
    assert [call.name for call in run.calls] == ["read_file", "read_file", "write_file"]


def test_research_without_writing() -> None:
    run, last = _run(ONE, Mistake.RESEARCH_WITHOUT_WRITING)
    assert run.written == {}
    assert len(run.calls) == RESEARCH_CALLS
    assert last == "The files were looked at, and more must be read."
    arguments = [(call.name, tuple(call.arguments.items())) for call in run.calls]
    assert len(set(arguments)) == len(arguments)  # no guard against repetition would notice

    run, last = _run(ONE, Mistake.RESEARCH_WITHOUT_WRITING, guards=("nothing-written",), budget=20)
    assert "notes/client.md" in run.written
    assert len(run.calls) == 11  # ten of research, then the document


def test_prose_instead_of_a_file() -> None:
    run, last = _run(ONE, Mistake.PROSE_INSTEAD_OF_FILE)
    assert run.written == {}
    assert last is not None and "`build_request`" in last

    run.messages.append({"role": "user", "content": "The file notes/client.md does not exist."})
    run.play()
    assert "`build_request`" in run.written["notes/client.md"]


def test_an_empty_search_is_taken_for_an_empty_file() -> None:
    run, _ = _run(ONE, Mistake.TRUSTS_EMPTY_SEARCH)
    assert [call.name for call in run.calls] == ["search", "write_file"]
    assert not any(f"`{name}`" in run.written["notes/client.md"] for name in NAMES)

    run, _ = _run(ONE, Mistake.TRUSTS_EMPTY_SEARCH, guards=("search-files",))
    assert all(f"`{name}`" in run.written["notes/client.md"] for name in NAMES)


def test_arguments_that_lack_one() -> None:
    run, _ = _run(ONE, Mistake.MALFORMED_ARGUMENTS)

    assert [set(call.arguments) for call in run.calls] == [{"path"}, {"content"}, {"path", "content"}]
    assert "notes/client.md" in run.written


def test_helpers_go_by_other_names_in_every_document() -> None:
    tasks = [f"Part {part}: document pkg/client.py.\nWrite notes/client.md." for part in range(6)]
    texts = [_run(task, Mistake.DRIFTING_NAMES)[0].written["notes/client.md"] for task in tasks]

    assert not any("`build_request`" in text for text in texts)
    assert len({text.partition("## Names")[2] for text in texts}) > 1


def test_a_habit_is_that_of_a_conversation_and_as_frequent_as_stated() -> None:
    agent = Agent(mistakes={Mistake.REPEATED_CALL: 0.3}, seed=5)
    runs = [Run(f"Task {number}. {ONE}", agent) for number in range(300)]
    for run in runs:
        run.play()

    lengths = Counter(sum(call.name == "read_file" for call in run.calls) for run in runs)
    assert set(lengths) == {1, REPEATS}  # all or nothing within a conversation
    assert lengths[REPEATS] == pytest.approx(90, abs=32)  # 4 standard errors


# --- actions constrained by a schema, where a server has no tool calls


def _action(tool: str, *names: str) -> dict[str, Any]:
    properties: dict[str, Any] = {"action": {"const": tool}, **{name: {"type": "string"} for name in names}}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


FLAT = {"anyOf": [_action("read", "path"), _action("write", "path", "content"), _action("finish", "summary")]}
NESTED = {
    "type": "object",
    "properties": {
        "thought": {"type": "string"},
        "tool": {"enum": ["read", "write", "finish"]},
        "arguments": {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
    },
    "required": ["thought", "tool", "arguments"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("schema", [FLAT, NESTED], ids=["flat", "nested"])
def test_actions_that_a_schema_constrains(schema: dict[str, Any]) -> None:
    agent = SchemaEnforced(Agent())
    messages: list[Message] = [{"role": "user", "content": ONE}]
    actions: list[dict[str, Any]] = []
    for _ in range(3):
        form = {"type": "json_schema", "json_schema": {"name": "action", "schema": schema}}
        text = agent(ChatRequest(messages=tuple(messages), response_format=form), rng()).text
        action = msgspec.json.decode(text)
        actions.append(action)
        path = action.get("path") or action.get("arguments", {}).get("path")
        messages += [
            {"role": "assistant", "content": text},
            {"role": "user", "content": REPO.get(path, "written")},
        ]

    assert [action.get("action", action.get("tool")) for action in actions] == ["read", "write", "finish"]
    assert "`build_request`" in msgspec.json.encode(actions[1]).decode()


def test_other_tool_and_parameter_names_are_understood() -> None:
    properties = {"file_path": {"type": "string"}, "limit": {"type": "integer", "minimum": 1, "maximum": 1}}
    parameters = {"type": "object", "properties": properties, "required": ["file_path", "limit"]}
    answer = Agent()(ask(ONE, tools=[{"name": "view", "parameters": parameters}]), rng())

    assert [(call.name, call.arguments) for call in answer.tool_calls] == [
        ("view", {"file_path": "pkg/client.py", "limit": 1})
    ]
