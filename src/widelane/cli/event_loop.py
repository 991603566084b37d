"""Run a command's coroutine: on uvloop where it is installed, stopped cleanly by Ctrl-C and SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from widelane.virtual_time import VirtualTimeLoop

T = TypeVar("T")

GRACE_S = 5.0
"""From the first signal until what still waits (a server that does not answer) is cancelled."""


def run_async(main: Callable[[asyncio.Event], Coroutine[Any, Any, int]], *, virtual: bool = False) -> int:
    """The exit status of `main(stop)`.

    The first signal sets `stop`: finish what is cheap, keep what was done. The second, or five seconds, cancels.

    Args:
        virtual: run in virtual time, in which a simulated server's hours take seconds.
    """
    with asyncio.Runner(loop_factory=VirtualTimeLoop if virtual else _loop_factory()) as runner:
        return runner.run(_with_signals(main))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _with_signals(main: Callable[[asyncio.Event], Coroutine[Any, Any, int]]) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(main(stop))

    def on_signal() -> None:
        if stop.is_set():
            task.cancel()
            return
        stop.set()
        loop.call_later(GRACE_S, task.cancel)

    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C arrives as KeyboardInterrupt
            loop.add_signal_handler(number, on_signal)
    try:
        return await task
    except asyncio.CancelledError:
        if stop.is_set():
            raise KeyboardInterrupt from None
        raise


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """The work's result; KeyboardInterrupt, after the work was cancelled and has ended, when `stop` is set first."""
    task = asyncio.ensure_future(work)
    waiter = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([task, waiter], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise KeyboardInterrupt
        return task.result()
    finally:
        for left in (task, waiter):
            left.cancel()
        await asyncio.gather(task, waiter, return_exceptions=True)
