"""Past calls from what a person names: a log, a document, a saved sweep, a run's folder."""

import json
import os

import pytest

from widelane.cli.console import Terminal
from widelane.cli.footprints import read_footprints
from widelane.errors import UsageError
from widelane.lanes.store import RunStore
from widelane.plan.footprint import PastCall
from widelane.records import CallTiming, Reply, Span, Usage

OPENAI = {"usage": {"prompt_tokens": 300, "completion_tokens": 700}}
FOUND = PastCall(prompt_tokens=300, total_tokens=1_000)


def calls(path):
    return read_footprints(path, Terminal())


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(OPENAI) + "\n" + json.dumps(OPENAI) + "\n",
        json.dumps([OPENAI, OPENAI]),
        json.dumps({"data": [OPENAI, OPENAI]}, indent=2),
        "\ufeff" + json.dumps([OPENAI, OPENAI], indent=1),
        json.dumps({"timeline": {"2": [{"prompt_tokens": 300, "output_tokens": 700}] * 2}}),
    ],
)
def test_a_log_by_lines_or_as_one_document(tmp_path, text):
    (tmp_path / "log").write_text(text, encoding="utf-8")
    assert calls(tmp_path / "log") == (
        FOUND,
        FOUND,
    )


def test_a_log_whose_first_line_is_damaged_is_still_a_log_and_says_so(tmp_path, capsys):
    (tmp_path / "log.jsonl").write_text('{"usage": {"prompt\n' + json.dumps(OPENAI) + "\n")
    assert calls(tmp_path / "log.jsonl") == (FOUND,)
    told = capsys.readouterr()
    assert "1 calls read; skipped 1 neither a number nor JSON (first: 1)" in " ".join(told.err.split())
    assert told.out == ""


async def put_calls(store):
    span = Span(key="a", queued_ns=0, started_ns=1, first_token_ns=2, ended_ns=3, prompt_tokens=300, output_tokens=700)
    timing = CallTiming(sent_ns=0, headers_ns=1, first_token_ns=2, ended_ns=3, chunk_ns=[])
    await store.started("a")
    await store.finished(span, Reply(text="", finish="stop", usage=Usage(300, 700), timing=timing))
    await store.started("b")


async def test_a_run_that_is_still_going_on_is_read_and_left_alone(tmp_path):
    with RunStore.create(tmp_path / "run", {}) as store:
        await put_calls(store)
        assert calls(tmp_path / "run") == (FOUND,)
    with RunStore.open(tmp_path / "run") as store:
        assert store.session == 2  # reading opened none


def test_a_folder_with_a_saved_sweep_alone(tmp_path):
    profile = {"schema": {"name": "widelane.sweep"}, "timeline": {"1": [{"prompt_tokens": 300, "output_tokens": 700}]}}
    (tmp_path / "sweep.json").write_text(json.dumps(profile, indent=2))
    assert calls(tmp_path) == (FOUND,)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "neither a file nor a run's folder"),
        (lambda path: path.mkdir(), "holds no run"),
        (lambda path: path.write_text(""), "holds no call with token counts. Give lines"),
        (lambda path: path.write_text("hello\nyou\n"), r"2 neither a number nor JSON \(first: 1\)"),
        (lambda path: path.write_bytes(bytes(range(256)) * 50), "holds no call"),
        (lambda path: path.write_text("[" * 100_000), "holds no call"),
        (lambda path: os.mkfifo(path), "neither a file"),
        (lambda path: (path.mkdir(), (path / "run.sqlite3").write_text("no database")), "cannot be read"),
    ],
)
def test_what_holds_no_calls_is_one_clear_error(tmp_path, make, words):
    path = tmp_path / "past"
    make(path)
    with pytest.raises(UsageError, match=words):
        calls(path)
