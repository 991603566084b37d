"""An endless repetition is recognised in time; legitimate repetitive text never is."""

from __future__ import annotations

import pytest

from widelane.wire.repetition import RepetitionDetector, repeated_phrase


def chunks_until_found(pieces: list[str], limit: int = 4000) -> int | None:
    """Chunks after which the detector speaks up, looking every 64 as the assembler does."""
    detector = RepetitionDetector()
    for count in range(64, limit + 1, 64):
        if detector.feed("".join(pieces[i % len(pieces)] for i in range(count - 64, count)), 64) is not None:
            return count
    return None


@pytest.mark.parametrize(
    "pieces",
    [
        ["and so on and so forth, "],
        ["and", " so", " on", " and", " so", " forth", ","],
        ["!"],
        ["哈"],
        ["\n"],
        ["  \n"],
        ["I will check the file again, because the test might still fail. " * 3],
        ["def f():\n", "    return 1\n", "\n"],
    ],
)
def test_an_endless_phrase_is_found_within_4000_chunks(pieces: list[str]) -> None:
    found = chunks_until_found(pieces)
    assert found is not None
    assert found < 4000


LEGITIMATE = {
    "a matrix of zeros": "0 " * 40 * 40,
    "a table of numbers": "".join(f"| {i} | {i * i} | {i**3} |\n" for i in range(2000)),
    "a byte table in C": "".join(f"0x{i & 255:02x}, " + ("\n    " if i % 8 == 7 else "") for i in range(3000)),
    "assertions": "".join(f"    assert add({i}, 1) == {i + 1}\n" for i in range(1500)),
    "list of similar lines": "".join(f"{i}. Buy milk and bread.\n" for i in range(1500)),
    "a long rule": "-" * 5000,
    "a JSON array": "[" + ", ".join(f'{{"id": {i}, "ok": true}}' for i in range(1500)) + "]",
    "prose with a refrain": "".join(
        f"Verse {i} tells of rain.\nAnd the river runs, and the river runs.\n" for i in range(400)
    ),
    "indented code": "".join(" " * (4 * (i % 12)) + f"call_{i}()\n" for i in range(2000)),
}


@pytest.mark.parametrize("text", LEGITIMATE.values(), ids=LEGITIMATE)
@pytest.mark.parametrize("chunk_chars", [1, 4, 20])
def test_repetitive_text_that_people_ask_for_is_left_alone(text: str, chunk_chars: int) -> None:
    pieces = [text[i : i + chunk_chars] for i in range(0, len(text), chunk_chars)]
    detector = RepetitionDetector()
    for start in range(0, len(pieces), 64):
        group = pieces[start : start + 64]
        if chunk_chars == 1 and len(set(text)) < 3:
            break  # letter by letter, a rule is a loop: nothing tells them apart in time
        assert detector.feed("".join(group), len(group)) is None


def test_the_phrase_is_named() -> None:
    assert repeated_phrase("intro. " + "ab " * 100, 150) == "ab "
    assert repeated_phrase("ab " * 100, 301) is None
    assert repeated_phrase("abcdefgh" * 5, 30) is None  # five copies are no loop
