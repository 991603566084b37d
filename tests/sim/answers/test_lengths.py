"""How many tokens answers have."""

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widelane.errors import UsageError
from widelane.plan.footprints import from_lines
from widelane.sim.answers.lengths import Fixed, LogNormal, Observed, output_lengths, parse_lengths


def test_a_single_number_is_a_fixed_length() -> None:
    assert parse_lengths("900") == Fixed(900)
    assert parse_lengths("1.5k") == Fixed(1500)


def test_a_range_is_a_mean_and_a_spread() -> None:
    assert parse_lengths("600-1500") == LogNormal(mean_tokens=1050, spread_tokens=450)
    assert parse_lengths("900±300") == LogNormal(mean_tokens=900, spread_tokens=300)


@pytest.mark.parametrize("text", ["", "many", "-5", "0", "1500-600"])
def test_what_no_length_can_be_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="give tokens: 900, 600-1500"):
        parse_lengths(text)


def test_log_normal_draws_have_the_mean_and_the_spread_that_were_stated() -> None:
    lengths = LogNormal(mean_tokens=1000, spread_tokens=400)
    rng = random.Random(1)
    drawn = [lengths.draw(rng) for _ in range(20_000)]

    # Standard errors at 20,000 draws: 2.8 of the mean, about 5 of the deviation (it is skewed).
    assert statistics.fmean(drawn) == pytest.approx(1000, abs=12)
    assert statistics.pstdev(drawn) == pytest.approx(400, abs=25)
    # The median of a log-normal is exp(mu) = mean / sqrt(1 + (s/m)^2).
    assert statistics.median(drawn) == pytest.approx(1000 / math.sqrt(1.16), abs=12)


@given(mean=st.floats(1, 1e6), share=st.floats(0, 5), most=st.integers(1, 10**6), seed=st.integers(0, 10**6))
def test_draws_stay_within_their_bounds(mean: float, share: float, most: int, seed: int) -> None:
    lengths = LogNormal(mean_tokens=mean, spread_tokens=share * mean, most_tokens=most)

    assert 1 <= lengths.draw(random.Random(seed)) <= most


def test_no_spread_is_no_chance() -> None:
    assert LogNormal(mean_tokens=700, spread_tokens=0).draw(random.Random(3)) == 700


@pytest.mark.parametrize(
    "lengths", [Fixed(5), LogNormal(mean_tokens=100, spread_tokens=40), Observed((3, 1, 2))], ids=repr
)
def test_one_draw_takes_one_number_from_the_generator(lengths: Fixed | LogNormal | Observed) -> None:
    rng, beside = random.Random(4), random.Random(4)

    lengths.draw(rng)
    beside.random()

    assert rng.random() == beside.random()


def test_observed_lengths_come_as_often_as_they_were_seen() -> None:
    lengths = Observed((100, 100, 100, 900))
    rng = random.Random(5)
    drawn = [lengths.draw(rng) for _ in range(4000)]

    assert set(drawn) == {100, 900}
    assert drawn.count(900) == pytest.approx(1000, abs=110)  # 4 standard errors
    assert lengths.mean_tokens == 300


def test_past_runs_give_the_lengths_of_their_outputs() -> None:
    past = from_lines(
        [
            '{"usage": {"prompt_tokens": 1000, "completion_tokens": 250}}',
            '{"usage": {"prompt_tokens": 10, "completion_tokens": 750}}',
            "4000",  # a total alone: prompt and output cannot be told apart
        ]
    )

    assert sorted(output_lengths(past).tokens) == [250, 750]


def test_past_runs_without_outputs_are_refused_with_what_was_passed_over() -> None:
    with pytest.raises(UsageError, match=r"None of the 1 past calls has an output length.*1 neither a number nor JSON"):
        output_lengths(from_lines(["4000", "what"]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Fixed(0),
        lambda: LogNormal(mean_tokens=0, spread_tokens=1),
        lambda: LogNormal(mean_tokens=10, spread_tokens=-1),
        lambda: LogNormal(mean_tokens=10, spread_tokens=math.nan),
        lambda: Observed(()),
        lambda: Observed((3, 0)),
    ],
)
def test_impossible_distributions_are_refused(make: object) -> None:
    with pytest.raises(UsageError):
        make()  # type: ignore[operator]
