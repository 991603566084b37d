"""Compressed bodies. They are not asked for (`Accept-Encoding: identity`); some proxies send them all the same."""

from __future__ import annotations

import zlib

from widelane.errors import MalformedReply

_ANY_HEADER = 32 + zlib.MAX_WBITS
"""zlib then finds out by itself whether the data has a gzip or a zlib header."""


class Decompressor:
    """gzip or deflate, fed piece by piece."""

    __slots__ = ("_first", "_zlib")

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(_ANY_HEADER)
        self._first = True

    def feed(self, data: bytes) -> bytes:
        """The bytes that `data` decompresses to.

        Raises:
            MalformedReply: it is not compressed as stated.
        """
        first, self._first = self._first, False
        try:
            return self._zlib.decompress(data)
        except zlib.error as error:
            if not first:
                raise MalformedReply(f"The compressed reply is broken: {error}.") from error
        self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)  # "deflate" without the header it should have
        try:
            return self._zlib.decompress(data)
        except zlib.error as error:
            raise MalformedReply(f"The compressed reply is broken: {error}.") from error


def decompressor_for(content_encoding: str) -> Decompressor | None:
    """What undoes this `Content-Encoding`; None when nothing needs undoing.

    Raises:
        MalformedReply: a coding that was not asked for and is not known here.
    """
    coding = content_encoding.strip().lower()
    if coding in ("", "identity", "utf-8", "none"):
        return None
    if coding in ("gzip", "x-gzip", "deflate"):
        return Decompressor()
    raise MalformedReply(
        f"The reply is compressed with {coding!r}, which was not asked for.",
        hint="Switch compression off in the proxy.",
    )
