"""The real server as a process: it starts fast, listens on loopback only, is logged, and never outlives its parent."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.live.conftest import running
from widelane.engines.embedded import EmbeddedServer
from widelane.engines.model_cache import ModelCache
from widelane.errors import EmbeddedServerFailed

pytestmark = pytest.mark.live

WAIT_S = 30.0


def test_a_second_start_takes_seconds_and_a_stop_leaves_nothing(tmp_path: Path, cache_dir: Path | None) -> None:
    with running(tmp_path, cache_dir):
        pass
    began = time.perf_counter()
    with running(tmp_path, cache_dir) as server:
        start_s = time.perf_counter() - began
        pid = server.pid

    assert start_s < 10
    assert not psutil.pid_exists(pid)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["llama-server-2.log", "llama-server.log"]


def test_it_listens_on_loopback_only_and_its_launch_line_names_the_port(tmp_path: Path, cache_dir: Path | None) -> None:
    with running(tmp_path, cache_dir, slots=2) as server:
        listening = [
            tuple(connection.laddr)
            for connection in psutil.Process(server.pid).net_connections(kind="inet")
            if connection.status == psutil.CONN_LISTEN
        ]

        port = urlsplit(server.url).port
        assert listening == [("127.0.0.1", port)]
        assert f"--host 127.0.0.1 --port {port} " in server.launch_line
        assert "-np 2 -c 4096" in server.launch_line


def test_the_log_tells_what_http_hides(tmp_path: Path, cache_dir: Path | None) -> None:
    with running(tmp_path, cache_dir) as shared, running(tmp_path, cache_dir, slots=2, kv_type="q8_0") as split:
        shared_log, split_log = shared.log_path.read_text(), split.log_path.read_text()

    assert "n_slots = 4, n_ctx_slot = 8192, kv_unified = 'true'" in shared_log
    assert "K (f16)" in shared_log
    assert "V (f16)" in shared_log
    assert "n_slots = 2, n_ctx_slot = 2048, kv_unified = 'false'" in split_log
    assert "K (q8_0)" in split_log
    assert "V (q8_0)" in split_log


def test_a_model_cut_short_is_one_clear_error_with_llama_cpps_words(tmp_path: Path, cache_dir: Path | None) -> None:
    cut = tmp_path / "cut.gguf"
    with ModelCache(cache_dir).model().open("rb") as whole:
        cut.write_bytes(whole.read(5_000_000))

    with pytest.raises(EmbeddedServerFailed) as raised, running(tmp_path / "logs", cache_dir, model=cut):
        pass

    message = str(raised.value)
    assert "model is corrupted or incomplete" in message
    assert str(tmp_path / "logs" / "llama-server.log") in message
    assert no_server_of(os.getpid())


def test_a_server_that_dies_is_noticed(tmp_path: Path, cache_dir: Path | None) -> None:
    with running(tmp_path, cache_dir) as server:
        server.check_alive()
        os.kill(server.pid, signal.SIGKILL)

        with pytest.raises(EmbeddedServerFailed, match="ended by signal 9"):
            while True:
                server.check_alive()
                time.sleep(0.01)


async def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path, cache_dir: Path | None) -> None:
    server = EmbeddedServer(log_dir=tmp_path, cache_dir=cache_dir, threads=1)
    starting = asyncio.ensure_future(server.__aenter__())
    while no_server_of(os.getpid()):
        await asyncio.sleep(0.01)

    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    assert no_server_of(os.getpid())


# Starts a server, keeps it busy with a long answer, and waits. Ends only when it is killed.
PARENT = """
import asyncio, pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job is started with it ignored
from widelane.engines import embedded_process
from widelane.engines.embedded import EmbeddedServer

async def main(log_dir, cache_dir, child_module):
    embedded_process.CHILD_MODULE = child_module
    cache_dir = pathlib.Path(cache_dir) if cache_dir else None
    async with EmbeddedServer(log_dir=pathlib.Path(log_dir), cache_dir=cache_dir, threads=1) as server:
        port = int(server.url.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b'{"prompt": "Once upon a time", "max_tokens": 4000, "stream": true, "ignore_eos": true}'
        writer.write(b"POST /v1/completions HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/json\\r\\n"
                     b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
        await reader.readuntil(b"data: ")
        print(server.pid, flush=True)
        await reader.read(-1)

asyncio.run(main(*sys.argv[1:]))
"""
# The child as it is on a system without PR_SET_PDEATHSIG.
LIFE_LINE_ONLY = """
import runpy, sys
sys.platform = "darwin"
runpy.run_module("widelane.engines.embedded_child", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("how", "child_module"),
    [
        (signal.SIGKILL, "widelane.engines.embedded_child"),
        (signal.SIGKILL, "life_line_only"),
        (signal.SIGTERM, "widelane.engines.embedded_child"),
        (signal.SIGINT, "widelane.engines.embedded_child"),
    ],
)
def test_the_server_does_not_outlive_its_parent_even_while_it_decodes(
    tmp_path: Path, cache_dir: Path | None, child_module: str, how: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "life_line_only.py").write_text(LIFE_LINE_ONLY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = [sys.executable, "-c", PARENT, str(tmp_path), str(cache_dir or ""), child_module]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        server = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(how)

        gone, _ = psutil.wait_procs([server], timeout=WAIT_S)

    assert gone == [server]


def no_server_of(pid: int) -> bool:
    """Whether the process has no embedded server as its child."""
    return not any("embedded_child" in " ".join(child.cmdline()) for child in psutil.Process(pid).children())
