"""The process that owns a port of this machine, and what is never told of it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from widelane.engines.local_process import find_owner, is_this_machine

LISTEN = (
    "import socket,sys;s=socket.create_server(('127.0.0.1',0));print(s.getsockname()[1],flush=True);sys.stdin.read()"
)


@pytest.fixture
def server() -> Iterator[tuple[int, int]]:
    """A child that listens, with settings and secrets: (process id, port)."""
    environ = {**os.environ, "VLLM_API_KEY": "SECRET", "HF_TOKEN": "SECRET", "OLLAMA_NUM_PARALLEL": "4"}
    argv = [sys.executable, "-c", LISTEN, "--api-key", "SECRET", "-np", "4"]
    with subprocess.Popen(argv, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield child.pid, int(child.stdout.readline())
        child.kill()


def test_the_owner_of_a_port_is_found_with_its_settings_and_without_its_secrets(server: tuple[int, int]) -> None:
    pid, port = server
    found = find_owner(f"http://localhost:{port}/v1").process
    assert found is not None and found.pid == pid
    assert found.argv[-2:] == ("-np", "4")
    assert found.environ == {
        "OLLAMA_NUM_PARALLEL": "4",
        **{k: v for k, v in os.environ.items() if k.startswith("VLLM_")},
    }
    assert "SECRET" not in repr(found)


def test_a_free_port_has_no_owner() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = find_owner(f"http://127.0.0.1:{port}")
    assert found.process is None and str(port) in str(found.reason)


def test_another_machine_is_left_alone() -> None:
    assert find_owner("http://192.0.2.1:8080").process is None
    assert "another machine" in str(find_owner("https://api.example.org").reason)


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("0.0.0.0", True),
        ("192.0.2.1", False),
        ("example.org", False),
    ],
)
def test_which_hosts_are_this_machine(host: str, here: bool) -> None:
    assert is_this_machine(host) is here


def test_a_name_of_this_machine_is_this_machine() -> None:
    assert is_this_machine(socket.gethostname())
