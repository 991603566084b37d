"""The child process of the embedded server, as its parent holds it: start, report, log, end.

A plain `Popen` that is looked at now and then, rather than asyncio's own subprocess: it works the same on every
event loop, and it can still be ended when the loop is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from widelane.engines.log_tail import last_words
from widelane.errors import EmbeddedServerFailed

CHILD_MODULE: Final = "widelane.engines.embedded_child"
POLL_S: Final = 0.02
STOP_GRACE_S: Final = 3.0
"""Between SIGTERM and SIGKILL."""
REPORT_BYTES: Final = 4096


class ServerProcess:
    """A started child. Its stdin is a life line: when this process ends, the system closes it and the child ends."""

    def __init__(self, settings: dict[str, Any], log_path: Path) -> None:
        """Start it. It must be called on a thread that outlives the child.

        Raises:
            EmbeddedServerFailed: the system cannot start another process.
        """
        self.log_path = log_path
        # -P: a file named like a module in the current folder must not be imported in its place.
        command = [sys.executable, "-P", "-m", CHILD_MODULE]
        config = {"parent_pid": os.getpid(), "settings": settings}
        try:
            with log_path.open("ab") as log:
                self._popen = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, process_group=0
                )
        except OSError as error:
            raise EmbeddedServerFailed(f"The embedded server could not be started: {error}.") from error
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._report = b""
        os.set_blocking(self._popen.stdout.fileno(), False)
        with contextlib.suppress(BrokenPipeError):  # it is gone already; what it said is in its log
            self._popen.stdin.write(json.dumps(config).encode() + b"\n")
            self._popen.stdin.flush()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def failure(self) -> EmbeddedServerFailed | None:
        """Why it ended, None while it runs."""
        status = self._popen.poll()
        if status is None:
            return None
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        hint = " (the system may be out of memory)" if status == -9 else ""
        return EmbeddedServerFailed(f"The embedded server {how}{hint}.\n{last_words(self.log_path)}")

    async def report(self, limit_s: float) -> dict[str, str]:
        """What the child says when the server answers: `url`, `version`.

        Raises:
            EmbeddedServerFailed: it ended before, or took longer than `limit_s`.
        """
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._report:
            self._read_report()
            if b"\n" in self._report:
                break
            if (failure := self.failure()) is not None:
                raise failure
            if time.monotonic() > deadline:
                raise EmbeddedServerFailed(
                    f"The embedded server did not start within {limit_s:g} s.\n{last_words(self.log_path)}"
                )
            await asyncio.sleep(POLL_S)
        said: dict[str, str] = json.loads(self._report)
        return said

    def _read_report(self) -> None:
        assert self._popen.stdout is not None
        with contextlib.suppress(BlockingIOError):
            self._report += os.read(self._popen.stdout.fileno(), REPORT_BYTES)

    async def stop(self) -> None:
        """End it and wait until it is gone; safe to call twice, and also when cancelled while waiting."""
        try:
            if self._popen.poll() is None:
                self._popen.terminate()
            deadline = time.monotonic() + STOP_GRACE_S
            while self._popen.poll() is None and time.monotonic() < deadline:
                await asyncio.sleep(POLL_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it now and take its exit status, so that no zombie stays."""
        if self._popen.poll() is None:
            self._popen.kill()
            self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
