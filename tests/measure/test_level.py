"""One level's row from its repeats."""

import msgspec
import pytest

from widelane.figures import Origin
from widelane.measure.calls import CallRecord
from widelane.measure.client_watch import ClientLoad
from widelane.measure.known import Known
from widelane.measure.level import Repeat, level_row, with_series_doubts

MS = 1_000_000
LIGHT = ClientLoad(0.05, 0.0, 0.001)


def call(sent_ms: int = 0, ttft_ms: int = 100, *, tokens: int = 11, step_ms: int = 20, **more: object) -> CallRecord:
    first = sent_ms + ttft_ms
    chunks = tuple((first + step_ms * n) * MS for n in range(tokens))
    fields = {"sent_ns": sent_ms * MS, "ended_ns": chunks[-1], "chunk_ns": chunks, "output_tokens": tokens}
    return CallRecord(**{**fields, **more})  # type: ignore[arg-type]


def repeat(*calls: CallRecord, number: int = 0, window_s: float = 1.0, tokens: float = 30.0, **more: object) -> Repeat:
    fields: dict[str, object] = {"decoding_together": 1, "unfinished": 0, "client": LIGHT}
    return Repeat(number=number, window_s=window_s, output_tokens=tokens, calls=calls, **{**fields, **more})  # type: ignore[arg-type]


KNOWN = Known(output_tokens=11, alone_ttft_s=0.1, steady=False)


def test_throughput_is_tokens_over_the_windows_with_its_interval() -> None:
    row = level_row(2, [repeat(call(), tokens=t) for t in (28.0, 30.0, 32.0)], KNOWN)
    # t(2) = 4.303, s = 2: 4.303 * 2 / sqrt(3) = 4.969.
    assert row.output_tok_s.value == pytest.approx(30.0)
    assert (row.output_tok_s.low, row.output_tok_s.high) == (pytest.approx(25.03, 1e-3), pytest.approx(34.97, 1e-3))
    assert (row.repeats, row.window_s) == (3, 3.0)


def test_one_window_has_no_interval_and_says_so() -> None:
    figure = level_row(2, [repeat(call(), cut_short=True)], KNOWN).output_tok_s
    assert (figure.low, figure.high) == (None, None)
    assert figure.reason is not None
    assert "cut short" in figure.reason


def test_latencies_by_hand() -> None:
    row = level_row(1, [repeat(call(0, 100), call(0, 300))], KNOWN)
    assert row.ttft_s.p50.value == pytest.approx(0.2)
    assert row.tpot_s.p50.value == pytest.approx(0.02)
    assert row.icl_s.p99.value == pytest.approx(0.02)
    assert row.e2e_s.p50.value == pytest.approx(0.4)  # 0.3 and 0.5
    # Waiting beyond 0.1 s: 0 and 0.2 of 0.3 + 0.5.
    assert row.queue_share.value == pytest.approx(0.25)


def test_failures_and_unfinished_calls_are_counted_apart() -> None:
    row = level_row(
        4,
        [
            repeat(*[call()] * 38, unfinished=3),
            repeat(call(failure="overloaded", output_tokens=None), number=1, unfinished=2),
        ],
        KNOWN,
        tail=[call(failure="overloaded")],
    )
    assert row.failures == {"overloaded": 2}
    assert row.unfinished == 2
    assert row.requests == 38 + 2 + 2
    assert row.ttft_s.p50.value == pytest.approx(0.1)


def test_a_level_that_mostly_fails_says_that_its_throughput_is_of_no_use() -> None:
    row = level_row(2, [repeat(call(), call(failure="server_failed"))], KNOWN)
    assert "1 of 2 calls failed (1 server_failed)" in row.flags[0]


def test_the_opening_burst_is_not_the_steady_state() -> None:
    row = level_row(2, [repeat(call(0, 900, opening=True), call(0, 100))], KNOWN)
    assert row.ttft_s.p50.value == pytest.approx(0.1)
    assert row.flags == ()


def test_an_opening_that_all_decoded_together_is_given_as_a_burst() -> None:
    row = level_row(2, [repeat(call(0, 900, opening=True), decoding_together=2)], KNOWN)
    assert row.ttft_s.p50.value == pytest.approx(0.9)
    assert "opening burst" in row.flags[0]


