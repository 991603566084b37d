"""The benchmark of the step-time model: what it must reach on the published rows, and that it takes any rows file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "step_time.py"


def run(rows, *options):
    return subprocess.run(
        [sys.executable, str(BENCHMARK), str(rows), *options], capture_output=True, text=True, timeout=60, check=False
    )


def row(concurrency, step_ms, **changes):
    """A row of a device, an engine and a model that no table knows: 10 GB of weights, 8 bits each, at 500 GB/s."""
    return {
        "id": f"x{concurrency}",
        "config_id": "somebody's",
        "hardware": "some-new-card",
        "n_devices": 1,
        "bandwidth_gbs": 500,
        "engine": "some-engine",
        "model": "some/model-10b",
        "quant": "fp8",
        "weight_bytes": 10_500_000_000,
        "weight_read_dense_bytes": 10_000_000_000,
        "weight_experts_bytes": 0,
        "n_experts": 0,
        "top_k": 0,
        "params_active": 10_000_000_000,
        "params_experts": 0,
        "n_layers": 33,
        "kv_dtype": "f16",
        "kv_bytes_per_token": 100_000,
        "kv_bytes_per_token_window": 0,
        "kv_window": 0,
        "state_bytes_per_seq": 0,
        "spec_depth": 0,
        "measurement": "batched_bench",
        "decode_only": True,
        "concurrency": concurrency,
        "context_tokens": 1000,
        "step_ms": step_ms,
        "source": "https://github.com/somebody/somewhere/blob/main/rows.md",
        **changes,
    }


@pytest.fixture
def rows_file(tmp_path):
    def write(rows):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
        return path

    return write


def test_on_the_calibration_rows_it_reaches_what_is_asked(data_dir):
    done = run(data_dir / "measurements" / "calibration.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    errors = result["errors"]
    assert errors["two numbers fitted"]["median"] <= 10
    assert errors["two numbers fitted"]["p90"] <= 35
    assert errors["no fit"]["median"] <= 15.5
    assert errors["no fit"]["p90"] <= 50
    assert errors["leave one configuration out"]["median"] <= 8
    assert errors["leave one configuration out"]["p90"] <= 27
    assert errors["bandwidth only"]["median"] > 50
    clear = result["ordered_rightly"]["leave one configuration out"][-1]
    assert clear["pairs"] > 100
    assert clear["rightly"] > 0.95


def test_the_shipped_fits_are_those_it_prints(data_dir):
    done = run(data_dir / "measurements" / "calibration.jsonl", "--fit")
    shipped = (Path(__file__).resolve().parents[2] / "src" / "widelane" / "plan" / "fitted.py").read_text("utf-8")
    assert done.stdout.strip() in shipped


def test_devices_engines_and_models_that_are_not_known_are_taken_by_the_rows_own_figures(rows_file):
    # 1 ms + 33 * 50 us = 2.65 ms; 10 GB and 0.1 GB a sequence at 0.8 * 500 GB/s: 25 ms and 0.25 ms. A card of 500 GB/s
    # is taken for one of 75 TFLOPS, of which 60: each further token computes for 2 * 10^10 / 60e12 = 0.33 ms.
    done = run(rows_file([row(1, 27.9), row(4, 29.65)]), "--json")
    assert done.returncode == 0, done.stderr
    errors = json.loads(done.stdout)["errors"]
    assert errors["no fit"]["p90"] < 0.1
    # 10 GB / 500 GB/s = 20 ms
    assert errors["bandwidth only"]["median"] == pytest.approx((28.3 + 32.5) / 2, abs=0.1)


def test_rows_that_are_no_decode_step_are_left_out_and_counted(rows_file):
    rows = [
        row(1, 27.9),
        row(2, 28.0, decode_only=False),
        row(2, 28.0, suspect="too fast"),
        row(2, None),
        row(2, 28.0, kv_bytes_per_token=None),
    ]
    result = json.loads(run(rows_file(rows), "--json").stdout)
    assert result["steps"] == 1
    assert sum(result["left_out"].values()) == 4


def test_requests_queued_behind_the_servers_slots_do_not_enter_the_fit(rows_file):
    # 64 offered, 8 decoding: a step of 8 sequences, and a total of an eighth.
    queued = row(64, 31.98, decode_tok_s_per_request=31.27, decode_tok_s_total=250.2)
    sound = [row(batch, 27.9 + 0.583 * (batch - 1)) for batch in (1, 2, 4, 8)]
    result = json.loads(run(rows_file([*sound, queued]), "--json").stdout)
    assert result["doubtful"] == 1
    assert result["errors"]["two numbers fitted"]["p90_without_doubtful"] < 3
    capped = {**queued, "max_num_seqs": 8}
    assert json.loads(run(rows_file([*sound, capped]), "--json").stdout)["errors"]["two numbers fitted"]["p90"] < 3


def test_a_file_without_a_decode_step_is_refused_in_words(rows_file):
    done = run(rows_file([row(1, 27.9, decode_only=False)]))
    assert done.returncode == 2
    assert "no measured decode step" in done.stderr


def test_the_table_names_every_method_and_band(rows_file):
    done = run(rows_file([row(1, 27.9), row(1, 40.0, config_id="another", weight_read_dense_bytes=14e9)]))
    for words in ("no fit", "shipped fits", "two numbers fitted", "leave one source out", "ordered rightly", "> 100%"):
        assert words in done.stdout
