"""Measurements that no machine can produce are told, and sound ones are left alone."""

import json

import pytest

from tests.plan.step_models import DENSE, MIXTURE
from widelane.plan.plausible import above_bandwidth, bytes_moved, out_of_series, total_does_not_fit
from widelane.plan.step_time import StepCost


def test_a_step_faster_than_its_bytes_allow_is_doubted_with_the_share_it_implies():
    # 20 GB in 17.2 ms is 1,163 GB/s, 116 % of 1,000.
    doubt = above_bandwidth(DENSE, 1e12, 17.2e-3, batch=1, context=0)
    assert doubt is not None
    assert doubt.code == "above-bandwidth"
    assert "116 %" in doubt.sentence
    assert above_bandwidth(DENSE, 1e12, 20.1e-3, batch=1, context=0) is None


def test_of_routed_experts_only_those_of_one_token_are_sure_to_be_read():
    # 4 GB + 64 GB * 8/128 + 4 * 1,000 tokens * 100 kB
    assert bytes_moved(MIXTURE, batch=4, context=1000) == pytest.approx(8.4e9)


def test_a_total_far_below_the_sum_of_its_requests_tells_how_many_were_decoding():
    # 128 clients of 79.24 tok/s were reported as 2,401 tok/s together: 30 at a time.
    doubt = total_does_not_fit(79.24, 128, 2401.0)
    assert doubt is not None
    assert "about 30" in doubt.sentence
    assert total_does_not_fit(12.0, 16, 160.0) is None


def test_a_total_above_the_sum_of_its_requests_is_doubted_too():
    doubt = total_does_not_fit(10.0, 4, 100.0)
    assert doubt is not None
    assert "counts more" in doubt.sentence


def test_a_rate_several_times_its_series_looks_like_a_prefix_cache_hit():
    found = out_of_series([2000, 1900, 9000, 2100])
    assert [(index, doubt.code) for index, doubt in found] == [(2, "out-of-series")]
    assert "prefix cache" in found[0][1].sentence
    assert out_of_series([2000, 1900, 1500, 800]) == []
    assert out_of_series([1, 100]) == []


def test_figures_that_are_no_measurement_are_refused():
    with pytest.raises(ValueError, match="longer than 0 s"):
        above_bandwidth(DENSE, 1e12, 0.0, batch=1, context=0)
    with pytest.raises(ValueError, match="above 0 tok/s"):
        total_does_not_fit(1.0, 1, 0.0)


def rows_of_one_step(data_dir):
    for path in sorted((data_dir / "measurements").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row.get("decode_only") and row.get("step_ms") and row.get("kv_bytes_per_token") is not None:
                yield row


def doubt_of(row):
    cost = StepCost(
        dense_bytes=row["weight_read_dense_bytes"],
        expert_bytes=row["weight_experts_bytes"],
        n_experts=row["n_experts"],
        top_k=row["top_k"],
        kv_bytes_per_token=row["kv_bytes_per_token"],
        kv_bytes_per_token_window=row["kv_bytes_per_token_window"],
        window=row["kv_window"],
        state_bytes=row["state_bytes_per_seq"],
        active_parameters=row["params_active"],
        n_layers=row["n_layers"],
    )
    return above_bandwidth(cost, row["bandwidth_gbs"] * 1e9, row["step_ms"] / 1e3, batch=1, context=0)


def test_published_rows_marked_for_their_bandwidth_are_found_and_hardly_any_other(data_dir):
    rows = list(rows_of_one_step(data_dir))
    marked = [row for row in rows if "bandwidth" in (row.get("suspect") or "")]
    plain = [row for row in rows if not row.get("suspect")]
    assert [row["id"] for row in marked if doubt_of(row) is None] == []
    assert sum(doubt_of(row) is not None for row in plain) <= 0.02 * len(plain)
    assert plain
