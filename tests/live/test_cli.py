"""The commands as a user runs them, against the real embedded server."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.cli.run_widelane import WIDELANE, environment, widelane

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]


@pytest.fixture(autouse=True)
def _real_server(cache_dir):
    """Skips, with the reason, where the embedded server's model cannot be had."""


def embedded_servers() -> list[psutil.Process]:
    """Every embedded llama.cpp process of this machine."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any("embedded_child" in word for word in process.info["cmdline"] or ())
    ]


def findings(document, *severities: str) -> set[str]:
    return {finding["code"] for finding in document["findings"] if finding["severity"] in severities}


def test_doctor_names_too_few_slots_and_a_restart_that_keeps_the_context(tmp_path):
    result = widelane("doctor", "embedded", "--json", env=environment(tmp_path), timeout_s=150)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    slots = document["facts"]["slots"]
    assert (slots["value"], slots["origin"]) == (4, "read")
    assert document["limit"] == "slots"
    finding = next(finding for finding in document["findings"] if finding["code"] == "too-few-slots")
    assert finding["severity"] in {"error", "warning"}
    flag = finding["fix"]["flag"].split()
    advised, context = int(flag[flag.index("-np") + 1]), int(flag[flag.index("-c") + 1])
    assert advised > 4
    assert context >= advised * 2048, "an explicit -np splits -c: each slot must keep at least its fair share"
    assert "split" in finding["fix"]["reason"]


def test_doctor_is_content_with_sixteen_slots(tmp_path):
    result = widelane("doctor", "embedded:16", "--json", env=environment(tmp_path), timeout_s=150)
    document = json.loads(result.stdout)
    assert document["facts"]["slots"]["value"] == 16
    assert "too-few-slots" not in findings(document, "error", "warning", "info")


def test_a_killed_sweep_leaves_no_server_and_a_run_that_can_be_finished(tmp_path):
    run_dir = tmp_path / "run"
    arguments = ["embedded:4", "--levels", "1,2,4", "--output-tokens", "16", "--seconds", "30"]
    sweep = subprocess.Popen(
        [*WIDELANE, "sweep", *arguments, "--run-dir", str(run_dir), "--quiet"],
        env=environment(tmp_path / "runs"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _wait_for_a_repeat(run_dir, sweep)
    ours = [process for process in embedded_servers() if process.ppid() == sweep.pid]
    assert ours, "the embedded server runs while the sweep does"
    sweep.send_signal(signal.SIGKILL)
    sweep.wait(10)
    assert not psutil.wait_procs(ours, timeout=10)[1], "llama.cpp outlived the killed sweep"
    resume = ("sweep", "--resume", "--run-dir", run_dir, "--json", "--quiet")
    result = widelane(*resume, env=environment(tmp_path / "runs"), timeout_s=120)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["complete"] is True
    assert [level["concurrency"] for level in document["levels"]] == [1, 2, 4]
    assert all(level["output_tok_s"]["value"] > 0 for level in document["levels"])


def _wait_for_a_repeat(run_dir: Path, sweep: subprocess.Popen) -> None:
    """Return when the run holds its first finished repeat."""
    from widelane.lanes.run_database import DATABASE, connect

    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert sweep.poll() is None, "the sweep ended before it could be killed"
        if (run_dir / DATABASE).exists():
            reader = connect(run_dir / DATABASE)
            try:
                if reader.execute("SELECT count(*) FROM event WHERE kind = 'repeat'").fetchone()[0]:
                    return
            finally:
                reader.close()
        time.sleep(0.1)
    pytest.fail("no repeat was finished in time")


def test_ctrl_c_keeps_what_was_measured_and_takes_the_server_down(tmp_path):
    run_dir = tmp_path / "run"
    arguments = ["embedded:4", "--levels", "1,2,4,8", "--seconds", "60", "--run-dir", str(run_dir), "--json"]
    sweep = subprocess.Popen(
        [*WIDELANE, "sweep", *arguments],
        env=environment(tmp_path / "runs"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _wait_for_a_repeat(run_dir, sweep)
    ours = [process for process in embedded_servers() if process.ppid() == sweep.pid]
    os.kill(sweep.pid, signal.SIGINT)
    out, err = sweep.communicate(timeout=30)
    assert sweep.returncode == 130, err.decode()
    assert b"Traceback" not in err
    document = json.loads(out)
    assert document["complete"] is False
    assert document["levels"][0]["concurrency"] == 1
    assert not psutil.wait_procs(ours, timeout=5)[1]
