"""The process between us and a server that we start: `python -m widelane.engines.keeper_child PROGRAM ARGUMENT…`.

It starts the program in a session of its own, tells how it goes on stdout (one line of JSON at the start, one at the
end), and sees to it that nothing of it is left:

* its stdin is a life line: end of file means that whoever started us is gone, however that happened;
* the first SIGTERM, or the end of the life line, asks the program to end, the second ends it at once;
* when the program has ended, by itself or not, what is left of its process group and of its descendants is killed
  (an engine's workers outlive a crash of their parent now and then). On Linux orphans come to us
  (PR_SET_CHILD_SUBREAPER).

The program's own stdout and stderr go to our stderr, which is its log.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import psutil

PR_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h
GRACE_S: Final = 20.0
"""Between SIGTERM and SIGKILL: an engine frees GPU memory and ends its workers meanwhile."""
WORKERS_GRACE_S: Final = 2.0
"""For workers that are still ending when their parent has ended: they give shared memory back."""
GIVE_UP_S: Final = 10.0
"""A process that the kernel does not let go (waiting for a device) is left to the system."""
POLL_S: Final = 0.05


class Keeper:
    """One program and the wish to end it."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.at_once = threading.Event()

    def ask_to_end(self, *_: object) -> None:
        """Asked once: end it kindly. Asked twice: end it."""
        (self.at_once if self.stop.is_set() else self.stop).set()

    def watch_life_line(self, descriptor: int) -> None:
        """Ask for the end when `descriptor` reads end of file."""
        while os.read(descriptor, 1):
            pass
        self.ask_to_end()

    def run(self, argv: Sequence[str], report: int) -> int:
        """Keep the program until it has ended and nothing of it is left; its exit status."""
        try:
            # Its stdout is our stderr: the log.
            program = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=2, stderr=2, start_new_session=True)
        except OSError as error:
            _tell(report, {"failed": f"{argv[0]}: {error.strerror or error}"})
            return 1
        _tell(report, {"pid": program.pid})
        while program.poll() is None and not self.stop.wait(POLL_S):
            pass
        if program.poll() is None:
            self._end(program)
        self._sweep(program.pid)
        _tell(report, {"status": program.wait()})
        return 0

    def _end(self, program: subprocess.Popen[bytes]) -> None:
        program.terminate()  # not its workers: it ends them itself, in its own order
        deadline = time.monotonic() + GRACE_S
        while program.poll() is None and time.monotonic() < deadline and not self.at_once.wait(POLL_S):
            pass
        if program.poll() is None:
            _signal_group(program.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(GIVE_UP_S)

    def _sweep(self, group: int) -> None:
        """Ask what is left of the group and of our own descendants to end, then kill it."""
        _signal_group(group, signal.SIGTERM)
        _signal_each(_descendants(), signal.SIGTERM)
        deadline = time.monotonic() + WORKERS_GRACE_S
        while (left := _descendants()) and time.monotonic() < deadline + GIVE_UP_S:
            if self.at_once.is_set() or time.monotonic() > deadline:
                _signal_group(group, signal.SIGKILL)
                _signal_each(left, signal.SIGKILL)
            time.sleep(POLL_S)
        _signal_group(group, signal.SIGKILL)  # macOS: orphans are not ours, and still of the group


def main() -> int:
    """Keep the program of the command line."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    keeper = Keeper()
    signal.signal(signal.SIGTERM, keeper.ask_to_end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    life_line = sys.stdin.fileno()
    threading.Thread(target=keeper.watch_life_line, args=(life_line,), daemon=True).start()
    return keeper.run(sys.argv[1:], sys.stdout.fileno())


def _descendants() -> list[psutil.Process]:
    """Processes that come from us; those that have ended are taken leave of first."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return psutil.Process().children(recursive=True)


def _signal_each(processes: Sequence[psutil.Process], number: int) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses for a group of zombies
        os.killpg(group, number)


def _tell(report: int, words: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):  # whoever started us is gone
        os.write(report, json.dumps(words).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
