"""Wrong values: of the right one's kind, and never equal to it."""

import ast
import random
import re
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widelane.sim.answers.dataset.wrong_value import wrong_value


@given(number=st.integers(-(10**9), 10**9), seed=st.integers(0, 999))
def test_a_number_is_off_by_a_little(number: int, seed: int) -> None:
    wrong = int(wrong_value(str(number), random.Random(seed)))

    assert 1 <= abs(wrong - number) <= 9


@given(number=st.integers(0, 999), seed=st.integers(0, 999))
def test_an_aime_answer_stays_one(number: int, seed: int) -> None:
    wrong = wrong_value(f"{number:03d}", random.Random(seed))

    assert 0 <= int(wrong) <= 999
    assert int(wrong) != number
    assert len(wrong) == 3 or number >= 100  # 073 stays a number of three digits


@given(value=st.decimals(-1000, 1000, places=2), seed=st.integers(0, 99))
def test_a_decimal_is_off_too(value: object, seed: int) -> None:
    assert Fraction(wrong_value(str(value), random.Random(seed))) != Fraction(str(value))


@pytest.mark.parametrize(
    ("key", "wrong"), [("True", "False"), ("no", "yes"), ("Valid", "Invalid"), ("NO", "YES"), ("b a c", "c a b")]
)
def test_words_have_opposites_and_lists_another_order(key: str, wrong: str) -> None:
    assert wrong_value(key, random.Random(0)) == wrong


def test_a_letter_is_another_of_those_to_choose_from() -> None:
    wrong = {wrong_value("(A)", random.Random(seed), options=["(A)", "(B)", "(C)"]) for seed in range(40)}

    assert wrong == {"(B)", "(C)"}


@pytest.mark.parametrize("key", ["'abc'", "[1, 2]", "{'a': 1}", "(1,)", "None", "''", "1.5e3"])
def test_a_literal_stays_a_literal(key: str) -> None:
    wrong = ast.literal_eval(wrong_value(key, random.Random(0), literal=True))

    assert wrong != ast.literal_eval(key)


def test_on_cruxeval_every_wrong_output_is_another_literal(data_dir: Path) -> None:
    for row in msgspec.json.Decoder().decode_lines((data_dir / "cruxeval/cruxeval.jsonl").read_bytes()):
        wrong = wrong_value(row["output"], random.Random(row["id"]), literal=True)
        assert ast.literal_eval(wrong) != ast.literal_eval(row["output"]), row["id"]


@pytest.mark.parametrize("key", [r"\frac{1}{2}", "p - q", r"\text{Evelyn}", "(3, 4)", "] ]"])
def test_anything_else_is_moved(key: str) -> None:
    assert wrong_value(key, random.Random(0)).startswith(f"{key} + ")


@pytest.mark.parametrize(("key", "form"), [("$70,000", r"\$(69,99\d|70,00\d)"), ("45%", r"\d\d%"), ("-3", r"-?\d+")])
def test_signs_about_a_number_are_kept(key: str, form: str) -> None:
    assert re.fullmatch(form, wrong_value(key, random.Random(0)))
