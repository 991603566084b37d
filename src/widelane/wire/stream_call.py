"""One chat call on one connection: from the first header to the reply or the error.

The task that waits is woken once, when the call is over. Time limits cost two timers a call, not one a token: a timer
that fires looks at when the last event came, and waits for the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum, auto

from widelane.errors import CallError, FirstTokenTimeout, IdleTimeout, MalformedReply, NotAModelServer
from widelane.records import Reply
from widelane.wire.assemble import ReplyAssembler, Step
from widelane.wire.connection import Connection
from widelane.wire.error_body import quoted
from widelane.wire.failures import classify
from widelane.wire.json_text import decode_json
from widelane.wire.limits import Limits
from widelane.wire.sse import SSEDecoder

_MAX_BODY_BYTES = 256 * 2**20
_MAX_EVENT_BYTES = 4 * 2**20
_MAX_BLANK_BYTES = 65_536
_ERROR_BODY_S = 10.0
"""An error status is known; its body is waited for no longer than this."""
_TAIL_S = 0.05
"""After `[DONE]` the end of the body follows at once, and then the connection can be used again."""
_MAX_EMPTY_EVENTS = 1024
"""Events without output that count as progress: a tool parser that holds text back sends some hundreds."""
_STREAM_STARTS = (b"data", b":", b"event", b"id", b"retry", b"error")


# Bound once: they are looked up for every token.
_NOTHING = Step.NOTHING
_OUTPUT = Step.OUTPUT


class _Mode(Enum):
    WAITING = auto()
    """No byte of the body yet."""
    STREAM = auto()
    WHOLE = auto()
    """One JSON body."""
    ERROR = auto()
    """A body that explains a refusing status."""


class StreamCall:
    """The exchange of one call; `future` gives the reply."""

    def __init__(
        self,
        assembler: ReplyAssembler,
        connection: Connection,
        limits: Limits,
        *,
        first_token_s: float | None,
        url: str,
        wall_s: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self.future: asyncio.Future[Reply] = self._loop.create_future()
        self._assembler = assembler
        self._connection = connection
        self._limits = limits
        self._first_token_s = first_token_s
        self._url = url
        self._wall_s = wall_s
        self._decoder = SSEDecoder()
        self._mode = _Mode.WAITING
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._collected = bytearray()
        self._saw_output = False
        self._finish_seen = False
        self._empty_events = 0
        self._progress_s = self._time()
        self._timer: asyncio.TimerHandle | None = None
        self._arm(first_token_s, self._no_first_token)

    # --- Exchange

    def sent(self, t_ns: int) -> None:
        self._assembler.sent_ns = t_ns

    def headers(self, status: int, headers: Mapping[str, str], t_ns: int) -> None:
        self._status = status
        self._headers = headers
        self._assembler.headers_ns = t_ns
        if not 200 <= status < 300:
            self._mode = _Mode.ERROR
            self._arm(_ERROR_BODY_S, self._finish_error)

    def body(self, data: bytes, t_ns: int) -> None:
        if self._mode is _Mode.STREAM:
            self._events(self._decoder.feed(data), t_ns)
            if self._decoder.pending_bytes > _MAX_EVENT_BYTES:
                raise MalformedReply(f"An event from {self._url} has no end ({_MAX_EVENT_BYTES} bytes so far).")
            return
        if self._mode is _Mode.WAITING:
            self._collected += data
            self._guess(t_ns)
            return
        self._collected += data
        self._progress_s = self._time()
        if len(self._collected) > _MAX_BODY_BYTES:
            raise NotAModelServer(f"The reply from {self._url} has no end ({len(self._collected)} bytes so far).")

    def ended(self, t_ns: int) -> None:
        if self.future.done():
            return
        try:
            self._end(t_ns)
        except CallError as error:
            self.failed(error)

    def failed(self, error: CallError | None, cause: Exception | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.future.done():
            return
        if error is not None and self._mode is _Mode.STREAM and self._assembler.finished:
            self.future.set_result(self._assembler.result())  # cut after the finish reason: the answer is whole
            return
        if error is not None:
            error.status = error.status or self._status or None
            if error.partial is None and self._assembler.choices:
                error.partial = self._assembler.result()
        problem = error or cause
        assert problem is not None
        self.future.set_exception(problem)

    def cancel(self) -> None:
        """Nobody waits any more: closes the connection, which frees the server's slot."""
        if self._timer is not None:
            self._timer.cancel()
        self._connection.abort()

    # --- reading

    def _guess(self, t_ns: int) -> None:
        """What the body is, from its first bytes: content types are not to be relied on."""
        head = bytes(self._collected[:512]).removeprefix(b"\xef\xbb\xbf").lstrip()
        if not head:
            if len(self._collected) > _MAX_BLANK_BYTES:
                raise MalformedReply(f"{self._url} sends nothing but white space.")
            return
        if head.startswith(_STREAM_STARTS) or (
            "event-stream" in self._headers.get("content-type", "") and head[:1] not in b"{[<"
        ):
            self._mode = _Mode.STREAM
            data, self._collected = bytes(self._collected), bytearray()
            self._events(self._decoder.feed(data), t_ns)
        elif len(head) > 5 or head[:1] in b"{[<":
            self._mode = _Mode.WHOLE
            self._arm(self._first_token_s, self._whole_idle)

    def _events(self, payloads: list[bytes], t_ns: int) -> None:
        feed = self._assembler.feed
        for payload in payloads:
            step = feed(payload, t_ns)
            if step is _OUTPUT:
                self._progress_s = self._time()
                if not self._saw_output:
                    self._saw_output = True
                    self._connection.patient = not self._assembler.watched
                    self._arm(self._limits.idle_s, self._idle)
            elif step is not _NOTHING and self._other_step(step):
                return

    def _other_step(self, step: Step) -> bool:
        """True when nothing more is to be read."""
        if step is Step.EVENT:
            self._empty_events += 1
            if self._empty_events <= _MAX_EMPTY_EVENTS:
                self._progress_s = self._time()
            return False
        if step is Step.FINISH:
            self._progress_s = self._time()
            self._saw_output = True
            if not self._finish_seen and self._assembler.all_came:
                self._finish_seen = True
                self._arm(self._limits.grace_after_finish_s, self._after_grace)
            return False
        if step is Step.FUSE:
            self._give(close=True)
        else:
            self._finish_seen = False
            self._arm(_TAIL_S, self._give)
        return True

    def _end(self, t_ns: int) -> None:
        if self._mode is _Mode.ERROR:
            raise self._refusal()
        if self._mode is _Mode.STREAM:
            self._events(self._decoder.rest(), t_ns)
            if not self.future.done():
                self._assembler.end()
        else:
            self._whole(t_ns)
        if not self.future.done():
            self._give()

    def _whole(self, t_ns: int) -> None:
        body = bytes(self._collected)
        text = body.removeprefix(b"\xef\xbb\xbf").strip()
        if not text:
            if "event-stream" in self._headers.get("content-type", ""):
                self._assembler.end()  # a stream of no events: cut before the first
            raise MalformedReply(f"{self._url} answers {self._status} with an empty body.", status=self._status)
        try:
            value = decode_json(text)
        except ValueError:
            raise self._no_json(text) from None
        self._assembler.feed_whole(value, t_ns)

    def _no_json(self, text: bytes) -> CallError:
        shown = quoted(text.decode("utf-8", "replace"))
        if text[:1] in b"{[":
            return MalformedReply(f"The JSON from {self._url} is not whole: {shown}", status=self._status)
        return NotAModelServer(
            f"{self._url} answers {self._status} with something that is no JSON: {shown}",
            status=self._status,
            hint="This is not the address of an OpenAI-compatible server.",
        )

    def _refusal(self) -> CallError:
        return classify(self._status, self._headers, bytes(self._collected), url=self._url, wall_s=self._wall_s)

    def _give(self, *, close: bool = False) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if close:
            self._connection.abort()
        else:
            self._connection.detach()
        if not self.future.done():
            self.future.set_result(self._assembler.result())

    # --- time

    def _arm(self, delay_s: float | None, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if delay_s is not None:
            self._timer = self._loop.call_later(delay_s, then)

    def _no_first_token(self) -> None:
        state = "nothing at all" if not self._status else "headers and no output"
        self._time_out(
            FirstTokenTimeout(
                f"{self._url} sent {state} within {self._first_token_s:.0f} s.",
                hint="The server hangs, or its queue is longer than the limit allows for.",
            )
        )

    def _idle(self) -> None:
        limit_s = self._limits.idle_s
        assert limit_s is not None
        if self._waits_on(limit_s, self._idle):
            return
        if self._assembler.finished:
            self._after_grace()
            return
        self._time_out(IdleTimeout(f"{self._url} stopped in the middle of a reply: no event for {limit_s:.0f} s."))

    def _whole_idle(self) -> None:
        limit_s = self._first_token_s
        assert limit_s is not None
        if not self._waits_on(limit_s, self._whole_idle):
            self._time_out(IdleTimeout(f"{self._url} stopped in the middle of a reply: no byte for {limit_s:.0f} s."))

    def _waits_on(self, limit_s: float, then: Callable[[], None]) -> bool:
        """True when something came since the timer was set; it is then set anew, for what is left."""
        left_s = self._progress_s + limit_s - self._time()
        if left_s <= 0:
            return False
        self._arm(left_s, then)
        return True

    def _after_grace(self) -> None:
        """Nothing followed the finish reason in time. Text that came after it means that it was none."""
        if self._finish_seen and self._waits_on(self._limits.grace_after_finish_s, self._after_grace):
            return
        self._give(close=True)

    def _finish_error(self) -> None:
        self._time_out(self._refusal())

    def _time_out(self, error: CallError) -> None:
        self._connection.abort()
        self.failed(error)
