"""The open-loop benchmark: what it must reach on the published rows, and that it takes any rows file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(rows, *options):
    command = [sys.executable, str(BENCHMARKS / "sim_open_loop.py"), str(rows), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


CONFIGURATION = {
    "config_id": "somebody's",
    "hardware": "gb10",
    "n_devices": 1,
    "bandwidth_gbs": 273,
    "engine": "vllm",
    "engine_version": "0.26.0",
    "model": "Qwen/Qwen3-8B",
    "quant": "bf16",
    "weight_bytes": 16_400_000_000,
    "kv_dtype": "bf16",
    "spec_depth": 0,
}
ALONE = CONFIGURATION | {
    "id": "alone",
    "measurement": "closed_loop_burst",
    "concurrency": 1,
    "prompt_tokens": 4096,
    "output_tokens": 256,
    "context_tokens": 4224,
    "step_ms": 75.0,
    "prefill_tok_s": 3000.0,
}
SLOW = CONFIGURATION | {
    "id": "slow",
    "measurement": "open_loop",
    "test": "by hand",
    "request_rate": 0.001,
    "burstiness": 1.0,
    "num_prompts": 20,
    "prompt_tokens": 4096,
    "output_tokens": 100,
    "decode_tok_s_total": 0.1,
    "tpot_ms": 75.0,
    "ttft_ms": 1365.0,
}
"""One call in a thousand seconds: each runs alone, so it must show what one request does."""


@pytest.fixture
def rows_file(tmp_path):
    def write(*rows):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
        return path

    return write


def test_calls_far_apart_do_what_one_request_does(rows_file):
    found = json.loads(run(rows_file(ALONE, SLOW), "--json", "--spread", "0").stdout)
    errors = found["each_percent"][0]
    assert abs(errors["tpot_s"]) < 1
    assert abs(errors["ttft_s"]) < 1
    assert abs(errors["output_tok_s"]) < 1


def test_only_the_single_request_is_fed(rows_file):
    """What the run itself measured, and other widths of its configuration, change nothing but the errors."""
    wide = ALONE | {"id": "wide", "concurrency": 8, "step_ms": 400.0, "prefill_tok_s": 100.0}
    plain = run(rows_file(ALONE, SLOW), "--rows", "--seeds", "1").stdout
    assert run(rows_file(wide, ALONE, SLOW), "--rows", "--seeds", "1").stdout == plain
    slower = json.loads(run(rows_file(ALONE | {"step_ms": 150.0}, SLOW), "--json").stdout)["each_percent"][0]
    assert slower["tpot_s"] == pytest.approx(100, abs=6)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"suspect": "cache"}, "marked suspect"),
        ({"model": "some/unheard-of"}, "the model's shape is not known"),
        ({"config_id": "another"}, "no single-request decode rate"),
        ({"request_rate": None}, "arrivals or lengths are not told"),
        ({"engine": "mlx"}, "the engine is none that is simulated"),
        ({"hardware": "some-new-card"}, "the device's memory is not known"),
        ({"spec_depth": 2}, "drafts without an acceptance"),
        ({"hardware": "rtx-3060"}, "does not hold"),
    ],
)
def test_rows_that_cannot_be_run_are_counted_with_the_reason(rows_file, change, reason):
    done = run(rows_file(ALONE, SLOW | change), "--seeds", "1")
    assert done.returncode == 2
    assert reason in done.stderr


def test_no_file_is_bad_input(tmp_path):
    done = run(tmp_path / "none.jsonl")
    assert done.returncode == 2
    assert "is no file" in done.stderr


def test_a_clients_own_limit_is_told_from_its_peak():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        from open_loop_rows import in_flight_limit
    finally:
        sys.path.remove(str(BENCHMARKS))
    sent = {"num_prompts": 300, "request_rate": 1.5, "duration_s": 2000.0}
    assert (
        in_flight_limit(sent | {"peak_concurrency": 28}) == 25
    )  # all sent by 200 s, a tenth of the run: 270 in flight
    assert in_flight_limit(sent | {"peak_concurrency": 260}) is None
    assert in_flight_limit({"num_prompts": 300, "request_rate": 1.5, "peak_concurrency": 9}) is None


@pytest.mark.timeout(120)
def test_median_errors_of_the_published_rows(data_dir):
    """Fed one request's decode rate and 4k prefill rate: 9 % of tokens/s, 14 % of TPOT, 28 % of TTFT."""
    done = run(data_dir / "measurements" / "calibration.jsonl", "--json", "--seeds", "1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["runs"] >= 90
    errors = found["errors_percent"]
    assert errors["output_tok_s"]["median"] <= 9
    assert errors["tpot_s"]["median"] <= 14
    assert errors["ttft_s"]["median"] <= 28
