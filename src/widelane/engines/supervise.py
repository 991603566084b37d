"""A server of an installed engine, started for a user: until it answers, until it ends, with all its workers.

`async with LaunchedServer(argv, url=…, log_path=…) as server:` and then `await server.died()` beside whatever else is
waited for. Nothing of it is left behind, however this process ends (see `keeper_child`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from widelane.engines.health import is_healthy
from widelane.engines.local_process import find_owner
from widelane.engines.log_tail import last_words, tail
from widelane.errors import LaunchFailed, UsageError

KEEPER_MODULE: Final = "widelane.engines.keeper_child"
POLL_S: Final = 0.1
END_LIMIT_S: Final = 40.0
"""Longest wait for the keeper: its own grace, and time to sweep."""
KILLED_LIMIT_S: Final = 10.0
REPORT_BYTES: Final = 4096

Progress = Callable[[float, str], None]
"""Told seconds since the start, and the newest line of the log."""


class LaunchedServer:
    """One started server.

    Args:
        argv: program first; it must exist.
        environ: the whole environment of the program.
        url: root of the server, where `health_path` answers 200 once it can take requests.
        log_path: where its output goes; appended to.
        start_limit_s: longest wait for the first healthy answer. A program that ends is noticed at once.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str],
        url: str,
        health_path: str,
        log_path: Path,
        start_limit_s: float,
        progress: Progress | None = None,
    ) -> None:
        self._argv = list(argv)
        self._environ = dict(environ)
        self._health_path = health_path
        self._start_limit_s = start_limit_s
        self._progress = progress
        self._keeper: subprocess.Popen[bytes] | None = None
        self._said: dict[str, Any] = {}
        self._unread = b""
        self.url = url
        self.log_path = log_path

    @property
    def pid(self) -> int:
        """Of the program itself."""
        return int(self._said["pid"])

    async def __aenter__(self) -> Self:
        """Start it and wait until it answers.

        Raises:
            LaunchFailed: it could not be started, ended, or did not answer in time; says so with its last log lines.
        """
        self._start()
        try:
            await self._wait_until_healthy()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def died(self) -> LaunchFailed:
        """Return, with the reason, when the server has ended by itself."""
        while (failure := self.failure()) is None:
            await asyncio.sleep(POLL_S)
        return failure

    def failure(self) -> LaunchFailed | None:
        """Why it ended, None while it runs."""
        self._read_report()
        if "failed" in self._said:
            return LaunchFailed(f"The server could not be started: {self._said['failed']}.")
        if "status" not in self._said and self._running().poll() is None:
            return None
        status = int(self._said.get("status", 1))
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        hint = " (the system may be out of memory)" if status == -signal.SIGKILL else ""
        return LaunchFailed(f"The server {how}{hint}.\n{last_words(self.log_path)}")

    async def stop(self) -> None:
        """Ask it to end and wait until nothing of it is left; at once when cancelled meanwhile. Safe to call twice."""
        keeper = self._running()
        try:
            if keeper.poll() is None:
                keeper.terminate()
            deadline = time.monotonic() + END_LIMIT_S
            while keeper.poll() is None and time.monotonic() < deadline:
                await asyncio.sleep(POLL_S)
        finally:
            self._end_now(keeper)

    def _end_now(self, keeper: subprocess.Popen[bytes]) -> None:
        """Ask a second time, which kills the program; the keeper itself is never killed while it has work to do."""
        if keeper.poll() is None:
            keeper.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                keeper.wait(KILLED_LIMIT_S)
        if keeper.poll() is None:
            keeper.kill()
            keeper.wait()
        for pipe in (keeper.stdin, keeper.stdout):
            if pipe is not None:
                pipe.close()

    def _start(self) -> None:
        command = [sys.executable, "-P", "-m", KEEPER_MODULE, *self._argv]
        try:
            with self.log_path.open("ab") as log:
                self._keeper = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=self._environ,
                    process_group=0,  # Ctrl-C in a terminal reaches only us, and we end it
                )
        except OSError as error:
            raise LaunchFailed(f"The server could not be started: {error.strerror or error}.") from error
        assert self._keeper.stdout is not None
        os.set_blocking(self._keeper.stdout.fileno(), False)

    async def _wait_until_healthy(self) -> None:
        begun = time.monotonic()
        while True:
            if (failure := self.failure()) is not None:
                raise failure
            if await is_healthy(self.url, self._health_path):
                return
            waited_s = time.monotonic() - begun
            if waited_s > self._start_limit_s:
                raise LaunchFailed(
                    f"The server did not answer {self.url}{self._health_path} within {self._start_limit_s:g} s; "
                    f"give it longer with --start-timeout.\n{last_words(self.log_path)}"
                )
            if self._progress is not None:
                self._progress(waited_s, next(reversed(tail(self.log_path)), ""))
            await asyncio.sleep(POLL_S)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._keeper is None:
            raise RuntimeError("the server was not started: use it with `async with`")
        return self._keeper

    def _read_report(self) -> None:
        pipe = self._running().stdout
        if pipe is None or pipe.closed:
            return
        with contextlib.suppress(BlockingIOError):
            self._unread += os.read(pipe.fileno(), REPORT_BYTES)
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._said |= json.loads(line)


def require_free_port(host: str, port: int) -> None:
    """Nothing when a server can listen there.

    Raises:
        UsageError: the port is taken, and by whom; or the address is none of this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OverflowError:
            raise UsageError(f"--port {port}: a port is a number from 1 to 65535") from None
        except OSError as error:
            taken = error.errno in (48, 98)  # EADDRINUSE on macOS, on Linux
            why = (
                f"port {port} is taken by {_owner(port)}: end it, or give another --port"
                if taken
                else (f"cannot listen on {host}:{port}: {error.strerror or error}")
            )
            raise UsageError(why) from None


def _owner(port: int) -> str:
    found = find_owner(f"http://127.0.0.1:{port}")
    if found.process is None:
        return "another program"
    words = " ".join(found.process.argv)
    return f"process {found.process.pid} ({words[:60]}{'…' if len(words) > 60 else ''})"
