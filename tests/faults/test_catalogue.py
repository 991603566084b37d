"""Every fault of the shared catalogue, replayed byte for byte against the real client and lanes.

The test takes whatever `faults/*.jsonl` holds; nothing here names an entry or counts them.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.data_path import DATA, MISSING
from tests.faults.entry_request import build_request
from tests.faults.expectations import check
from tests.faults.open_files import LANES, SOFT, run_with_few_files
from tests.faults.replay import Seen, replay
from widelane.errors import UsageError
from widelane.records import CallTiming, Reply
from widelane.testing.scripted_server import ScriptedServer
from widelane.testing.virtual_time import run_virtual


def _entries() -> list[dict[str, Any]]:
    files = sorted((DATA / "faults").glob("*.jsonl")) if DATA else []
    return [json.loads(line) for file in files for line in file.read_text().splitlines() if line.strip()]


ENTRIES = _entries()
IN_PROCESS = [entry for entry in ENTRIES if entry["expect"]["outcome"] != "ok_or_clear_error"]
FEW_FILES = [entry for entry in ENTRIES if entry["expect"]["outcome"] == "ok_or_clear_error"]


def test_there_is_a_catalogue():
    if DATA is None:
        pytest.skip(MISSING)
    assert ENTRIES, f"no *.jsonl in {DATA / 'faults'}"


@pytest.mark.parametrize("entry", IN_PROCESS, ids=lambda entry: entry["name"])
def test_fault(entry: dict[str, Any], tmp_path: Path) -> None:
    check(entry, run_virtual(lambda: replay(entry, tmp_path)))


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of open files to lower")
@pytest.mark.parametrize("entry", FEW_FILES, ids=lambda entry: entry["name"])
async def test_few_open_files(entry: dict[str, Any]) -> None:
    """A soft limit below the width is raised; a hard one is refused before anything is sent, with the number needed."""
    assert entry["expect"].keys() <= {"outcome", "error"}, "this harness does not know all of these expectations"
    raised = await run_with_few_files(entry["turns"], hard=None)
    assert raised == {"ok": LANES, "peak": LANES}
    refused = await run_with_few_files(entry["turns"], hard=SOFT)
    assert refused["error"] == entry["expect"]["error"]
    assert str(LANES) in refused["message"]
    assert refused["peak"] == 0


# --- the harness itself must be able to fail


def _seen(**fields: Any) -> Seen:
    timing = CallTiming(sent_ns=0, headers_ns=1, first_token_ns=2, ended_ns=3, chunk_ns=(2,))
    return Seen(results=[Reply(text="Hello", finish="stop", usage=None, timing=timing)], **fields)


@pytest.mark.parametrize(
    "expect",
    [
        {"outcome": "failed"},
        {"outcome": "levitated"},
        {"text": "Hello world"},
        {"finish": "length"},
        {"warn": ["n_ignored"]},
        {"tool_calls": [["read", {"path": "a"}]]},
        {"tool_error": "not complete"},
        {"usage_origin": "read"},
        {"error": "overloaded"},
        {"ids_unique": True},
        {"effective_width": 4},
        {"wait_s_min": 2},
        {"hint": "context"},
        {"resume": True},
        {"history_safe": True},
        {"request_check": "one system message, first"},
        {"colour": "blue"},
        {"colour_max": 3},
    ],
    ids=lambda expect: next(iter(expect)) + "=" + str(next(iter(expect.values())))[:20],
)
def test_a_wrong_or_unknown_expectation_fails_and_names_it(expect: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match=next(iter(expect))):
        check({"name": "made up", "expect": expect}, _seen())


def test_an_unknown_operation_or_request_key_fails_and_names_it() -> None:
    with pytest.raises(UsageError, match="teleport"):
        ScriptedServer([[{"op": "teleport"}]])
    with pytest.raises(AssertionError, match="mood"):
        build_request({"name": "made up", "request": {"mood": "good"}, "expect": {}})
