"""Server-sent events, sans IO: bytes in, data payloads out, whatever way the bytes were cut.

The rules are those of the HTML standard ("Interpreting an event stream"): one byte-order mark, lines ended by LF, CR or
CRLF, comments, fields with or without a space after the colon, several `data` lines joined by LF. `id` and `retry` mean
nothing here. Two habits of real servers are added, both about errors: an event *named* `error`, and older llama.cpp,
which writes the line `error: {…}` instead of `data: {"error": {…}}`.
"""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"


class ErrorPayload(bytes):
    """The data of an event that the server named `error`."""

    __slots__ = ()


class SSEDecoder:
    """Turns chunks of bytes into the payloads of the events they complete."""

    __slots__ = ("_at_start", "_between", "_buffer", "_data", "_data_bytes", "_is_error", "_skip_lf")

    def __init__(self) -> None:
        self._buffer = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._is_error = False
        self._skip_lf = False
        self._at_start = True
        self._between = True  # nothing of an event has been read yet

    @property
    def pending_bytes(self) -> int:
        """Bytes of the event that is not whole yet."""
        return len(self._buffer) + self._data_bytes

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads completed by `data`, in order; an `ErrorPayload` where the event was named `error`."""
        # What nearly every chunk of every server is: one whole event of one line. It costs a tenth of the general way.
        end = len(data) - 2
        if (
            self._between
            and data.find(b"\n") == end
            and data.startswith(b"data: ")
            and data[-1] == 10
            and b"\r" not in data
        ):
            self._at_start = self._skip_lf = False
            return [data[6:end]]
        payloads = self._feed_lines(data)
        self._between = not (self._buffer or self._data or self._is_error)
        return payloads

    def rest(self) -> list[bytes]:
        """The payload of a last event whose blank line is missing, once the body has ended properly.

        The standard throws it away; servers that forget the last line end exist. Whether it is whole is for the reader
        of the payload to say.
        """
        payloads: list[bytes] = []
        if self._buffer:
            self._line(self._buffer, payloads)
        self._line(b"", payloads)
        self._buffer = b""
        return payloads

    def _feed_lines(self, data: bytes) -> list[bytes]:
        if not data:
            return []
        buffer = self._buffer + data
        if self._at_start:
            if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
                self._buffer = buffer
                return []
            buffer = buffer.removeprefix(_BOM)
            self._at_start = False
        if self._skip_lf:
            buffer = buffer.removeprefix(b"\n")
            self._skip_lf = False
        payloads: list[bytes] = []
        lines = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        # A CR that ends the chunk ends its line now; an LF that follows in the next chunk belongs to it.
        self._skip_lf = buffer.endswith(b"\r")
        self._buffer = lines.pop()
        for line in lines:
            self._line(line, payloads)
        return payloads

    def _line(self, line: bytes, payloads: list[bytes]) -> None:
        if not line:
            self._dispatch(payloads)
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._add(value)
        elif field == b"event":
            self._is_error = value.strip() == b"error"
        elif field == b"error":
            self._add(value)
            self._is_error = True

    def _add(self, value: bytes) -> None:
        self._data.append(value)
        self._data_bytes += len(value) + 1  # its line feed; a line without text takes room too

    def _dispatch(self, payloads: list[bytes]) -> None:
        if self._data:
            payload = b"\n".join(self._data)
            payloads.append(ErrorPayload(payload) if self._is_error else payload)
            self._data.clear()
            self._data_bytes = 0
        self._is_error = False
