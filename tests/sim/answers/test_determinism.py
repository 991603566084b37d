"""One seed, one set of answers: in any order, in any process, whatever Python's hash seed."""

import json
import os
import subprocess
import sys

import pytest

_SCRIPT = """
import json, random, sys
from widelane.records import ChatRequest
from widelane.sim.answers.agent.agent import Agent
from widelane.sim.answers.agent.mistakes import Mistake
from widelane.sim.answers.constrained import SchemaEnforced
from widelane.sim.answers.dataset.pass_rates import drawn_pass_rates
from widelane.sim.answers.dataset.rows import problems_from_rows
from widelane.sim.answers.dataset.solver import DatasetSolver
from widelane.sim.answers.lengths import LogNormal, Observed
from widelane.sim.answers.plain import PlainAnswers
from widelane.sim.answers.randomness import AnswerRandomness
from widelane.sim.answers.scripted import Line, Pick, Rule, Scripted

lengths = LogNormal(mean_tokens=300, spread_tokens=200)
row = {"entry_point": "f", "code": "def f(x): return x"}
rows = [{"id": f"p{i}", "prompt": f"Problem {i}.", **row} for i in range(9)]
rates = drawn_pass_rates([row["id"] for row in rows], mean=0.5, unreachable=0.2, seed=4)
lines = [Line(text="a", tokens=lengths), Line(text="b", tokens=Observed((1, 5, 9)))]
schema = {"properties": {"x": {"enum": ["p", "q", "r"]}, "y": {"type": "string"}}, "required": ["x", "y"]}
form = {"type": "json_schema", "json_schema": {"schema": schema}}
answerers = [
    PlainAnswers(lengths=lengths, thinking=lengths),
    Scripted([Rule(lines=lines, pick=Pick.CHANCE)]),
    DatasetSolver(problems_from_rows(rows), rates, lengths=lengths),
    SchemaEnforced(Agent(mistakes=dict.fromkeys(Mistake, 0.5), seed=3)),
]
tool = {"function": {"name": "write_file", "parameters": {"properties": {"path": {}, "content": {}}}}}
texts = [f"Problem {i}." for i in range(9)] + ["Plan subtasks for a.py, b.py.", "Document a.py, write notes/a.md"]
fields = [{}, {}, {}, {"seed": 5}, {"temperature": 0}, {"response_format": form}, {"tools": [tool]}]
asked = [(n, t, i) for n in range(len(answerers)) for t in texts for i in range(len(fields))]
random.Random(sys.argv[1]).shuffle(asked)
randomness = [AnswerRandomness(11) for _ in answerers]
answers = {}
for n, text, i in asked:
    request = ChatRequest(messages=[{"role": "user", "content": text}], **fields[i])
    # The first three fields are the same request: which of them is which depends on the order, so they are sorted.
    name = f"{n}/{text}/{max(i, 2)}"
    answers.setdefault(name, []).append(repr(answerers[n](request, randomness[n].of(request))))
print(json.dumps({name: sorted(answers[name]) for name in sorted(answers)}))
"""


def _answers(hash_seed: str, order: str) -> dict[str, list[str]]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", _SCRIPT, order]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    answers: dict[str, list[str]] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize(("hash_seed", "order"), [("1", "one"), ("2", "two"), ("31337", "three")])
def test_order_and_hash_seed_change_nothing(hash_seed: str, order: str) -> None:
    first = _answers("0", "zero")

    assert len(first) == 4 * 11 * 5
    assert all(len(set(samples)) == len(samples) for name, samples in first.items() if name.startswith("0/"))
    assert _answers(hash_seed, order) == first
