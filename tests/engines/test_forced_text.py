"""A text as the grammar or pattern that allows nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data_path import MISSING
from tests.engines.recordings import folders
from widelane.engines.forced_text import gbnf, regex
from widelane.testing.recorded_server import load_recording

GBNF_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|.)", re.DOTALL)


def read_literal(grammar: str) -> str:
    """What llama.cpp's grammar parser makes of `root ::= "…"` (its escapes: x, t, r, n, backslash, quote, brackets)."""
    body = re.fullmatch(r'root ::= "((?:[^"\\\n]|\\.)*)"', grammar)
    assert body is not None, "the literal ends early, or holds a raw line end"
    plain = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"'}

    def unescape(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if code.startswith("x") else plain[code]

    return GBNF_ESCAPE.sub(unescape, body[1])


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_grammar_says_exactly_the_text(text: str) -> None:
    assert read_literal(gbnf(text)) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_pattern_matches_exactly_the_text(text: str) -> None:
    assert re.fullmatch(regex(text), text)
    assert not re.fullmatch(regex(text), text + "x")


def test_grammars_that_a_real_server_took_are_written_the_same() -> None:
    grammars = [
        exchange.request["grammar"]
        for folder in folders()
        for exchange in load_recording(folder).exchanges
        if isinstance(exchange.request, dict) and exchange.status == 200 and "grammar" in exchange.request
    ]
    literals = [grammar for grammar in grammars if re.fullmatch(r'root ::= "(?:[^"\\]|\\.)*"', grammar)]
    if not literals:
        pytest.skip(MISSING)
    for grammar in literals:
        assert gbnf(read_literal(grammar)) == grammar
