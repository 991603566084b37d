"""Rows that no machine can produce."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from widelane.measure.calls import CallRecord
from widelane.measure.sanity import (
    BUFFERED,
    IMPOSSIBLE,
    PREFIX_HIT,
    Row,
    buffered_doubts,
    call_doubts,
    impossible,
    prefix_doubts,
    series_doubts,
)

POSSIBLE = Row(
    concurrency=4,
    output_tok_s=80.0,
    peak_tok_s=95.0,
    per_request_tok_s=20.0,
    ttft_s=0.1,
    tpot_s=0.02,
    e2e_s=1.4,
    decoding_together=4,
    step_s=0.02,
    read_bytes=1e9,
    bandwidth_bytes_s=100e9,
)


def with_(**changes: float) -> Row:
    return Row(**{**asdict(POSSIBLE), **changes})


def test_a_possible_row_is_left_alone() -> None:
    assert impossible(POSSIBLE) == []


def test_a_row_that_says_little_is_not_accused() -> None:
    assert impossible(Row(concurrency=8)) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"ttft_s": -0.01}, "TTFT of -10 ms"),
        ({"tpot_s": 0.0}, "TPOT of 0 ms"),
        ({"e2e_s": -1.0}, "E2E of"),
        ({"ttft_s": 2.0}, "longer than the whole call"),
        ({"peak_tok_s": 79.0}, "below the mean"),
        ({"decoding_together": 5}, "5 calls decoded together while 4 were offered"),
        # 80 tok/s at 5 tok/s a call are 16 in flight; at 40 they are 2.
        ({"per_request_tok_s": 5.0}, "means 16.0 calls in flight, not 4"),
        ({"per_request_tok_s": 40.0}, "means 2.0 calls in flight, not 4"),
        # 1 GB every 20 ms are 50 GB/s.
        ({"bandwidth_bytes_s": 40e9}, "125% of the nominal bandwidth"),
    ],
)
def test_what_cannot_be_is_said(changes: dict[str, float], says: str) -> None:
    found = impossible(with_(**changes))
    assert [doubt.code for doubt in found] == [IMPOSSIBLE]
    assert says in found[0].sentence


def test_a_decoding_rate_may_leave_calls_waiting() -> None:
    # 16 offered into 4 slots: 4 x 20 tok/s in all, and each call decodes at 20.
    row = Row(concurrency=16, output_tok_s=80.0, per_request_tok_s=20.0, per_request_covers_waiting=False)
    assert impossible(row) == []


def test_all_of_the_nominal_bandwidth_is_the_bound() -> None:
    assert impossible(with_(bandwidth_bytes_s=51e9)) == []  # 98 %
    assert impossible(with_(bandwidth_bytes_s=49e9)) != []  # 102 %


def test_public_rows_above_nominal_bandwidth_are_found(data_dir: Path) -> None:
    """The rows that an audit called too fast for their memory are the ones that this check finds, and no others."""
    path = data_dir / "measurements" / "calibration.jsonl"
    if not path.is_file():
        pytest.skip("no calibration rows in the data folder")
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    found, suspected = set(), set()
    for raw in rows:
        if not (raw.get("step_ms") and raw.get("weight_read_dense_bytes") and raw.get("bandwidth_gbs")):
            continue
        row = Row(
            concurrency=raw.get("concurrency") or 1,
            step_s=raw["step_ms"] / 1e3,
            read_bytes=raw["weight_read_dense_bytes"],
            bandwidth_bytes_s=raw["bandwidth_gbs"] * 1e9,
        )
        found |= {raw["id"]} if impossible(row) else set()
        suspected |= {raw["id"]} if "bandwidth" in (raw.get("suspect") or "") else set()
    assert found == suspected


def test_time_that_runs_backwards_is_counted() -> None:
    good = CallRecord(sent_ns=0, ended_ns=10, chunk_ns=(5, 10))
    early = CallRecord(sent_ns=5, ended_ns=10, chunk_ns=(3, 10))
    shuffled = CallRecord(sent_ns=0, ended_ns=10, chunk_ns=(8, 5))
    assert call_doubts([good]) == []
    assert "In 2 of 3 calls" in call_doubts([good, early, shuffled])[0].sentence


def test_prompts_found_in_the_cache_are_no_prefill() -> None:
    def one(cached: int | None) -> CallRecord:
        return CallRecord(sent_ns=0, ended_ns=1, prompt_tokens=100, cached_tokens=cached)

    assert prefix_doubts([one(0), one(20)]) == []
    assert prefix_doubts([one(None)]) == []
    assert [doubt.code for doubt in prefix_doubts([one(90), one(10)])] == [PREFIX_HIT]


def test_streams_in_one_piece_are_a_buffering_proxy() -> None:
    held = CallRecord(sent_ns=0, ended_ns=1_000, chunk_ns=tuple(range(990, 1_000)), output_tokens=10)
    live = CallRecord(sent_ns=0, ended_ns=1_000, chunk_ns=tuple(range(100, 1_000, 90)), output_tokens=10)
    assert [doubt.code for doubt in buffered_doubts([held] * 9 + [live])] == [BUFFERED]
    assert buffered_doubts([held] * 2 + [live] * 8) == []


def test_first_tokens_several_times_faster_than_alone_were_not_prefilled() -> None:
    found = series_doubts([(1, 0.30), (2, 0.31), (4, 0.05)], 0.30)
    assert list(found) == [4]
    assert "6.0 times quicker" in found[4].sentence
    assert series_doubts([(4, 0.001)], 0.004) == {}, "below ten milliseconds noise decides"
