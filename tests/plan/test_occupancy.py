"""What a lane holds: at the ends of calls, and at any moment on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widelane.plan.footprint import Footprint, PastCall
from widelane.plan.occupancy import courses, ends, on_the_way


def calls(*pairs):
    return [PastCall(prompt_tokens=prompt, total_tokens=total) for prompt, total in pairs]


def mean(shares):
    return sum(tokens * share for tokens, share in shares.items())


def test_ends_are_counted_and_the_fuse_cuts_them():
    assert ends(courses(calls((1, 10), (1, 10), (1, 40), (1, 90)), 60)) == {10: 0.5, 40: 0.25, 60: 0.25}


def test_a_growing_call_holds_each_of_its_lengths_for_one_step():
    assert on_the_way(courses(calls((2, 6)))) == pytest.approx({3: 0.25, 4: 0.25, 5: 0.25, 6: 0.25})


def test_a_long_call_counts_for_as_long_as_it_lasts():
    # One call of 1 step, one of 3: of four steps, each length from 1 to 3 is held once, 1 twice.
    assert on_the_way(courses(calls((0, 1), (0, 3)))) == pytest.approx({1: 0.5, 2: 0.25, 3: 0.25})


def test_calls_that_are_alike_hold_half_of_their_end_and_all_of_their_prompt():
    assert mean(on_the_way(courses(calls((0, 12_000))))) == pytest.approx(6_000, rel=0.01)
    assert mean(on_the_way(courses(calls((4_000, 12_000))))) == pytest.approx(8_000, rel=0.01)


def test_where_outputs_vary_more_than_their_mean_a_lane_holds_more_than_the_mean_end():
    shares = courses(calls(*[(0, 100)] * 99, (0, 100_000)))  # mean end 1099, E[g^2] / 2 E[g] = 45,500
    assert mean(ends(shares)) == pytest.approx(1_099)
    assert mean(on_the_way(shares)) == pytest.approx(45_500, rel=0.01)


def test_a_prompt_as_long_as_the_call_leaves_one_step():
    assert on_the_way(courses(calls((100, 100), (None, 1)))) == pytest.approx({100: 0.5, 1: 0.5})


def test_a_mean_and_a_spread_come_out_as_they_went_in():
    shares = ends(courses(Footprint(mean_tokens=15_000, spread_tokens=3_000)))
    middle = mean(shares)
    spread = sum((tokens - middle) ** 2 * share for tokens, share in shares.items()) ** 0.5
    assert middle == pytest.approx(15_000, rel=0.002)
    assert spread == pytest.approx(3_000, rel=0.01)


def test_without_spread_all_calls_are_the_mean():
    assert ends(courses(Footprint(mean_tokens=100.2, spread_tokens=0))) == {101: 1.0}


past = st.lists(st.tuples(st.integers(0, 50_000), st.integers(1, 50_000)), min_size=1, max_size=20)


@given(past, st.none() | st.integers(1, 60_000))
def test_shares_add_up_and_nobody_holds_more_than_the_longest_call(pairs, cap):
    lanes = courses(calls(*pairs), cap)
    longest = max(course.end for course in lanes)
    assert cap is None or longest <= cap
    for shares in (ends(lanes), on_the_way(lanes)):
        assert sum(shares.values()) == pytest.approx(1.0)
        assert max(shares) <= longest
        assert min(shares) >= 1
