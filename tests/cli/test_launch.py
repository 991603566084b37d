"""`widelane launch` as a user runs it: what it prints, and that --run starts, watches and ends a real process."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import psutil
import pytest

from tests.cli.run_widelane import WIDELANE, environment, widelane
from tests.facts.model_folders import write_tiny_gguf

STAND_IN = Path(__file__).parents[1] / "engines" / "stand_in_server.py"
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder; its weights are never read."""
    folder = tmp_path / "small model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def options(kind: str, port: int) -> list[str]:
    """The stand-in server in place of vLLM's program."""
    program = f"{sys.executable} {STAND_IN} {kind}"
    return ["--engine", "vllm", "--device", "rtx-4090", "--program", program, "--port", str(port), "--run"]


def test_every_flag_stands_on_a_line_with_its_reason(folder: Path, tmp_path: Path) -> None:
    done = widelane(
        *("launch", folder, "--engine", "vllm", "--device", "rtx-4090", "--slots", "24", "--max-tokens", "4096"),
        env=environment(tmp_path / "runs"),
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"--max-num-seqs 24 +24 requests decode together", done.stdout)
    assert re.search(r"--enforce-eager +It would switch CUDA graphs off", done.stdout)
    (command,) = (line for line in done.stdout.splitlines() if " serve " in line and "--max-model-len 4096" in line)
    assert f"vllm serve '{folder}' --served-model-name" in command


def test_json_gives_the_words_with_their_reasons(folder: Path, tmp_path: Path) -> None:
    done = widelane(
        *("launch", folder, "--engine", "vllm", "--device", "rtx-4090", "--engine-version", "0.33.0", "--json"),
        env=environment(tmp_path / "runs"),
    )
    document = json.loads(done.stdout)
    assert document["schema"] == {"name": "widelane.launch", "version": 1}
    launch = document["launch"]
    assert (launch["engine"], launch["version"], launch["port"]) == ("vllm", "0.33.0", 8000)
    assert all(argument["reason"] for argument in launch["argv"] if argument["flag"])
    assert launch["left_out"] and all(left["reason"] for left in launch["left_out"])


def test_a_unit_and_a_compose_file(folder: Path, tmp_path: Path) -> None:
    env = environment(tmp_path / "runs")
    base = ("launch", folder, "--engine", "vllm", "--device", "rtx-4090", "--port", "9000")
    unit = widelane(*base, "--systemd", env=env).stdout
    compose = widelane(*base, "--docker", env=env).stdout
    assert unit.startswith("# widelane launch: vllm") and f'vllm serve "{folder}" \\' in unit and "--port 9000" in unit
    assert f'"{folder}:/models:ro"' in compose and '"127.0.0.1:9000:8000"' in compose


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--systemd", "--docker"), "give one of them"),
        (("--port", "70000"), "--port 70000"),
        (("--program", ""), "--program is empty"),
        (("--kv-dtype", "q7"), "q7"),
        (("--host", ""), "--host ''"),
        (("--host", "http://box"), "no address"),
        (("--docker", "--host", "box.lan"), "box.lan is a name"),
        (("--engine-version", "garbage"), "such as 0.20.0"),
        (("--engine-version", "9" * 5000), "such as 0.20.0"),
        (("--tool-call-parser", "--evil x"), "--tool-call-parser"),
        (("--draft-depth", "3"), "nothing drafts"),
        (("--state-dtype", "nvfp4"), "float32, float16 or bfloat16"),
        (("--draft-model", "qwen3-0.6b", "--engine-version", "0.12"), "since 0.15"),
        (("--", "--port", "9"), "say it before"),
        (("--", "--x\ny"), "characters that cannot be typed"),
    ],
)
def test_bad_input_is_one_error(folder: Path, tmp_path: Path, more: tuple[str, ...], message: str) -> None:
    done = widelane(
        "launch", folder, "--engine", "vllm", "--device", "rtx-4090", *more, env=environment(tmp_path / "runs")
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["two\nlines", "turn\x1b[31m", os.fsdecode(b"m\xff")])
def test_a_folder_whose_name_no_document_can_carry(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "config.json").write_text(json.dumps(CONFIG))
    done = widelane("launch", tmp_path / name, "--device", "rtx-4090", "--systemd", env=environment(tmp_path / "runs"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "Rename the file" in done.stderr and "\x1b" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["~x", "a;b", "-rf"])
def test_a_folder_by_its_name_alone_is_never_taken_for_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "config.json").write_text(json.dumps(CONFIG))
    monkeypatch.chdir(tmp_path)
    typed = f"./{name}" if name.startswith("-") else name
    done = widelane(
        *("launch", typed, "--device", "rtx-4090", "--engine", "ollama", "--json"), env=environment(tmp_path / "runs")
    )
    assert done.returncode == 0, done.stderr
    first, _ = json.loads(done.stdout)["launch"]["afterwards"]
    assert shlex.split(first.partition(" > ")[0])[2] == str(tmp_path / name)


