"""A server that answers by script, byte for byte, over a real loopback socket: for testing clients against faults.

    turns = [
        [{"op": "status", "code": 503}, {"op": "send", "text": "busy"}, {"op": "end"}],
        [{"op": "status", "code": 200, "headers": {"content-type": "text/event-stream"}},
         {"op": "send", "text": "data: …"}, {"op": "hang"}],
    ]
    async with ScriptedServer(turns) as server:
        …  # point a client at server.url, then look at server.requests

Every POST takes the next turn, the last one repeats (see `script` for the operations). Times are those of the running
loop, so under `run_virtual` a wait of 240 s takes milliseconds. `GET /health`, `/v1/models`, `/slots` and `/metrics`
answer as a healthy llama.cpp server does and take no turn.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Sequence
from typing import Self

import msgspec

from widelane.testing.script import Operation, Turn, check_turns, payload, starts_refusing
from widelane.testing.scripted_connection import ConnectionLog, Received, ScriptedConnection

_EVENT = re.compile(rb"^data:", re.MULTILINE)


class ScriptedServer:
    """The server; an async context manager.

    Attributes:
        requests: every request that took a turn, in order of arrival.
        connections: one log a connection.
        peak_running: most requests under way together.
        models: ids that `/v1/models` lists.
        hold_s: wait before each answer begins, so that requests offered together are under way together.
    """

    def __init__(self, turns: Sequence[Turn], *, models: Sequence[str] = ("m",), hold_s: float = 0.0) -> None:
        """Raises:
        UsageError: the script has an unknown operation.
        """
        check_turns(turns)
        self.requests: list[Received] = []
        self.connections: list[ConnectionLog] = []
        self.peak_running = 0
        self.models = tuple(models)
        self.hold_s = hold_s
        self.port = 0
        self._turns = turns
        self._next = 0
        self._running = 0
        self._busy_until_s: list[float] = []
        self._slots: dict[int, asyncio.Semaphore] = {}
        self._open: set[ScriptedConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._socket: socket.socket | None = None

    def __repr__(self) -> str:
        return f"<ScriptedServer {len(self.requests)} requests, peak {self.peak_running}, turn {self._next}>"

    @property
    def url(self) -> str:
        """Base URL, without `/v1`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def running(self) -> int:
        """Requests that the server reports as running, those among them that a closed client left behind."""
        now_s = asyncio.get_running_loop().time()
        return self._running + sum(until_s > now_s for until_s in self._busy_until_s)

    @property
    def turns_left(self) -> int:
        """Turns that no request has taken yet."""
        return max(0, len(self._turns) - self._next)

    async def __aenter__(self) -> Self:
        self._socket = _bound_socket(0)
        self.port = self._socket.getsockname()[1]
        if not self._refuse_if_next():
            await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self._open):
            connection.abort()
        if self._listener is not None:
            self._listener.close()
        if self._socket is not None:
            self._socket.close()
        await asyncio.sleep(0)  # lets the transports close their sockets

    # --- listening and refusing

    async def _listen(self) -> None:
        assert self._socket is not None
        bound, self._socket = self._socket, None
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: ScriptedConnection(self), sock=bound, backlog=1024)

    def _refuse_if_next(self) -> bool:
        """Start refusing when the next turn says so."""
        turn = self._turns[min(self._next, len(self._turns) - 1)]
        if not starts_refusing(turn):
            return False
        self._next += 1
        self.refuse(float(turn[0]["s"]))
        return True

    def refuse(self, seconds: float) -> None:
        """Drop every connection and refuse new ones for a while. The port stays ours, so that no other takes it."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in list(self._open):
            connection.drop()
        if self._socket is None:
            self._socket = _bound_socket(self.port)
        self._start(self._reopen_after(seconds))

    async def _reopen_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if not self._refuse_if_next():
            await self._listen()

    # --- requests

    def _start(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def opened(self, connection: ScriptedConnection) -> ConnectionLog:
        """A client connected; its log."""
        self._open.add(connection)
        self.connections.append(ConnectionLog(len(self.connections)))
        return self.connections[-1]

    def closed(self, connection: ScriptedConnection) -> None:
        """A connection is gone."""
        self._open.discard(connection)

    def answer(self, connection: ScriptedConnection, request: Received) -> asyncio.Task[None]:
        """Play the turn of a request that has come in whole."""
        if request.method == "GET":
            return self._start(self._answer_get(connection, request))
        request.turn = min(self._next, len(self._turns) - 1)
        self._next += 1
        self.requests.append(request)
        self._running += 1
        self.peak_running = max(self.peak_running, self._running)
        return self._start(self._play(connection, request, self._turns[request.turn]))

    async def _play(self, connection: ScriptedConnection, request: Received, turn: Turn) -> None:
        try:
            if self.hold_s:
                await asyncio.sleep(self.hold_s)
            connection.begin(turn)
            for operation in turn:
                await self._perform(connection, request, operation)
            if not connection.over:
                await connection.hang()
        except asyncio.CancelledError:
            request.closed_by_client = connection.lost
            raise
        finally:
            request.ended_s = asyncio.get_running_loop().time()
            self._running -= 1
            if connection.lost and connection.busy_after_close_s:
                self._busy_until_s.append(request.ended_s + connection.busy_after_close_s)
        self._refuse_if_next()

    async def _perform(self, connection: ScriptedConnection, request: Received, operation: Operation) -> None:
        name = operation["op"]
        if name in ("send", "send_hex"):
            await self._write(connection, request, payload(operation))
        elif name == "send_bytewise":
            for byte in payload(operation):
                await self._write(connection, request, bytes((byte,)))
            request.events_sent += len(_EVENT.findall(payload(operation)))
        elif name == "repeat":
            for _ in range(int(operation["times"])):
                await asyncio.sleep(float(operation.get("every_s", 0.0)))
                await self._write(connection, request, payload(operation))
        elif name == "slots":
            await self._serve_in_slot(int(operation["n"]), float(operation["service_s"]))
        elif name == "wait":
            await asyncio.sleep(float(operation["s"]))
        elif name == "refuse":
            self.refuse(float(operation["s"]))
        else:
            await connection.perform(name, operation)

    async def _write(self, connection: ScriptedConnection, request: Received, data: bytes) -> None:
        request.events_sent += len(_EVENT.findall(data))
        await connection.write(data)

    async def _serve_in_slot(self, slots: int, service_s: float) -> None:
        async with self._slots.setdefault(slots, asyncio.Semaphore(slots)):
            await asyncio.sleep(service_s)

    async def _answer_get(self, connection: ScriptedConnection, request: Received) -> None:
        status, kind, body = self._get(request.path)
        headers = {"content-type": kind}
        turn: Turn = [
            {"op": "status", "code": status, "headers": headers}, {"op": "send", "text": body}, {"op": "end"}
        ]  # fmt: skip
        connection.begin(turn)
        for operation in turn:
            await self._perform(connection, request, operation)

    def _get(self, path: str) -> tuple[int, str, str]:
        json = "application/json"
        if path == "/health":
            return 200, json, '{"status": "ok"}'
        if path in ("/v1/models", "/models"):
            models = [{"id": name, "object": "model", "created": 1, "owned_by": "script"} for name in self.models]
            return 200, json, msgspec.json.encode({"object": "list", "data": models}).decode()
        if path == "/slots":
            running = self.running
            slots = [{"id": number, "is_processing": number < running} for number in range(max(1, running))]
            return 200, json, msgspec.json.encode(slots).decode()
        if path == "/metrics":
            return 200, "text/plain; version=0.0.4", f"llamacpp:requests_processing {self.running}\n"
        return 404, json, '{"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}'


def _bound_socket(port: int) -> socket.socket:
    """A loopback socket that is bound and does not listen: it holds the port, and connections are refused."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    bound.setblocking(False)
    return bound
