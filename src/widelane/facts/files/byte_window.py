"""Walks forwards through the header of a large file in small windows, and never past its end."""

from __future__ import annotations

import struct
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO

from widelane.errors import UnreadableModel
from widelane.facts.files.regular_file import read_some, size_of

WINDOW_BYTES = 64 * 1024
_LENGTH = struct.Struct("<Q")
_SEVEN_NULS = bytes(7)
_BATCH_STRINGS = 1024
"""Strings walked one by one before the next leap is tried; fewer than twice as many are not worth a leap."""


class ByteWindow:
    """A position in a file, with some bytes ahead of it in memory.

    Attributes:
        reading: what is being read, for the message when the file ends in it.
        leapt: whether strings were skipped without looking at each (see `skip_strings`).
    """

    __slots__ = ("_at", "_file", "_start", "_window", "leapt", "path", "reading", "size")

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.path = path
        self.size = size_of(file)
        self.reading = "its header"
        self.leapt = False
        self._file = file
        self._window = b""
        self._start = 0
        self._at = 0

    @property
    def position(self) -> int:
        """Offset in the file of the next byte."""
        return self._start + self._at

    @property
    def remaining(self) -> int:
        """Bytes from here to the end of the file."""
        return self.size - self.position

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        """The next values."""
        if self._at + form.size > len(self._window):
            self._need(form.size)
        values = form.unpack_from(self._window, self._at)
        self._at += form.size
        return values

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        end = self._at + count
        if end > len(self._window):
            self._need(count)
            end = self._at + count
        data = self._window[self._at : end]
        self._at = end
        return data

    def skip(self, count: int) -> None:
        """Goes on by `count` bytes without reading them."""
        self._go(self.position + count)

    def skip_strings(self, count: int, *, one_by_one: bool) -> None:
        """Goes past `count` strings, each 8 bytes of length and its bytes.

        Unless `one_by_one`, whole windows are leapt over where they look like ordinary words: a string of 1 to 255
        bytes without a NUL has exactly seven NULs, all in its length, so the NULs tell how many strings there are. Of
        extraordinary strings that count can be wrong; what is read next is then nonsense, and the caller starts again
        `one_by_one`. Counting bytes is several times as fast as following half a million lengths.
        """
        while count:
            skipped = 0 if one_by_one else self._leap(count)
            if not skipped:
                skipped = min(count, _BATCH_STRINGS)
                self._walk(skipped)
            count -= skipped

    def cut_off(self) -> UnreadableModel:
        """The error for a file that ends too early."""
        return UnreadableModel(
            f"{self.path} ends in the middle of {self.reading}: it has {self.size:,} bytes and goes on.\n"
            "The file is cut off or damaged; fetch it again."
        )

    # --- strings

    def _leap(self, count: int) -> int:
        """Strings that were leapt over, 0 when they had better be walked."""
        if count < 2 * _BATCH_STRINGS:
            return 0
        self._fill()
        last = self._window.rfind(_SEVEN_NULS) - 1  # where the last length in the window begins
        strings, rest = divmod(self._window.count(0, self._at, max(last, 0)), len(_SEVEN_NULS))
        if last <= self._at or rest or strings > count:
            return 0
        self.leapt = True
        self._at = last
        return strings

    def _walk(self, count: int) -> None:
        while count:
            self._need(_LENGTH.size)
            window, at, unpack = self._window, self._at, _LENGTH.unpack_from
            left = repeat(None, count)
            try:
                for _ in left:
                    (length,) = unpack(window, at)
                    at += 8 + length
                done = count
            except (struct.error, OverflowError):  # the next length is outside the window
                done = count - left.__length_hint__() - 1
            self._go(self._start + at)
            count -= done

    # --- the window

    def _go(self, position: int) -> None:
        if position > self.size:
            raise self.cut_off()
        if position <= self._start + len(self._window):
            self._at = position - self._start
        else:
            self._window, self._start, self._at = b"", position, 0

    def _need(self, count: int) -> None:
        if count > self.remaining:
            raise self.cut_off()
        if self._at + count > len(self._window):
            self._fill(count)
            if self._at + count > len(self._window):  # somebody shortened the file meanwhile
                raise self.cut_off()

    def _fill(self, least: int = 0) -> None:
        """Has at least `least` bytes ahead, and a whole window where the file still has them."""
        rest = self._window[self._at :]
        missing = max(WINDOW_BYTES, least) - len(rest)
        if missing <= 0:
            return
        self._start += self._at
        self._at = 0
        self._file.seek(self._start + len(rest))
        self._window = rest + read_some(self._file, self.path, missing)
