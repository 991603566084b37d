"""A very small agent harness: files, five tools and two guards, to see what the simulated worker does with them."""

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from widelane.records import ChatRequest, Message, ToolCall
from widelane.sim.answers.answer import Answer, Answerer
from widelane.sim.answers.randomness import AnswerRandomness

REPO = {
    "pkg/client.py": "class Client:\n    def send(self, request):\n        pass\n\n\ndef build_request(url): ...\n",
    "pkg/models.py": "class Request:\n    pass\n\n\nclass Response:\n    pass\n",
}


def _tool(name: str, required: Sequence[str]) -> dict[str, Any]:
    properties = {parameter: {"type": "string"} for parameter in required}
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [
    _tool("list_files", ["path"]), _tool("read_file", ["path"]), _tool("search", ["pattern", "path"]),
    _tool("write_file", ["path", "content"]),
]  # fmt: skip


@dataclass
class Run:
    """One conversation.

    Attributes:
        guards: `repeats`, `nothing-written`, `search-files`: what the harness does against mistakes.
        written: the files that were written.
        calls: every call, in order.
    """

    task: str
    agent: Answerer
    guards: Sequence[str] = ()
    budget: int = 60
    tools: Sequence[Mapping[str, Any]] = field(default_factory=lambda: TOOLS)
    written: dict[str, str] = field(default_factory=dict)
    calls: list[ToolCall] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    def play(self) -> str | None:
        """The worker's last words; None when the budget ended first."""
        self.messages = self.messages or [{"role": "user", "content": self.task}]
        for turn in range(self.budget):
            if turn == self.budget // 2 and not self.written and "nothing-written" in self.guards:
                self.messages.append(
                    {"role": "user", "content": "Half the budget is used and you have written nothing."}
                )
            answer = self.agent(self.request(), AnswerRandomness(1).of(self.request()))
            self.answers.append(answer)
            if not answer.tool_calls:
                self.messages.append({"role": "assistant", "content": answer.text})
                return answer.text
            for call in answer.tool_calls:
                self._serve(call)
        return None

    def request(self) -> ChatRequest:
        """The next request."""
        return ChatRequest(messages=tuple(self.messages), tools=self.tools)

    def _serve(self, call: ToolCall) -> None:
        function = {"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()}
        self.messages.append(
            {"role": "assistant", "tool_calls": [{"id": call.id, "type": "function", "function": function}]}
        )
        again = any((call.name, call.arguments) == (one.name, one.arguments) for one in self.calls)
        self.calls.append(call)
        if again and "repeats" in self.guards:
            result = "The result has not changed; proceed."
        else:
            result = self._result(call.name, call.arguments)
        self.messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    def _result(self, name: str, arguments: Mapping[str, Any]) -> str:
        path = arguments.get("path")
        if path is None:
            return "error: missing required argument path"
        if name == "list_files":
            return "\n".join(REPO)
        if name == "write_file":
            self.written[path] = arguments["content"]
            return "written"
        if name == "search":
            return self._found(arguments["pattern"], path)
        return REPO.get(path, f"error: no such file: {path}")

    def _found(self, pattern: str, path: str) -> str:
        """Without its guard, a search in a file looks for a folder of that name: the field report's trap."""
        if path in REPO and "search-files" not in self.guards:
            return "no matches"
        texts = [REPO[name] for name in REPO if path in (".", name) or fnmatch.fnmatch(name, f"{path}/*")]
        lines = [line for text in texts for line in text.splitlines() if re.search(pattern, line)]
        return "\n".join(lines) or "no matches"
