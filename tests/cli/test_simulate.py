"""`widelane simulate`, and `sweep` and `doctor` on a simulated server."""

import asyncio
import json
import signal
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.run_widelane import environment, widelane
from widelane.cli.parser import parse
from widelane.cli.simulate import listing, server_text, speed_of
from widelane.errors import UsageError
from widelane.sim.faults.catalogue import FAULTS
from widelane.sim.misconfigurations import MISCONFIGURATIONS


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--device gb10 --model qwen3.6-27b --engine vllm", "sim:gb10/qwen3.6-27b/vllm"),
        ("--device gb10 --model qwen3.6-27b", "sim:gb10/qwen3.6-27b/vllm"),
        ("sim:gb10/qwen3.6-27b/vllm?slots=8 --context 4096", "sim:gb10/qwen3.6-27b/vllm?slots=8&context=4096"),
        ("--profile sweep.json --slots 4", "sim:sweep.json?slots=4"),
        ("gb10/qwen3-8b/llama.cpp --fault rate_429_seconds,none",
         "sim:gb10/qwen3-8b/llama.cpp?fault=rate_429_seconds,none"),
    ],
)  # fmt: skip
def test_options_name_a_server(words: str, text: str) -> None:
    assert server_text(parse(["simulate", *words.split()])) == text


@pytest.mark.parametrize("words", ["", "--device gb10", "--profile a.json --device gb10", "sim:a/b/vllm --device gb10"])
def test_a_server_is_named_once(words: str) -> None:
    with pytest.raises(UsageError):
        server_text(parse(["simulate", *words.split()]))


def test_speeds() -> None:
    assert (speed_of("1"), speed_of("100"), speed_of("max")) == (1.0, 100.0, None)
    for wrong in ("0", "-1", "nan", "inf", "fast"):
        with pytest.raises(UsageError, match="--speed"):
            speed_of(wrong)


def test_the_list_names_everything() -> None:
    shown = listing()
    assert all(name in shown for name in (*FAULTS, *MISCONFIGURATIONS))


def test_a_sweep_of_a_simulated_server_takes_no_time(tmp_path: Path) -> None:
    words = ("sweep", "sim:gb10/qwen3.6-27b/vllm", "--levels", "1,4", "--json", "--quiet")
    done = widelane(*words, "--run-dir", tmp_path / "run", env=environment(tmp_path))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    rates = [level["output_tok_s"]["value"] for level in report["levels"]]
    # 27.8e9 weights of 2 bytes over 273 GB/s at 80 %: a quarter of a second a step.
    assert rates[0] == pytest.approx(4.4, rel=0.1)
    assert 3.5 < rates[1] / rates[0] < 4.0
    assert report["complete"]


def test_what_cannot_be_simulated_leaves_nothing(tmp_path: Path) -> None:
    server = "sim:gb10/qwen3.6-27b/vllm?misconfigured=gremlins"
    done = widelane("doctor", server, "--run-dir", tmp_path / "r", env=environment(tmp_path))
    assert done.returncode == 2
    assert "gremlins" in done.stderr
    assert not (tmp_path / "r").exists()
    named_twice = widelane("sweep", "sim:gb10/qwen3.6-27b/vllm", "--model", "other", env=environment(tmp_path))
    assert (named_twice.returncode, "--model other" in named_twice.stderr) == (2, True)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
async def test_it_serves_until_ctrl_c() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "widelane", "simulate", "sim:gb10/qwen3.6-27b/vllm", "--speed", "max", "--quiet",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    url = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
    body = json.dumps({"messages": [{"role": "user", "content": "What is the capital of France?"}]}).encode()

    def ask() -> str:
        with urllib.request.urlopen(f"{url}/v1/chat/completions", data=body, timeout=30) as reply:
            return str(json.load(reply)["choices"][0]["message"]["content"])

    assert "Paris" in await asyncio.to_thread(ask)
    process.send_signal(signal.SIGINT)
    out, err = await asyncio.wait_for(process.communicate(), 30)
    assert (process.returncode, out, err) == (0, b"", b"")
