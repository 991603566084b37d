"""Passes over a large buffer by all cores at once, through the C library, which Python lets run without its lock.

Read: `memchr` for a byte that is nowhere in the buffer, so that every byte is looked at. Copy: `memcpy` of one half to
the other. Both are the fastest code that the system has for it (vector instructions, streaming stores).
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, Self

from widelane.errors import WidelaneError

_FILLED_WITH: Final = 0x55
_ABSENT: Final = 0xAA
_LONGEST_PASS_S: Final = 120.0
"""A pass takes tenths of a second; a machine that swaps that much cannot be measured."""


class Passes(Protocol):
    """Passes over one buffer; each returns when every core is done."""

    @property
    def buffer_bytes(self) -> int:
        """Bytes that one read pass reads."""
        ...

    def read(self) -> None:
        """Every byte is read once."""
        ...

    def copy(self) -> None:
        """The first half of every core's part is copied to its second half."""
        ...


class MemoryPasses:
    """A filled buffer with one thread a part. Make it with `opened`.

    The parts are filled by the threads that later read them, so that each lies in its core's own memory.
    """

    def __init__(self, buffer_bytes: int, threads: int) -> None:
        """For `opened`."""
        self._libc = _libc()
        self._part_bytes = buffer_bytes // threads // (2 * mmap.PAGESIZE) * (2 * mmap.PAGESIZE)
        self._memory = mmap.mmap(-1, self._part_bytes * threads)
        self._view = (ctypes.c_char * len(self._memory)).from_buffer(self._memory)
        self._base = ctypes.addressof(self._view)
        self._work: Callable[[int], None] | None = self._fill
        self._failure: str | None = None
        self._barrier = threading.Barrier(threads + 1)
        self._threads = [threading.Thread(target=self._serve, args=(part,), daemon=True) for part in range(threads)]

    @classmethod
    @contextmanager
    def opened(cls, buffer_bytes: int, threads: int) -> Iterator[Self]:
        """A buffer of about `buffer_bytes`, filled, for as long as the block runs.

        Raises:
            WidelaneError: the memory cannot be had.
        """
        try:
            passes = cls(buffer_bytes, threads)
        except (OSError, ValueError, MemoryError) as error:
            raise WidelaneError(f"{buffer_bytes} bytes to measure memory with cannot be had: {error}.") from error
        try:
            passes._start()
            passes._run(passes._fill)
            yield passes
        finally:
            passes._close()

    @property
    def buffer_bytes(self) -> int:
        """Bytes that one read pass reads."""
        return len(self._memory)

    def read(self) -> None:
        """Every byte is read once.

        Raises:
            WidelaneError: a thread did not finish, or the buffer does not hold what was written.
        """
        self._run(self._read)

    def copy(self) -> None:
        """The first half of every part is copied to its second half.

        Raises:
            WidelaneError: a thread did not finish.
        """
        self._run(self._copy)

    # --- one part, in its thread

    def _fill(self, part: int) -> None:
        self._libc.memset(self._base + part * self._part_bytes, _FILLED_WITH, self._part_bytes)

    def _read(self, part: int) -> None:
        if self._libc.memchr(self._base + part * self._part_bytes, _ABSENT, self._part_bytes) is not None:
            self._failure = "memory does not hold what was written to it"

    def _copy(self, part: int) -> None:
        start, half = self._base + part * self._part_bytes, self._part_bytes // 2
        self._libc.memcpy(start + half, start, half)

    def _serve(self, part: int) -> None:
        while True:
            try:
                self._barrier.wait()
                work = self._work
                if work is None:
                    return
                work(part)
                self._barrier.wait()
            except threading.BrokenBarrierError:
                return

    # --- all parts

    def _start(self) -> None:
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError as error:  # the system gives no more threads
            self._barrier.abort()
            raise WidelaneError(f"Measuring memory needs {len(self._threads)} threads: {error}.") from error

    def _run(self, work: Callable[[int], None]) -> None:
        self._work = work
        try:
            self._barrier.wait(_LONGEST_PASS_S)
            self._barrier.wait(_LONGEST_PASS_S)
        except threading.BrokenBarrierError:
            raise WidelaneError("A pass over memory did not end within two minutes: the machine swaps.") from None
        if self._failure is not None:
            raise WidelaneError(f"Measuring memory failed: {self._failure}.")

    def _close(self) -> None:
        self._work = None
        if self._barrier.broken:
            return  # threads may still touch the buffer: it stays until the process ends
        try:
            self._barrier.wait(_LONGEST_PASS_S)
        except threading.BrokenBarrierError:
            return
        for thread in self._threads:
            thread.join(_LONGEST_PASS_S)
        del self._view
        self._memory.close()


def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.memchr.restype = ctypes.c_void_p
    library.memchr.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    library.memcpy.restype = ctypes.c_void_p
    library.memcpy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    library.memset.restype = ctypes.c_void_p
    library.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    return library
