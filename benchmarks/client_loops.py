"""One HTTP client streaming from the benchmark's server, in a process of its own.

    python client_loops.py CLIENT URL CONNECTIONS TOKENS ROUNDS

prints one JSON object: CPU seconds between the first and the last measured request, and for every request its name,
when it was sent and when each token arrived (monotonic nanoseconds). Each loop is what a careful user of that library
writes: one client, no connection limit, one task a stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

Sample = tuple[str, int, list[int]]
"""Name, when it was sent, when each token came."""
Ask = Callable[[str, int], Awaitable[Sample]]
"""(name, tokens) -> what happened."""
now = time.perf_counter_ns


def body(name: str, tokens: int) -> dict[str, Any]:
    """The same request for every client."""
    return {
        "model": "fake",
        "messages": [{"role": "user", "content": "Count."}],
        "max_tokens": tokens,
        "user": name,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@contextlib.asynccontextmanager
async def widelane(url: str, connections: int) -> AsyncIterator[Ask]:
    from widelane.records import ChatRequest
    from widelane.wire.client import HttpBackend

    async with HttpBackend(url, model="fake") as backend:

        async def ask(name: str, tokens: int) -> Sample:
            fields = body(name, tokens)
            request = ChatRequest(messages=fields["messages"], max_tokens=tokens, extra={"user": name}, raw=False)
            reply = await backend.complete(request)
            return name, reply.timing.sent_ns, list(reply.timing.chunk_ns)

        yield ask


@contextlib.asynccontextmanager
async def openai(url: str, connections: int) -> AsyncIterator[Ask]:
    import httpx2
    from openai import AsyncOpenAI

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    http = httpx2.AsyncClient(limits=limits, trust_env=False, timeout=None)
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0, http_client=http) as client:

        async def ask(name: str, tokens: int) -> Sample:
            times: list[int] = []
            sent = now()
            stream = await client.chat.completions.create(**body(name, tokens))
            async for chunk in stream:
                note_text(chunk.choices and chunk.choices[0].delta.content, times)
            return name, sent, times

        yield ask


@contextlib.asynccontextmanager
async def httpx(url: str, connections: int) -> AsyncIterator[Ask]:
    import httpx as library

    limits = library.Limits(max_connections=None, max_keepalive_connections=None)
    async with library.AsyncClient(limits=limits, trust_env=False, timeout=None) as client:

        async def ask(name: str, tokens: int) -> Sample:
            times: list[int] = []
            sent = now()
            async with client.stream("POST", f"{url}/v1/chat/completions", json=body(name, tokens)) as reply:
                async for line in reply.aiter_lines():
                    if line.startswith("data: {"):
                        took_token(json.loads(line[6:]), times)
            return name, sent, times

        yield ask


@contextlib.asynccontextmanager
async def aiohttp(url: str, connections: int) -> AsyncIterator[Ask]:
    import aiohttp as library

    async with library.ClientSession(connector=library.TCPConnector(limit=0)) as session:

        async def ask(name: str, tokens: int) -> Sample:
            times: list[int] = []
            sent = now()
            async with session.post(f"{url}/v1/chat/completions", json=body(name, tokens)) as reply:
                async for line in reply.content:
                    if line.startswith(b"data: {"):
                        took_token(json.loads(line[6:]), times)
            return name, sent, times

        yield ask


@contextlib.asynccontextmanager
async def aiohttp_any(url: str, connections: int) -> AsyncIterator[Ask]:
    import aiohttp as library
    import msgspec

    decode = msgspec.json.decode
    async with library.ClientSession(connector=library.TCPConnector(limit=0)) as session:

        async def ask(name: str, tokens: int) -> Sample:
            times: list[int] = []
            rest = b""
            sent = now()
            async with session.post(f"{url}/v1/chat/completions", json=body(name, tokens)) as reply:
                async for data in reply.content.iter_any():
                    t_ns = now()
                    *events, rest = (rest + data).split(b"\n\n")
                    for event in events:
                        if event.startswith(b"data: {"):
                            took_token(decode(event[6:]), times, t_ns)
            return name, sent, times

        yield ask


class _Bare(asyncio.BufferedProtocol):
    """Stamps reads and parses nothing: what any client on this event loop must pay."""

    def __init__(self) -> None:
        self.buffer = bytearray(1 << 16)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def begin(self, request: bytes) -> asyncio.Future[list[int]]:
        self.times: list[int] = []
        self.over: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self.sent = now()
        self.transport.write(request)  # type: ignore[attr-defined]
        return self.over

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        t_ns = now()
        data = self.buffer[:nbytes]
        self.times.extend([t_ns] * data.count(b'"content":" tok"'))
        if b"[DONE]" in data:
            self.over.set_result(self.times)


@contextlib.asynccontextmanager
async def bare(url: str, connections: int) -> AsyncIterator[Ask]:
    host, port = url.removeprefix("http://").split(":")
    loop = asyncio.get_running_loop()
    idle = [(await loop.create_connection(_Bare, host, int(port)))[1] for _ in range(connections)]

    async def ask(name: str, tokens: int) -> Sample:
        connection = idle.pop()
        text = json.dumps(body(name, tokens))
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n"
        times = await connection.begin((head + text).encode())
        idle.append(connection)
        return name, connection.sent, times

    yield ask
    for connection in idle:
        connection.transport.abort()  # type: ignore[attr-defined]


def took_token(chunk: Any, times: list[int], t_ns: int | None = None) -> None:
    """Notes the arrival of a decoded chunk that holds text."""
    choices = chunk["choices"]
    note_text(choices and choices[0]["delta"].get("content"), times, t_ns)


def note_text(text: Any, times: list[int], t_ns: int | None = None) -> None:
    """Notes the arrival of text, when there is any."""
    if text:
        times.append(t_ns or now())


CLIENTS = {
    "(limit: parses nothing)": bare,
    "widelane": widelane,
    "widelane + uvloop": widelane,
    "openai": openai,
    "httpx": httpx,
    "aiohttp lines": aiohttp,
    "aiohttp iter_any": aiohttp_any,
}


async def measure(client: str, url: str, connections: int, tokens: int, rounds: int) -> dict[str, Any]:
    """Warms the connections up, then streams `rounds` times on each, one request after the other."""
    async with CLIENTS[client](url, connections) as ask:
        await asyncio.gather(*(ask(f"w{i}", 4) for i in range(connections)))

        async def lane(lane_number: int) -> list[Sample]:
            return [await ask(f"r{lane_number}x{round_number}", tokens) for round_number in range(rounds)]

        before = cpu_s()
        lanes = await asyncio.gather(*(lane(i) for i in range(connections)))
        return {"cpu_s": cpu_s() - before, "samples": [sample for samples in lanes for sample in samples]}


def cpu_s() -> float:
    """CPU time of this process, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    client, url, connections, tokens, rounds = sys.argv[1:6]
    work = measure(client, url, int(connections), int(tokens), int(rounds))
    if client.endswith("uvloop"):
        import uvloop

        result = uvloop.run(work)
    else:
        result = asyncio.run(work)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
