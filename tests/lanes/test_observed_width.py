"""The server's own width, told from spans."""

import random

from widelane.lanes.observed_width import ObservedWidth, observed_width
from widelane.records import Outcome, Span


def span(started_s, first_s, ended_s, **fields):
    return Span(
        key=f"{started_s}-{first_s}", queued_ns=int(started_s * 1e9), started_ns=int(started_s * 1e9),
        first_token_ns=int(first_s * 1e9), ended_ns=int(ended_s * 1e9), **fields,
    )  # fmt: skip


def served(slots, calls, *, prefill_s=0.2, decode_s=2.0, jitter=None):
    """Spans of calls sent together to a server with so many slots."""
    free_s = [0.0] * slots
    spans = []
    for _ in range(calls):
        slot = free_s.index(min(free_s))
        wobble = jitter.uniform(-0.02, 0.02) if jitter else 0.0
        first = free_s[slot] + prefill_s
        free_s[slot] = first + decode_s + wobble
        spans.append(span(0.0, first, free_s[slot]))
    return spans


def test_sixteen_calls_on_four_slots_show_four():
    assert observed_width(served(4, 16)) == ObservedWidth(offered=16, effective=4, queued=12)


def test_it_holds_when_service_times_wobble():
    seen = observed_width(served(4, 16, jitter=random.Random(3)))
    assert (seen.effective, seen.server_queues) == (4, True)


def test_it_holds_when_each_answer_comes_in_one_burst_at_its_end():
    bursts = [span(0.0, 2.0 * (1 + number // 4), 2.0 * (1 + number // 4)) for number in range(16)]
    assert observed_width(bursts) == ObservedWidth(offered=16, effective=4, queued=12)


def test_a_server_that_is_wide_enough_does_not_queue():
    seen = observed_width(served(16, 16))
    assert seen == ObservedWidth(offered=16, effective=16, queued=0)
    assert not seen.server_queues


def test_calls_sent_one_after_the_other_are_no_sign_of_a_queue():
    serial = [span(3.0 * number, 3.0 * number + 0.2, 3.0 * number + 2.2) for number in range(8)]
    assert observed_width(serial) == ObservedWidth(offered=1, effective=1, queued=0)


def test_too_few_calls_tell_nothing_and_failed_ones_are_not_counted():
    assert observed_width(served(4, 3)) is None
    failed = [span(0.0, 9.0, 10.0, outcome=Outcome.FAILED) for _ in range(9)]
    assert observed_width(failed) is None
    assert observed_width(served(4, 8) + failed).effective == 4
