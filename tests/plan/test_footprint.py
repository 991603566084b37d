"""What a person types for the size of a typical call."""

import pytest

from widelane.errors import UsageError
from widelane.plan.footprint import Footprint, PastCall, footprint_of, parse_footprint


@pytest.mark.parametrize(
    ("text", "mean", "spread"),
    [
        ("12000-18000", 15_000, 3_000),
        ("12k-18k", 15_000, 3_000),
        ("12-18k", 15_000, 3_000),
        ("12,000 – 18,000", 15_000, 3_000),
        ("12_000..18_000", 15_000, 3_000),
        ("1.5k to 2.5k", 2_000, 500),
        ("15k±3k", 15_000, 3_000),
        ("15000+-0", 15_000, 0),
        ("15 +/- 3k", 15_000, 3_000),
        ("8000-8000", 8_000, 0),
    ],
)
def test_a_range_is_two_thirds_of_the_calls(text, mean, spread):
    footprint = parse_footprint(text)
    assert (footprint.mean_tokens, footprint.spread_tokens, footprint.assumed) == (mean, spread, False)


def test_one_number_gets_a_spread_of_a_fifth_that_is_marked_as_assumed():
    footprint = parse_footprint(" 15K ")
    assert (footprint.mean_tokens, footprint.spread_tokens, footprint.assumed) == (15_000, 3_000, True)


@pytest.mark.parametrize(
    "text", ["", "many", "18k-12k", "-5", "0", "1e9999", "12k-", "k", "200m", "1-2-3", "9" * 400, "1000±900m", "½"]
)
def test_what_is_no_footprint_is_one_clear_error(text):
    with pytest.raises(UsageError) as raised:
        parse_footprint(text)
    assert len(str(raised.value)) < 300


def test_past_calls_as_a_mean_and_a_spread():
    past = [PastCall(prompt_tokens=prompt, total_tokens=total) for prompt, total in ((100, 1_000), (None, 3_000))]
    assert footprint_of(past) == Footprint(mean_tokens=2_000, spread_tokens=1_000, prompt_tokens=100)
    with pytest.raises(UsageError, match="No past calls"):
        footprint_of([])
