"""The child as its parent holds it, with small stand-ins for the server."""

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

from widelane.engines import embedded_process
from widelane.engines.embedded_process import ServerProcess
from widelane.errors import EmbeddedServerFailed

LIMIT_S = 20.0
HEAD = "import json, os, signal, sys, threading\nconfig = json.loads(sys.stdin.buffer.readline())\n"
WAIT = "threading.Event().wait()\n"
READY = 'print(json.dumps({"url": "http://127.0.0.1:1", "version": config["settings"]["v"]}), flush=True)\n'


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Starts a stand-in with the given body."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(embedded_process, "CHILD_MODULE", "stand_in")
    started: list[ServerProcess] = []

    def _start(body: str) -> ServerProcess:
        (tmp_path / "stand_in.py").write_text(HEAD + body)
        started.append(ServerProcess({"v": "7"}, tmp_path / "server.log"))
        return started[-1]

    yield _start
    for process in started:
        process.kill()


async def test_it_tells_what_the_child_reports(start) -> None:
    process = start(READY + WAIT)

    assert await process.report(LIMIT_S) == {"url": "http://127.0.0.1:1", "version": "7"}
    assert process.failure() is None


async def test_the_child_gets_the_parents_process_id_and_a_group_of_its_own(start) -> None:
    process = start(
        'print(json.dumps({"url": str(config["parent_pid"] == os.getppid()), '
        '"version": str(os.getpgrp() == os.getpid())}), flush=True)\n' + WAIT
    )

    assert await process.report(LIMIT_S) == {"url": "True", "version": "True"}


async def test_a_child_that_fails_is_reported_with_its_errors_and_its_log(start, tmp_path: Path) -> None:
    process = start(
        'print("0.00.1 I srv  init: fine", file=sys.stderr)\n'
        'print("0.00.2 E srv  load_model: failed to load model", file=sys.stderr)\n'
        'print("0.00.3 E srv  load_model: failed to load model", file=sys.stderr)\n'
        'print("0.00.4 I srv  init: cleaning up", file=sys.stderr)\n'
        "sys.exit(3)\n"
    )

    with pytest.raises(EmbeddedServerFailed) as raised:
        await process.report(LIMIT_S)

    assert str(raised.value) == (
        "The embedded server ended with status 3.\n"
        "  E srv  load_model: failed to load model\n"
        f"Its whole log: {tmp_path / 'server.log'}"
    )


async def test_a_child_that_is_killed_is_reported_with_its_signal(start) -> None:
    process = start("os.kill(os.getpid(), signal.SIGKILL)\n")

    with pytest.raises(EmbeddedServerFailed, match=r"ended by signal 9 \(the system may be out of memory\)"):
        await process.report(LIMIT_S)


async def test_a_child_that_hangs_is_given_up_after_the_limit(start) -> None:
    process = start(WAIT)

    with pytest.raises(EmbeddedServerFailed, match=r"did not start within 0\.1 s"):
        await process.report(0.1)


async def test_stopping_leaves_no_process_and_no_zombie(start) -> None:
    process = start(READY + WAIT)
    await process.report(LIMIT_S)

    await process.stop()
    await process.stop()

    assert not psutil.pid_exists(process.pid)


async def test_a_child_that_ignores_the_request_is_killed_after_the_grace(
    start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_process, "STOP_GRACE_S", 0.1)
    process = start("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY + WAIT)
    await process.report(LIMIT_S)

    await process.stop()

    assert not psutil.pid_exists(process.pid)
    assert process.failure() is not None
    assert "signal 9" in str(process.failure())


async def test_cancelling_while_it_stops_still_ends_the_child(start) -> None:
    process = start("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY + WAIT)
    await process.report(LIMIT_S)
    stopping = asyncio.create_task(process.stop())
    await asyncio.sleep(0)

    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping

    assert not psutil.pid_exists(process.pid)


async def test_a_file_in_the_current_folder_does_not_shadow_a_module(
    start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "stand_in.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(elsewhere)
    process = start(READY + WAIT)

    assert (await process.report(LIMIT_S))["version"] == "7"


async def test_a_python_that_cannot_be_started_is_one_clear_error(start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    with pytest.raises(EmbeddedServerFailed, match="could not be started"):
        start(WAIT)
