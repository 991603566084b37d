"""Jobs in files: both forms say the same, and what is wrong is named with its place."""

from __future__ import annotations

import json

import pytest

from widelane.errors import UsageError
from widelane.predict.job_file import read_job
from widelane.predict.shape import GraphWork

JOB = """
[[step]]
name = "plan"
output = 800
role = "plan"

[[step]]
name = "module"
count = 23
prompt = 2000
output = "600-1500"
needs = ["plan"]

[[step]]
name = "overview"
output = 1200
needs = ["module"]
role = "integrate"
"""
SAME = {
    "step": [
        {"name": "plan", "output": 800, "role": "plan"},
        {"name": "module", "count": 23, "prompt": 2000, "output": "600-1500", "needs": ["plan"]},
        {"name": "overview", "output": 1200, "needs": ["module"], "role": "integrate"},
    ]
}


def steps_of(work: object) -> list[tuple[str, int, int, float]]:
    assert isinstance(work, GraphWork)
    return [(step.name, step.count, step.prompt_tokens, step.output.mean_tokens) for step in work.graph.steps]


@pytest.mark.parametrize(("name", "text"), [("job.toml", JOB), ("job.json", json.dumps(SAME))])
def test_a_job_and_what_it_is_held_against(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    shape = read_job(path)
    assert steps_of(shape.work) == [("plan", 1, 400, 800), ("module", 23, 2000, 1050), ("overview", 1, 400, 1200)]
    assert steps_of(shape.instead) == [("module", 23, 2000, 1050), ("overview", 1, 400, 1200)]
    assert shape.varies
    assert shape.item_tokens == 1050


def test_another_way_of_doing_it(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(JOB + '\n[[instead]]\nname = "all"\noutput = 9000\nprompt = 46000\n')
    assert steps_of(read_job(path).instead) == [("all", 1, 46000, 9000)]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("job.yaml", "", "neither .toml nor .json"),
        ("job.toml", "[[step", "is not TOML"),
        ("job.json", "{", "is not JSON"),
        ("job.json", "[" * 100_000, "is not JSON"),
        ("job.json", "[]", "no table of steps"),
        ("job.json", "{}", "missing required field `step`"),
        ("job.json", '{"step": []}', "no steps"),
        ("job.json", '{"step": [{"name": "a"}]}', "missing required field `output`"),
        ("job.json", '{"step": [{"name": "a", "output": 9, "tokens": 3}]}', "tokens"),
        ("job.json", '{"step": [{"name": "a", "output": "long"}]}', "step 'a'.*long"),
        ("job.json", '{"step": [{"name": "a", "output": 9, "needs": ["b"]}]}', "'b', which is no step"),
        ("job.json", '{"step": [{"name": "a", "output": 9, "count": 0}]}', "1 or more"),
        ("job.json", '{"step": [{"name": "a", "output": 9, "role": "plan"}]}', "no work to split"),
        ("job.toml", "\x00", "is not TOML"),
    ],
)
def test_what_is_no_job(tmp_path, name, text, words):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        read_job(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_job(tmp_path / "none.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        read_job(tmp_path / "folder.toml")