def test_the_gguf_that_a_folder_holds_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    file = write_tiny_gguf(folder / "m.gguf")
    done = widelane("launch", folder, "--device", "rtx-4090", "--json", env=environment(tmp_path / "runs"))
    assert f"llama-server -m {file} " in json.loads(done.stdout)["launch"]["command"]


def test_a_gguf_by_any_name_is_loaded(tmp_path: Path) -> None:
    """Ollama keeps its files as `sha256-…`."""
    blob = write_tiny_gguf(tmp_path / "sha256-0123")
    done = widelane("launch", blob, "--device", "rtx-4090", "--json", env=environment(tmp_path / "runs"))
    assert f"llama-server -m {blob} " in json.loads(done.stdout)["launch"]["command"]


def test_a_draft_model_goes_by_what_the_engine_can_load(tmp_path: Path) -> None:
    def command(engine: str) -> str:
        asked = ("launch", "qwen3-8b", "--device", "gb10", "--use", "interactive", "--draft-model", "qwen3-0.6b")
        done = widelane(*asked, "--engine", engine, "--json", env=environment(tmp_path / "runs"))
        return str(json.loads(done.stdout)["launch"]["command"])

    assert '"model":"Qwen/Qwen3-0.6B"' in command("vllm")
    assert "--speculative-draft-model-path Qwen/Qwen3-0.6B" in command("sglang")
    assert "--spec-draft-model DRAFT.gguf" in command("llama.cpp")


def test_an_engine_that_is_not_installed_says_how_to_get_it(folder: Path, tmp_path: Path, port: int) -> None:
    env = environment(tmp_path / "runs", PATH="/nonexistent")
    done = widelane(
        *("launch", folder, "--engine", "vllm", "--device", "rtx-4090", "--port", str(port), "--run"), env=env
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "vllm serve" in done.stderr and "pip install vllm" in done.stderr and "--program" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_weights_must_be_named_to_be_run(tmp_path: Path) -> None:
    done = widelane(
        *("launch", "qwen3-8b", "--engine", "llama.cpp", "--device", "rtx-4090", "--run"),
        env=environment(tmp_path / "runs"),
    )
    assert done.returncode == 2 and "in place of MODEL.gguf" in done.stderr


def test_a_taken_port_is_refused_before_anything_is_started(folder: Path, tmp_path: Path, port: int) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        done = widelane("launch", folder, *options("ready", port), env=environment(tmp_path / "runs"))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"port {port} is taken by process {os.getpid()}" in done.stderr


def test_a_server_that_dies_while_it_loads(folder: Path, tmp_path: Path, port: int) -> None:
    done = widelane("launch", folder, *options("dies", port), env=environment(tmp_path / "runs"))
    assert done.returncode == 1
    assert "The server ended with status 1." in done.stderr
    assert "RuntimeError: no memory left for this model" in done.stderr
    (log,) = (tmp_path / "runs").glob("*-launch-vllm-*/server.log")
    assert "stand-in dies" in log.read_text()


@pytest.fixture
def running(folder: Path, tmp_path: Path, port: int) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """`widelane launch --run` once it says that the server answers, and the server's worker."""
    log = tmp_path / "server.log"
    command = [*WIDELANE, "launch", str(folder), *options("worker", port), "--log-file", str(log)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment(tmp_path / "runs")
    )
    assert process.stderr is not None
    try:
        _until("answers at", process.stderr)
        found = re.search(r"worker (\d+)", log.read_text())
        assert found is not None
        yield process, psutil.Process(int(found[1]))
    finally:
        process.kill()
        process.communicate()


def _until(words: str, stream: IO[str]) -> None:
    for line in stream:
        if words in line:
            return
    pytest.fail(f"it never said {words!r}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_server_and_its_workers(
    running: tuple[subprocess.Popen[str], psutil.Process], number: signal.Signals
) -> None:
    process, worker = running
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "ending vllm" in stderr and "Traceback" not in stderr
    assert not psutil.pid_exists(worker.pid) or worker.status() == psutil.STATUS_ZOMBIE
