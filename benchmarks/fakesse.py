"""The Python twin of fakesse.c, for machines without a C compiler: same requests, same ticks, same log.

It is slower by an order of magnitude, so its own send times spread more at 128 streams; they are logged all the same,
and a client is held against them.

    python fakesse.py FIRST_TOKEN_US TICK_US LOG
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import TextIO

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_MODELS = b'{"object":"list","data":[{"id":"fake","object":"model"}]}'
_EVENT = (
    '{{"id":"chatcmpl-0","object":"chat.completion.chunk","created":1700000000,"model":"fake","choices":[{{"index":0,'
    '"delta":{},"logprobs":null,"finish_reason":{}}}]}}'
)
_USAGE = (
    '{{"id":"chatcmpl-0","model":"fake","choices":[],'
    '"usage":{{"prompt_tokens":8,"completion_tokens":{},"total_tokens":{}}}}}'
)


def chunk(event: str) -> bytes:
    """One event as one chunk of a chunked body."""
    data = f"data: {event}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


_TOKEN = chunk(_EVENT.format('{"content":" tok"}', "null"))


@dataclass(eq=False)
class Stream:
    """One connection."""

    sock: socket.socket
    received: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    running: bool = False
    name: str = ""
    wanted: int = 0
    next_ns: int = 0
    read_ns: int = 0
    token_ns: list[int] = field(default_factory=list)

    def send(self, data: bytes) -> None:
        self.unsent += data
        with contextlib.suppress(BlockingIOError):
            del self.unsent[: self.sock.send(self.unsent)]


class Server:
    """All connections, one thread."""

    def __init__(self, first_token_us: int, tick_us: int, log: TextIO) -> None:
        self._first_ns = first_token_us * 1000
        self._tick_ns = tick_us * 1000
        self._log = log
        self._streams: set[Stream] = set()
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        print("port", self._listener.getsockname()[1], flush=True)

    def run(self) -> None:
        """Serves until the parent is gone."""
        while os.getppid() != 1:
            due = min((s.next_ns for s in self._streams if s.running), default=None)
            wait_s = 0.5 if due is None else max(due - time.perf_counter_ns(), 0) / 1e9
            for key, _ in self._selector.select(wait_s):
                if key.data is None:
                    self._accept()
                elif not self._receive(key.data):
                    self._close(key.data)
            now = time.perf_counter_ns()
            for stream in [s for s in self._streams if s.running and s.next_ns <= now]:
                try:
                    self._token(stream)
                except OSError:
                    self._close(stream)

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = Stream(sock)
        self._streams.add(stream)
        self._selector.register(sock, selectors.EVENT_READ, stream)

    def _close(self, stream: Stream) -> None:
        self._streams.discard(stream)
        self._selector.unregister(stream.sock)
        stream.sock.close()

    def _receive(self, stream: Stream) -> bool:
        try:
            data = stream.sock.recv(1 << 16)
        except OSError:
            return False
        stream.received += data
        head, blank, rest = bytes(stream.received).partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        size = int(length[1]) if length else 0
        if blank and len(rest) >= size and not stream.running:
            del stream.received[: len(head) + 4 + size]
            self._answer(stream, head, rest[:size].decode())
        return bool(data)

    def _answer(self, stream: Stream, head: bytes, body: str) -> None:
        if not head.startswith(b"POST "):
            stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(_MODELS), _MODELS))
            return
        tokens = re.search(r'"max_tokens": *(\d+)', body)
        name = re.search(r'"user": *"(\w+)"', body)
        stream.wanted = int(tokens[1]) if tokens else 16
        stream.name = name[1] if name else "-"
        stream.token_ns = []
        stream.read_ns = time.perf_counter_ns()
        stream.next_ns = -((stream.read_ns + self._first_ns) // -self._tick_ns) * self._tick_ns
        stream.running = True
        stream.send(_HEAD)

    def _token(self, stream: Stream) -> None:
        stream.token_ns.append(time.perf_counter_ns())
        stream.next_ns += self._tick_ns
        stream.send(_TOKEN)
        if len(stream.token_ns) < stream.wanted:
            return
        made = len(stream.token_ns)
        last = (_EVENT.format("{}", '"length"'), _USAGE.format(made, made + 8), "[DONE]")
        stream.send(b"".join(map(chunk, last)) + b"0\r\n\r\n")
        print(stream.name, stream.read_ns, *stream.token_ns, file=self._log, flush=True)
        stream.running = False


if __name__ == "__main__":
    with open(sys.argv[3], "w") as log_file:  # noqa: PTH123 - a path from the command line
        Server(int(sys.argv[1]), int(sys.argv[2]), log_file).run()