def test_waiting_that_only_the_opening_showed_is_inferred() -> None:
    # 8 calls in flight of 11 tokens each at 44 tok/s: 4 calls/s, so a call takes 2 s, 0.2 s (10 steps) of it decoding.
    row = level_row(8, [repeat(call(0, 100, opening=True), tokens=44.0, decoding_together=2)], KNOWN)
    assert row.e2e_s.p50.value == pytest.approx(2.0)
    assert row.ttft_s.p50.value == pytest.approx(1.8)
    assert row.queue_share.value == pytest.approx(1.7 / 2.0)
    assert {figure.origin for figure in (row.e2e_s.p50, row.ttft_s.p50, row.queue_share)} == {Origin.INFERRED}
    assert row.ttft_s.p99.value is None
    assert row.tpot_s.p50.value == pytest.approx(0.02)


def test_no_token_at_all_is_unknown_not_zero() -> None:
    row = level_row(2, [repeat(call(failure="idle_timeout", chunk_ns=()), tokens=0.0)], KNOWN)
    assert row.output_tok_s.value is None
    assert row.ttft_s.p50.value is None
    assert row.ttft_s.p50.reason


def test_a_spoiled_level_has_no_figures_but_the_reason() -> None:
    row = level_row(2, [repeat(call(), client=ClientLoad(0.9, 0.0, 0.001))], KNOWN)
    assert row.client.spoiled
    assert row.codes == ("client-limited",)
    refused = (row.output_tok_s, row.ttft_s.p50, row.tpot_s.p99, row.e2e_s.p50, row.icl_s.p90, row.decoding_together)
    assert all(figure.value is None and "90% of its core" in (figure.reason or "") for figure in refused)


def test_buffered_streams_keep_their_throughput_and_lose_their_latencies() -> None:
    held = call(0, 1000, step_ms=1)
    row = level_row(2, [repeat(held, held)], KNOWN)
    assert row.codes == ("buffering-proxy",)
    assert row.output_tok_s.value == pytest.approx(30.0)
    assert row.e2e_s.p50.value == pytest.approx(1.01)
    assert row.ttft_s.p50.value is None
    assert row.decoding_together.value is None


def test_outputs_shorter_than_asked_are_mentioned() -> None:
    row = level_row(2, [repeat(call(tokens=11))], Known(output_tokens=64, steady=False))
    assert "11 tokens (median) instead of 64" in row.flags[0]


def test_counted_chunks_are_a_lower_bound_and_called_so() -> None:
    row = level_row(2, [repeat(call(counted_tokens=True))], KNOWN)
    assert "lower bound" in row.flags[0]


def test_a_rate_that_contradicts_littles_law_is_impossible() -> None:
    # 11 tokens in 0.3 s are 36.7 tok/s a call; 30 tok/s in all mean 0.8 calls in flight, not 4.
    row = level_row(4, [repeat(*[call()] * 4)], Known(output_tokens=11))
    assert row.codes == ("impossible-figure",)
    assert "calls in flight, not 4" in row.flags[0]


def test_weights_read_faster_than_the_memory_can_are_impossible() -> None:
    known = Known(output_tokens=11, steady=False, read_bytes=10e9, bandwidth_bytes_s=273e9)
    # 10 GB every 20 ms are 500 GB/s.
    assert "183% of the nominal bandwidth" in level_row(1, [repeat(call())], known).flags[0]


def test_speculative_tokens_share_a_step() -> None:
    known = Known(output_tokens=33, steady=False, read_bytes=10e9, bandwidth_bytes_s=560e9)
    # 33 tokens in 11 chunks 20 ms apart: a step reads the weights once for three tokens, 500 GB/s again.
    assert level_row(1, [repeat(call(output_tokens=33))], known).codes == ()


def test_preemptions_and_pool_use_are_what_the_server_said_or_none() -> None:
    told = level_row(
        1, [repeat(call(), preemptions=2, kv_usage=0.5), repeat(call(), preemptions=1, kv_usage=0.9)], KNOWN
    )
    assert told.preemptions is not None
    assert told.kv_usage is not None
    assert (told.preemptions.value, told.kv_usage.value) == (3, 0.9)
    silent = level_row(1, [repeat(call())], KNOWN)
    assert (silent.preemptions, silent.kv_usage) == (None, None)


def test_a_series_flags_the_level_that_was_not_prefilled() -> None:
    rows = [level_row(width, [repeat(call(0, ttft))], KNOWN) for width, ttft in ((1, 300), (2, 50))]
    flagged = with_series_doubts(rows, 0.3)
    assert flagged[0].codes == ()
    assert flagged[1].codes == ("impossible-figure",)


def test_a_stored_repeat_is_the_same_repeat() -> None:
    one = repeat(call(), call(failure="overloaded"), preemptions=2)
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(one)), Repeat) == one
