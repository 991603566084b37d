"""The queue: who goes first, and what fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widelane.lanes.admission import Admission, Ticket


def start_all(queue: Admission) -> list[int]:
    """Start whatever may start; the sequences in order."""
    started = []
    while (ticket := queue.head()) is not None:
        queue.start(ticket)
        started.append(ticket.sequence)
    return started


def test_a_lower_priority_number_goes_first_and_within_one_first_come_first_served():
    queue = Admission(width=10)
    for sequence, priority in enumerate([5, 0, 5, -1, 0]):
        queue.offer(Ticket(priority, sequence))
    assert start_all(queue) == [3, 1, 4, 0, 2]


def test_no_more_than_the_width_is_in_flight():
    queue = Admission(width=2)
    tickets = [Ticket(0, number) for number in range(3)]
    for ticket in tickets:
        queue.offer(ticket)
    assert start_all(queue) == [0, 1]
    queue.finish(tickets[0])
    assert start_all(queue) == [2]


def test_reserved_tokens_stay_within_the_pool_and_nobody_overtakes_the_large_one():
    queue = Admission(width=10, pool_tokens=100)
    tickets = [Ticket(0, 0, 60), Ticket(0, 1, 50), Ticket(0, 2, 10)]
    for ticket in tickets:
        queue.offer(ticket)
    # 60 fits; 50 more do not, and the small one behind it waits its turn.
    assert start_all(queue) == [0]
    queue.finish(tickets[0])
    assert start_all(queue) == [1, 2]


def test_a_call_larger_than_the_pool_goes_alone():
    queue = Admission(width=10, pool_tokens=100)
    big, small = Ticket(0, 0, 500), Ticket(0, 1, 1)
    queue.offer(big)
    queue.offer(small)
    assert start_all(queue) == [0]
    queue.finish(big)
    assert start_all(queue) == [1]


def test_a_call_that_is_sent_again_goes_before_younger_ones():
    queue = Admission(width=1)
    first = Ticket(0, 0)
    queue.offer(first)
    queue.offer(Ticket(0, 1))
    assert start_all(queue) == [0]
    queue.finish(first)
    queue.offer(Ticket(0, 0))
    assert start_all(queue) == [0]


def test_a_withdrawn_call_never_starts():
    queue = Admission(width=1)
    gone = Ticket(0, 0)
    queue.offer(gone)
    queue.offer(Ticket(0, 1))
    queue.refuse(gone)
    assert queue.waiting == 1
    assert start_all(queue) == [1]


def test_only_the_head_may_start_and_only_a_call_in_flight_may_finish():
    queue = Admission(width=2)
    first, second = Ticket(0, 0), Ticket(0, 1)
    queue.offer(first)
    queue.offer(second)
    with pytest.raises(ValueError, match="head"):
        queue.start(second)
    with pytest.raises(ValueError, match="not in flight"):
        queue.finish(first)


@given(
    width=st.integers(1, 8),
    pool=st.integers(1, 200),
    calls=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 80)), max_size=40),
    choices=st.lists(st.integers(0, 7), max_size=80),
)
def test_whatever_ends_in_whatever_order_nothing_is_lost_and_no_bound_is_passed(width, pool, calls, choices):
    queue = Admission(width, pool)
    for sequence, (priority, tokens) in enumerate(calls):
        queue.offer(Ticket(priority, sequence, tokens))
    flying: list[Ticket] = []
    seen: list[int] = []
    picks = iter(choices)
    while True:
        while (ticket := queue.head()) is not None:
            queue.start(ticket)
            flying.append(ticket)
            seen.append(ticket.sequence)
            assert queue.in_flight <= width
            assert queue.tokens_in_flight <= pool or queue.in_flight == 1
        if not flying:
            break
        # No lane idles while the head fits: either the lanes are full, or nobody waits, or the tokens are.
        assert queue.in_flight == width or queue.waiting == 0 or queue.tokens_in_flight + 80 > pool
        queue.finish(flying.pop(next(picks, 0) % len(flying)))
    assert sorted(seen) == list(range(len(calls)))
    assert (queue.in_flight, queue.tokens_in_flight) == (0, 0)
