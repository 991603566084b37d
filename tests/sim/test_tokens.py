"""The tokenizer without a vocabulary: nothing is lost, and words are about a token each."""

from hypothesis import given
from hypothesis import strategies as st

from widelane.sim.tokens import SimTokenizer, count_tokens, pieces_of


@given(st.text())
def test_pieces_and_numbers_give_the_text_back(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    tokenizer = SimTokenizer()
    assert "".join(pieces_of(text)) == text
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode(text)) == count_tokens(text)


def test_words_are_one_token_each() -> None:
    assert count_tokens(" word" * 7) == 7
    assert count_tokens("time year people government") == 4
    assert count_tokens("") == 0


def test_a_number_never_given_out_is_no_error() -> None:
    assert SimTokenizer().decode([999_999]) == "\ufffd"
