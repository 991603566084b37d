"""What a sweep may be asked for."""

import pytest

from widelane.errors import UsageError
from widelane.measure.options import SweepOptions, parse_levels


def test_levels_are_read_by_rising_width() -> None:
    assert parse_levels("8, 1,4 ,2") == (1, 2, 4, 8)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("0,-1,x", "out of range|'-1'"),
        ("0", "Level 0"),
        ("-1", "'-1'"),
        ("1,x", "'x'"),
        ("1,,2", "''"),
        ("", "''"),
        ("1.5", "'1.5'"),
        ("٣", "'٣'"),
        ("4,4", "twice"),
        ("1025", "1025"),
    ],
)
def test_a_level_that_cannot_be_run_is_named(text: str, names: str) -> None:
    with pytest.raises(UsageError, match=names):
        parse_levels(text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"levels": ()},
        {"levels": (2, 2)},
        {"max_level": 0},
        {"output_tokens": 2},
        {"prompt_tokens": 0},
        {"seconds": 0.0},
        {"endpoint": "embeddings"},
        {"min_repeats": 5, "max_repeats": 3},
    ],
)
def test_options_that_measure_nothing_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        SweepOptions(**wrong)  # type: ignore[arg-type]
