"""Virtual time: ordinary asyncio code in which waiting costs nothing, and a deadlock is an error.

    reply = run_virtual(main)          # `await asyncio.sleep(240)` inside returns in microseconds

The loop's clock stands still while anything can run. When every task waits and no socket has anything to read, the
clock jumps to the next timer. Real loopback sockets work: before a jump the loop gives the kernel a moment of real
time to deliver, a longer one before a longer jump, since a wrong long jump is what fires a timeout by mistake.

Rules:
1. Time comes from the loop: pass `LoopClock()` to what wants a clock.
2. Threads, executors and subprocesses make no progress in virtual time and are refused (`VirtualTimeError`).
3. Nothing ready and no timer: `Deadlock`, which names every waiting task and the line it waits at.
4. One thread, one order: the same code with the same seeds gives the same trace.

What has a thread by itself and waits for it must know where it is (`is_virtual`) and stand still for it instead.

The kernel decides how bytes are split over reads, so code under test must not depend on that (nor may it elsewhere).
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from types import CodeType, FrameType
from typing import Any, NoReturn, TypeVar

from widelane.errors import WidelaneError

T = TypeVar("T")

LONGEST_RUN_S = 30 * 86_400.0
"""Virtual seconds after which a run is taken to be endless."""
DEADLOCK_GRACE_S = 0.5
"""Real seconds in which a socket may still deliver before a deadlock is declared."""
# (jumps from this many virtual seconds on, real seconds of grace). epoll rounds waits up to whole milliseconds.
_GRACES = ((10.0, 0.005), (0.5, 0.002))
_SHORT_POLLS = 3
_SHORT_POLL_S = 20e-6


class VirtualTimeError(WidelaneError):
    """Something was asked for that makes no progress in virtual time."""


class Deadlock(VirtualTimeError):
    """Every task waits for something that can no longer happen."""


def run_virtual(main: Callable[[], Coroutine[Any, Any, T]], *, longest_s: float = LONGEST_RUN_S) -> T:
    """What `main()` returns, run in virtual time that starts at 0.

    Args:
        main: a coroutine function without arguments.
        longest_s: virtual seconds after which the run is stopped as endless.

    Raises:
        Deadlock: everything waits, and nothing is left that could end the waiting.
        VirtualTimeError: a thread or a subprocess was asked for, or the run was endless.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(longest_s)) as runner:
        return runner.run(main())


def is_virtual(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether time in this loop jumps, so that nothing outside it makes progress."""
    return isinstance(loop, VirtualTimeLoop)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer when nothing else is to be done."""

    def __init__(self, longest_s: float = LONGEST_RUN_S) -> None:
        self._virtual_s = 0.0
        self._longest_s = longest_s
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual_s

    def jump(self, seconds: float) -> None:
        """Let virtual time pass.

        Raises:
            VirtualTimeError: the run is endless.
        """
        self._virtual_s += seconds
        if self._virtual_s > self._longest_s:
            raise VirtualTimeError(
                f"the run passed {self._longest_s:g} virtual seconds without ending; these wait:\n"
                f"{self.describe_waiting()}"
            )

    def describe_waiting(self) -> str:
        """Every unfinished task, and where it waits, one a line."""
        tasks = sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())
        return "\n".join(f"  {task.get_name()}: {_where(task)}" for task in tasks) or "  (no task)"

    # --- refused: what would need real time

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> NoReturn:  # type: ignore[override]
        raise VirtualTimeError(f"a thread makes no progress in virtual time: run_in_executor({_name(func)})")

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise VirtualTimeError("a subprocess makes no progress in virtual time")

    async def subprocess_shell(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise VirtualTimeError("a subprocess makes no progress in virtual time")

    async def getaddrinfo(self, host: Any, port: Any, **kwargs: Any) -> Any:
        """Resolved at once, numeric addresses and `localhost` only: a name server needs real time."""
        if host in ("localhost", b"localhost"):
            host = "127.0.0.1"
        flags = kwargs.pop("flags", 0) | (0 if host is None else socket.AI_NUMERICHOST)
        return socket.getaddrinfo(host, port, flags=flags, **kwargs)


class _JumpingSelector(selectors.BaseSelector):
    """The system's selector; where that would sleep until the next timer, the loop's clock jumps instead."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready; if nothing is, time has jumped by `timeout`.

        Raises:
            Deadlock: nothing is ready and there is no timer to jump to.
        """
        ready = self._real.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:
            ready = self._real.select(DEADLOCK_GRACE_S)
            if not ready:
                raise Deadlock(f"every task waits and there is no timer:\n{self._loop.describe_waiting()}")
            return ready
        # One file is the loop's own wake-up pipe: without others nothing can be on its way.
        if len(self._real.get_map()) > 1:
            ready = self._grace(timeout)
            if ready:
                return ready
        self._loop.jump(timeout)
        return []

    def _grace(self, jump_s: float) -> list[tuple[selectors.SelectorKey, int]]:
        for from_s, grace_s in _GRACES:
            if jump_s >= from_s:
                return self._real.select(grace_s)
        for _ in range(_SHORT_POLLS):
            time.sleep(_SHORT_POLL_S)
            ready = self._real.select(0)
            if ready:
                return ready
        return []


def _name(func: Callable[..., Any]) -> str:
    return str(getattr(func, "__qualname__", func))


def _where(task: asyncio.Task[Any]) -> str:
    """The innermost line at which a task waits, as `function (file:line)`."""
    awaited: Any = task.get_coro()
    place = "not started"
    while awaited is not None:
        frame: FrameType | None = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        code: CodeType | None = frame.f_code if frame is not None else None
        if frame is None or code is None:
            break
        place = f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return place
