"""A started server: waited for, watched, ended with all its workers. Real processes, real sockets."""

import asyncio
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from widelane.engines import keeper_child
from widelane.engines.supervise import LaunchedServer, require_free_port
from widelane.errors import LaunchFailed, UsageError

STAND_IN = Path(__file__).with_name("stand_in_server.py")
LIMIT_S = 20.0


@pytest.fixture
def port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def server(tmp_path: Path, port: int) -> Callable[..., LaunchedServer]:
    """Makes a server of a kind, not started yet."""

    def make(kind: str, *, start_limit_s: float = LIMIT_S, **environ: str) -> LaunchedServer:
        return LaunchedServer(
            [sys.executable, str(STAND_IN), kind, "--port", str(port)],
            environ={**os.environ, **environ},
            url=f"http://127.0.0.1:{port}",
            health_path="/health",
            log_path=tmp_path / "server.log",
            start_limit_s=start_limit_s,
        )

    return make


def worker_of(log: Path) -> psutil.Process:
    """The worker whose process id stands in the log."""
    found = re.search(r"worker (\d+)", log.read_text())
    assert found is not None
    return psutil.Process(int(found[1]))


def is_gone(process: psutil.Process) -> bool:
    """Whether a process is no more, waiting a moment for the system to say so."""
    try:
        process.wait(5)
    except psutil.TimeoutExpired:
        return False
    return not process.is_running()


async def test_it_is_there_when_it_answers_and_gone_afterwards(server: Callable[..., LaunchedServer]) -> None:
    async with server("slow", STAND_IN_WORD="a word of the environment") as started:
        process = psutil.Process(started.pid)
        assert process.is_running() and started.failure() is None
        assert "with a word of the environment" in started.log_path.read_text()
    assert is_gone(process)


@pytest.mark.parametrize("kind", ["worker", "orphan"])
async def test_workers_that_will_not_end_are_ended(kind: str, server: Callable[..., LaunchedServer]) -> None:
    if kind == "orphan" and sys.platform != "linux":
        pytest.skip("orphans in a session of their own come back only on Linux")
    async with server(kind) as started:
        worker = worker_of(started.log_path)
        assert worker.is_running()
    assert is_gone(worker)


async def test_a_server_that_dies_while_it_loads_is_told_with_its_last_words(
    server: Callable[..., LaunchedServer], tmp_path: Path
) -> None:
    with pytest.raises(LaunchFailed) as raised:
        async with server("dies"):
            pass
    assert str(raised.value) == (
        "The server ended with status 1.\n"
        "  RuntimeError: no memory left for this model\n"
        f"Its whole log: {tmp_path / 'server.log'}"
    )


async def test_a_server_that_dies_later_is_noticed(server: Callable[..., LaunchedServer]) -> None:
    async with server("dies-later") as started:
        async with asyncio.timeout(LIMIT_S):
            failure = await started.died()
    assert "ended with status 7" in str(failure)


async def test_a_server_that_is_killed_is_told_with_the_signal(server: Callable[..., LaunchedServer]) -> None:
    async with server("ready") as started:
        psutil.Process(started.pid).kill()
        async with asyncio.timeout(LIMIT_S):
            failure = await started.died()
    assert "ended by signal 9 (the system may be out of memory)" in str(failure)


async def test_a_server_that_never_answers_is_given_up_and_ended(server: Callable[..., LaunchedServer]) -> None:
    silent = server("silent", start_limit_s=0.5)
    with pytest.raises(LaunchFailed, match=r"did not answer http://127\.0\.0\.1:\d+/health within 0\.5 s"):
        async with silent:
            pass
    assert is_gone(psutil.Process(silent.pid)) if psutil.pid_exists(silent.pid) else True


async def test_cancelling_a_stop_kills_at_once(server: Callable[..., LaunchedServer]) -> None:
    async with server("deaf") as started:
        process = psutil.Process(started.pid)
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await started.stop()
        assert is_gone(process)
        assert time.monotonic() - begun < keeper_child.GRACE_S / 2


async def test_a_program_that_cannot_be_started_is_named(tmp_path: Path, port: int) -> None:
    not_a_program = tmp_path / "program"
    not_a_program.write_text("not executable")
    server = LaunchedServer(
        [str(not_a_program)],
        environ=os.environ,
        url=f"http://127.0.0.1:{port}",
        health_path="/health",
        log_path=tmp_path / "server.log",
        start_limit_s=LIMIT_S,
    )
    with pytest.raises(LaunchFailed, match=r"could not be started: .*program: Permission denied"):
        async with server:
            pass


def test_nothing_is_left_when_we_are_killed_ourselves(tmp_path: Path, port: int) -> None:
    """Even SIGKILL closes the life line of the process between."""
    script = textwrap.dedent(
        f"""
        import asyncio, os
        from pathlib import Path
        from widelane.engines.supervise import LaunchedServer

        async def main():
            server = LaunchedServer(
                [{sys.executable!r}, {str(STAND_IN)!r}, "worker", "--port", "{port}"], environ=os.environ,
                url="http://127.0.0.1:{port}", health_path="/health",
                log_path=Path({str(tmp_path / "server.log")!r}), start_limit_s=20,
            )
            async with server:
                print(server.pid, flush=True)
                await asyncio.sleep(600)

        asyncio.run(main())
        """
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        process = psutil.Process(int(parent.stdout.readline()))
        worker = worker_of(tmp_path / "server.log")
        parent.kill()
    assert is_gone(process) and is_gone(worker)


def test_a_port_that_is_taken_is_refused_with_its_owner(port: int) -> None:
    require_free_port("127.0.0.1", port)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(UsageError, match=rf"port {port} is taken by process {os.getpid()} "):
            require_free_port("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused(port: int) -> None:
    with pytest.raises(UsageError, match=r"cannot listen on 192\.0\.2\.1"):
        require_free_port("192.0.2.1", port)
    with pytest.raises(UsageError, match="from 1 to 65535"):
        require_free_port("127.0.0.1", 99999)
