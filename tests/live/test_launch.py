"""`widelane launch --run` where llama-server is not installed: the embedded llama.cpp stands in for it."""

import json
import re
import shutil
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.cli.run_widelane import WIDELANE, environment
from widelane.engines.model_cache import ModelCache

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


def test_the_embedded_server_runs_with_the_settings_of_the_command(cache_dir: Path | None, tmp_path: Path) -> None:
    if shutil.which("llama-server") is not None:
        pytest.skip("llama-server is installed here, so nothing needs to stand in for it")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *(*WIDELANE, "launch", str(ModelCache(cache_dir).model()), "--device", "cpu-ddr4-3200-2ch", "--run"),
        *("--slots", "3", "--max-tokens", "1000", "--typical-tokens", "300", "--port", str(port)),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tmp_path / "runs")
    )
    try:
        assert process.stderr is not None
        said = ""
        while "to measure it" not in said and (line := process.stderr.readline()):
            said += line
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/slots", timeout=10) as reply:
            slots = json.load(reply)
        process.send_signal(signal.SIGINT)
        stdout, rest = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert "the embedded llama.cpp (xllamacpp) is started" in " ".join(said.split())
    assert [slot["n_ctx"] for slot in slots] == [1024, 1024, 1024]  # 1000 in steps of 256
    assert re.search(r"-np 3 -c 3072\b", stdout)
    assert process.returncode == 0 and "ending llama.cpp" in rest
