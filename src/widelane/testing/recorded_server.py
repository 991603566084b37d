"""A server that answers what a real one answered: from a folder of recorded replies, as a `Fetch` and on a real port.

    recording = load_recording(Path("fixtures/llama_cpp/np4"))
    facts = await (await detect(RecordedServer(recording))).facts()
    async with RecordedServer(recording).listening() as url: ...

What was never recorded is answered with the engine's own 404. Nothing is computed: a request that was not recorded gets
the reply to the recorded request that is most like it, and only to one of the same kind (streamed or not, one choice or
several, with tools or without).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from widelane.errors import ConnectionLost, UsageError
from widelane.records import HttpReply

INDEX = "index.json"
_MOST_REQUEST_BYTES = 16 * 2**20

_NOT_FOUND: Mapping[str, tuple[str, str, bytes]] = {
    "llama.cpp": (
        "llama.cpp",
        "application/json; charset=utf-8",
        b'{"error":{"message":"File Not Found","type":"not_found_error","code":404}}',
    ),
    "vllm": ("uvicorn", "application/json", b'{"detail":"Not Found"}'),
    "mlx-lm": ("BaseHTTP/0.6 Python/3.11.7", "application/json", b"Not Found"),
}
"""Engine → its `Server` header, and the type and body of its 404."""
_ANY_NOT_FOUND = ("", "text/plain", b"404 page not found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its reply.

    Attributes:
        request: decoded body of the request, its raw text when it was not valid JSON, None for a GET.
        status: 0 means that the connection was closed without a reply.
        arrivals_ms: `(milliseconds since the request, bytes)` of each chunk, where that was recorded.
    """

    name: str
    method: str
    path: str
    status: int
    body: bytes
    content_type: str = "application/json"
    server: str | None = None
    request: Any = None
    note: str = ""
    arrivals_ms: Sequence[tuple[float, int]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The replies of one server, and how it was run.

    Attributes:
        engine: `llama.cpp`, `vllm`, `mlx-lm`, … as the adapters are named.
        made_with: what the folder says of the server: version, model, launch arguments.
    """

    engine: str
    exchanges: tuple[Exchange, ...]
    made_with: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_replies(cls, engine: str, replies: Mapping[str, Any], *, server: str | None = None) -> Recording:
        """A server made by hand: path (`POST /path` for a post) → reply (text, bytes, or a JSON value), status 200."""
        return cls(engine=engine, exchanges=tuple(_by_hand(path, reply, server) for path, reply in replies.items()))


def load_recording(folder: Path) -> Recording:
    """The recording in a folder with an `index.json`.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    try:
        index = json.loads((folder / INDEX).read_bytes())
        made_with = {str(name): str(value) for name, value in index["recorded_with"].items()}
        exchanges = tuple(_read(folder, entry) for entry in index["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder} holds no recording that can be read: {error}") from error
    return Recording(engine=engine_name(made_with.get("engine", "")), exchanges=exchanges, made_with=made_with)


def engine_name(stated: str) -> str:
    """The adapter's name for an engine as people write it."""
    known = ("llama-cpp-python", "llama.cpp", "vllm", "sglang", "ollama", "mlx-lm", "lm-studio", "tensorrt-llm")
    plain = stated.lower().replace(" ", "-").replace("_", "-")
    return next((name for name in known if name in plain), plain)


class RecordedServer:
    """Answers as the recorded server did.

    Attributes:
        asked: every request so far: method, path, decoded body.
    """

    def __init__(self, recording: Recording, *, prefer: str = "", pace: float = 0.0) -> None:
        """A server for one recording.

        Args:
            prefer: where a path was recorded several times, take the one with this in its name or note ("busy").
            pace: how fast chunks follow on the real port: 1 as recorded, 0 at once.
        """
        self._recording = recording
        self._prefer = prefer
        self._pace = pace
        self.asked: list[tuple[str, str, Any]] = []

    async def __call__(self, method: str, path: str, body: Any = None, *, timeout_s: float = 10.0) -> HttpReply:
        """The recorded reply: the `Fetch` of the adapters and probes."""
        self.asked.append((method, path, body))
        found = self._find(method, path, body)
        if found is None:
            server, content_type, text = _NOT_FOUND.get(self._recording.engine, _ANY_NOT_FOUND)
            return _reply(404, self._server(server), content_type, text, path)
        if found.status == 0:
            raise ConnectionLost(f"{path}: the recorded server closed the connection without a reply")
        server = found.server or self._server(_NOT_FOUND.get(self._recording.engine, _ANY_NOT_FOUND)[0])
        return _reply(found.status, server, found.content_type, found.body, path)

    @asynccontextmanager
    async def listening(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
        """The same over a real port (any free one by default); gives its URL."""
        server = await asyncio.start_server(self._connection, host, port, limit=_MOST_REQUEST_BYTES)
        try:
            name = server.sockets[0].getsockname()
            yield f"http://{name[0]}:{name[1]}"
        finally:
            server.close()
            await server.wait_closed()

    def _server(self, usual: str) -> str:
        """The `Server` header that was recorded anywhere."""
        return next((exchange.server for exchange in self._recording.exchanges if exchange.server), usual)

    def _find(self, method: str, path: str, body: Any) -> Exchange | None:
        there = [exchange for exchange in self._recording.exchanges if exchange.method == method.upper()]
        same = [exchange for exchange in there if exchange.path == path]
        bare = path.partition("?")[0]
        same = same or [exchange for exchange in there if exchange.path == bare]
        if body is not None:
            same = _most_like([exchange for exchange in same if _same_kind(exchange.request, body)], body)
        preferred = [e for e in same if self._prefer and self._prefer in f"{e.name} {e.note}"]
        return next(iter(preferred or same), None)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, path, _ = head.split(" ", 2)
            sizes = [line.split(":")[1] for line in head.split("\r\n") if line.lower().startswith("content-length:")]
            raw = await reader.readexactly(int(sizes[0])) if sizes else b""
            await self._answer(writer, method, path, _decoded(raw))
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass  # the client went away, or spoke no HTTP
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, method: str, path: str, body: Any) -> None:
        try:
            reply = await self(method, path, body)
        except ConnectionLost:
            return
        head = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        writer.write(f"HTTP/1.1 {reply.status} Recorded\r\n{head}connection: close\r\n\r\n".encode("latin-1"))
        found = self._find(method, path, body)
        sent, before_ms = 0, 0.0
        for at_ms, size in found.arrivals_ms if found is not None and self._pace else ():
            await writer.drain()
            await asyncio.sleep((at_ms - before_ms) / 1000 * self._pace)
            writer.write(reply.body[sent : sent + size])
            sent, before_ms = sent + size, at_ms
        writer.write(reply.body[sent:])
        await writer.drain()


def _read(folder: Path, entry: Mapping[str, Any]) -> Exchange:
    return Exchange(
        name=str(entry["file"]),
        method=str(entry["method"]),
        path=str(entry["path"]),
        status=int(entry["status"]),
        body=(folder / str(entry["file"])).read_bytes(),
        content_type=str(entry.get("content_type") or ""),
        server=entry.get("server_header"),
        request=entry.get("request", entry.get("raw_request")),
        note=str(entry.get("note") or ""),
        arrivals_ms=[(float(at), int(size)) for at, size in entry.get("chunk_arrivals_ms_bytes") or ()],
    )


def _by_hand(path: str, reply: Any, server: str | None) -> Exchange:
    method, _, rest = path.rpartition(" ")
    text = reply if isinstance(reply, (str, bytes)) else json.dumps(reply)
    return Exchange(
        name=path,
        method=method or "GET",
        path=rest,
        status=200,
        body=text.encode() if isinstance(text, str) else text,
        content_type="text/plain" if isinstance(reply, (str, bytes)) else "application/json",
        server=server,
        request={} if method == "POST" else None,
    )


def _most_like(exchanges: list[Exchange], asked: Any) -> list[Exchange]:
    """The very same request; else of those that were answered (if any were) the ones most like it."""
    exact = [exchange for exchange in exchanges if exchange.request == asked]
    answered = [exchange for exchange in exchanges if exchange.status == 200]
    candidates = exact or answered or exchanges
    best = max((_likeness(exchange.request, asked) for exchange in candidates), default=0)
    return [exchange for exchange in candidates if _likeness(exchange.request, asked) == best]


def _same_kind(recorded: Any, asked: Any) -> bool:
    """Whether the two requests ask for replies of the same shape. Text that is no JSON is like nothing but itself."""
    if not isinstance(recorded, dict) or not isinstance(asked, dict):
        return bool(recorded == asked)
    kinds = (_kind(recorded), _kind(asked))
    return kinds[0] == kinds[1] or not recorded


def _kind(request: Mapping[str, Any]) -> tuple[bool, ...]:
    wants_schema = request.get("response_format") is not None
    return bool(request.get("stream")), request.get("n", 1) > 1, bool(request.get("tools")), wants_schema


def _likeness(recorded: Any, asked: Any) -> int:
    """Fields that are equal, less those that only the recorded request has."""
    if not isinstance(recorded, dict) or not isinstance(asked, dict):
        return 0
    equal = sum(1 for name, value in asked.items() if name in recorded and recorded[name] == value)
    return 2 * equal - sum(1 for name in recorded if name not in asked)


def _reply(status: int, server: str, content_type: str, body: bytes, path: str) -> HttpReply:
    headers = {"content-type": content_type, "content-length": str(len(body))}
    if server:
        headers["server"] = server
    return HttpReply(status, headers, body, url=f"http://recorded{path}")


def _decoded(raw: bytes) -> Any:
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")
