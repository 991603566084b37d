"""Wrong code really fails: run against the tests of every item here, in a process of its own."""

import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.sim.answers.asking import rng
from tests.sim.answers.dataset import judge
from widelane.sim.answers.dataset.problem import Form, Problem
from widelane.sim.answers.dataset.rows import problems_from_rows
from widelane.sim.answers.dataset.wrong_code import USUAL_WAYS, WrongWay, ways_to_fail, wrong_code


def _judged(candidates: Sequence[tuple[str, str]], limit_s: float = 3.0) -> list[str]:
    command = [sys.executable, judge.__file__, str(limit_s)]
    done = subprocess.run(command, input=json.dumps(candidates), capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    verdicts: list[str] = json.loads(done.stdout)
    return verdicts


DOUBLE = Problem(
    id="double",
    found_by=("Double it.",),
    form=Form.FUNCTION,
    key="def double(x):\n    return 0 if x == 0 else 2 + double(x - 1)",
    entry_point="double",
)
DOUBLE_TEST = "assert double(3) == 6\nassert double(0) == 0"


@pytest.mark.parametrize(
    ("way", "verdict"),
    [
        (WrongWay.WRONG_VALUE, "AssertionError"),
        (WrongWay.RETURNS_NOTHING, "AssertionError"),
        (WrongWay.UNDEFINED_NAME, "NameError"),
        (WrongWay.SYNTAX_ERROR, "SyntaxError"),
    ],
)
def test_each_way_shows_in_its_own_failure(way: WrongWay, verdict: str) -> None:
    assert _judged([(wrong_code(DOUBLE, way, rng()), DOUBLE_TEST), (DOUBLE.key or "", DOUBLE_TEST)]) == [
        verdict,
        "passed",
    ]


def test_a_wrong_value_is_off_once_even_in_a_recursion() -> None:
    """`double(3)` is off by one slip, not by one for every call of itself."""
    code = wrong_code(DOUBLE, WrongWay.WRONG_VALUE, rng())

    assert _judged([(code, "assert 7 <= double(3) <= 15"), (code, "assert 1 <= double(0) <= 9")]) == ["passed"] * 2


def test_an_endless_one_runs_into_the_limit() -> None:
    assert _judged([(wrong_code(DOUBLE, WrongWay.ENDLESS, rng()), DOUBLE_TEST)], limit_s=0.2) == ["TimeoutError"]


def test_a_method_is_missing_its_answer_and_not_its_name() -> None:
    problem = replace(DOUBLE, form=Form.METHOD, key=None, entry_point="total")
    codes = [wrong_code(problem, way, rng()) for way in ways_to_fail(problem) if way is not WrongWay.ENDLESS]

    verdicts = _judged([(code, "assert Solution().total([1, 2]) == 3") for code in codes])

    assert len(verdicts) == 4
    assert "passed" not in verdicts


def test_a_program_does_not_print_what_is_expected() -> None:
    """Asked for twice the number on stdin, no wrong program prints it."""
    problem = Problem(id="p", found_by=("Read n.",), form=Form.PROGRAM, key=None)
    before = "import io, sys\nsys.stdin = io.StringIO('3')\nsys.stdout = out = io.StringIO()\n"
    test = "assert out.getvalue().split() == ['6']"
    codes = [wrong_code(problem, way, rng()) for way in USUAL_WAYS]

    verdicts = _judged([(before + code, test) for code in [*codes, "print(2 * int(input()))"]])

    assert "passed" not in verdicts[:-1]
    assert verdicts[-1] == "passed"
    assert {"AssertionError", "SyntaxError", "NameError"} <= set(verdicts)


def test_other_languages_do_not_compile() -> None:
    problem = Problem(id="r", found_by=("Sort.",), form=Form.PROGRAM, key="fn a() {\n}\nfn b() {\n}", language="rust")

    assert ways_to_fail(problem) == (WrongWay.SYNTAX_ERROR,)
    assert wrong_code(problem, WrongWay.SYNTAX_ERROR, rng()) == "fn a() {\n}\n(("


def _humaneval(data_dir: Path) -> list[dict[str, Any]]:
    packed = (data_dir / "humaneval/HumanEval.jsonl.gz").read_bytes()
    rows: list[dict[str, Any]] = msgspec.json.Decoder().decode_lines(gzip.decompress(packed))
    return rows


def test_on_humaneval_every_right_answer_passes_and_every_wrong_one_fails(data_dir: Path) -> None:
    rows = _humaneval(data_dir)
    names, candidates = [], []
    for row, problem in zip(rows, problems_from_rows(rows), strict=True):
        test = f"{row['test']}\ncheck({row['entry_point']})"
        for way in (None, *USUAL_WAYS):
            code = problem.key or "" if way is None else wrong_code(problem, way, rng(len(names)))
            names.append((problem.id, way))
            candidates.append((code, test))

    verdicts = dict(zip(names, _judged(candidates), strict=True))

    assert [name for name, verdict in verdicts.items() if (verdict == "passed") != (name[1] is None)] == []


def test_on_mbpp_every_wrong_answer_fails(data_dir: Path) -> None:
    rows = msgspec.json.Decoder().decode_lines((data_dir / "mbpp/mbpp.jsonl").read_bytes())
    names, candidates = [], []
    for place, (row, problem) in enumerate(zip(rows, problems_from_rows(rows), strict=True)):
        possible = [way for way in ways_to_fail(problem) if way in USUAL_WAYS]
        way = possible[place % len(possible)]
        names.append((problem.id, way))
        tests = "\n".join([row["test_setup_code"], *row["test_list"]])
        candidates.append((wrong_code(problem, way, rng(place)), tests))

    passed = [name for name, verdict in zip(names, _judged(candidates), strict=True) if verdict == "passed"]

    assert passed == []
