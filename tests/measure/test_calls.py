"""What is counted over many calls."""

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from widelane.measure.calls import CallRecord, decoding_together, tokens_in_window

MS = 1_000_000


def call(first_ms: int, last_ms: int, *, step_ms: int = 10, tokens: int | None = None, **more: object) -> CallRecord:
    """Chunks every `step_ms` from the first to the last."""
    chunks = tuple(t * MS for t in range(first_ms, last_ms + 1, step_ms))
    fields = {"sent_ns": 0, "ended_ns": last_ms * MS, "chunk_ns": chunks, "output_tokens": tokens or len(chunks)}
    return CallRecord(**{**fields, **more})  # type: ignore[arg-type]


def test_times_of_a_call_by_hand() -> None:
    one = call(100, 200, step_ms=20, sent_ns=40 * MS)  # chunks at 100, 120 … 200: six
    assert one.ttft_s == 0.06
    assert one.e2e_s == 0.16
    assert one.tpot_s == 0.02
    assert one.gaps_s == [0.02] * 5


def test_tokens_are_those_of_the_window_not_of_whole_calls() -> None:
    # 11 chunks at 0, 10 … 100 ms; in (20, 60] lie 30, 40, 50, 60.
    assert tokens_in_window([call(0, 100)], 20 * MS, 60 * MS) == 4


def test_a_chunk_counts_for_as_many_tokens_as_the_servers_count_says() -> None:
    assert tokens_in_window([call(0, 100, tokens=33)], 20 * MS, 60 * MS) == 12


def test_a_call_in_flight_takes_the_tokens_a_chunk_of_the_finished_ones() -> None:
    running = call(0, 100, output_tokens=None, finished=False)
    assert tokens_in_window([call(0, 100, tokens=22), running], 20 * MS, 60 * MS) == 16


def test_windows_side_by_side_hold_every_token_once() -> None:
    calls = [call(start, start + 200) for start in (0, 35, 70)]
    edges = [-1, 50, 51, 120, 300]
    parts = [tokens_in_window(calls, a * MS, b * MS) for a, b in itertools.pairwise(edges)]
    assert sum(parts) == sum(each.output_tokens or 0 for each in calls)


def test_a_slot_that_is_handed_over_is_not_shared() -> None:
    assert decoding_together([call(0, 100), call(100, 200)]) == 1


def test_waves_of_four_are_four() -> None:
    calls = [call(wave * 200 + lane, wave * 200 + 150 + lane) for wave in range(4) for lane in range(4)]
    assert decoding_together(calls) == 4


def test_an_overlap_shorter_than_half_a_step_is_a_reading_order() -> None:
    # The successor's first chunk was read 4 ms before its predecessor's last; a step takes 10 ms.
    assert decoding_together([call(0, 100), call(96, 200)]) == 1
    assert decoding_together([call(0, 100), call(90, 200)]) == 2


def test_nothing_streamed_is_nothing_together() -> None:
    assert decoding_together([CallRecord(sent_ns=0, ended_ns=5, output_tokens=3, streamed=False)]) == 0


@given(slots=st.integers(1, 12), waves=st.integers(1, 5), seed=st.integers(0, 99))
def test_any_number_of_slots_is_seen_whatever_the_order_of_calls(slots: int, waves: int, seed: int) -> None:
    calls = [call(wave * 130 + lane % 3, wave * 130 + 100) for wave in range(waves) for lane in range(slots)]
    random.Random(seed).shuffle(calls)
    assert decoding_together(calls) == slots


def test_a_stream_held_back_to_its_end_is_told_from_a_real_one() -> None:
    assert call(990, 1000, step_ms=1).buffered
    assert not call(100, 1000).buffered
    assert not call(990, 1000, step_ms=5).buffered, "three tokens are too few to say"
