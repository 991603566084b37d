"""A recorded server answers as the real one did, as a `Fetch` and on a real port."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from widelane.engines.detect import detect
from widelane.errors import ConnectionLost, UsageError
from widelane.testing.recorded_server import RecordedServer, Recording, engine_name, load_recording

SSE = b'data: {"a":1}\n\ndata: [DONE]\n\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = [
        {
            "file": "idle.json",
            "method": "GET",
            "path": "/slots",
            "status": 200,
            "server_header": "llama.cpp",
            "note": "idle",
        },
        {"file": "busy.json", "method": "GET", "path": "/slots", "status": 200, "note": "busy"},
        {
            "file": "chat.json",
            "method": "POST",
            "path": "/v1/chat/completions",
            "status": 200,
            "request": {"max_tokens": 4},
        },
        {"file": "n.json", "method": "POST", "path": "/v1/chat/completions", "status": 400, "request": {"n": 4}},
        {"file": "bad.json", "method": "POST", "path": "/v1/chat/completions", "status": 400, "raw_request": "{oops"},
        {
            "file": "s.sse",
            "method": "POST",
            "path": "/v1/chat/completions",
            "status": 200,
            "content_type": "text/event-stream",
            "request": {"stream": True},
            "chunk_arrivals_ms_bytes": [[1, 15], [2, len(SSE) - 15]],
        },
        {"file": "gone.txt", "method": "GET", "path": "/gone", "status": 0},
    ]
    for entry in files:
        name = str(entry["file"])
        (tmp_path / name).write_bytes(SSE if name == "s.sse" else json.dumps({"file": name}).encode())
    made = {"engine": "llama.cpp server", "version": "b1", "args": "-np 2"}
    (tmp_path / "index.json").write_text(json.dumps({"recorded_with": made, "files": files}))
    return tmp_path


async def which(server: RecordedServer, path: str, body: object = None) -> tuple[int, object]:
    reply = await server("GET" if body is None else "POST", path, body)
    answer = reply.json()
    return reply.status, answer.get("file") if isinstance(answer, dict) else answer


async def test_a_path_recorded_twice_gives_the_first_or_the_preferred(folder: Path) -> None:
    recording = load_recording(folder)
    assert await which(RecordedServer(recording), "/slots") == (200, "idle.json")
    assert await which(RecordedServer(recording, prefer="busy"), "/slots?x=1") == (200, "busy.json")


async def test_a_request_gets_the_reply_to_the_one_of_its_kind(folder: Path) -> None:
    server = RecordedServer(load_recording(folder))
    chat = "/v1/chat/completions"
    assert await which(server, chat, {"max_tokens": 4}) == (200, "chat.json")
    assert await which(server, chat, {"max_tokens": 9, "temperature": 0}) == (200, "chat.json")
    assert await which(server, chat, {"n": 999}) == (400, "n.json")
    assert await which(server, chat, "{oops") == (400, "bad.json")
    assert (await server("POST", chat, {"stream": True})).body == SSE
    assert (await which(server, chat, {"tools": [{}]}))[0] == 404
    assert server.asked[0] == ("POST", chat, {"max_tokens": 4})


async def test_what_was_not_recorded_is_the_engines_own_404(folder: Path) -> None:
    reply = await RecordedServer(load_recording(folder))("GET", "/nope")
    assert (reply.status, reply.headers["server"]) == (404, "llama.cpp")
    assert b"File Not Found" in reply.body


async def test_a_connection_that_closed_closes(folder: Path) -> None:
    with pytest.raises(ConnectionLost):
        await RecordedServer(load_recording(folder))("GET", "/gone")


@pytest.mark.parametrize("pace", [0.0, 0.1])
async def test_the_same_over_a_real_port(folder: Path, pace: float) -> None:
    server = RecordedServer(load_recording(folder), pace=pace)
    async with server.listening() as url:
        assert await over_http(url, "GET", "/slots") == (b"200", b'{"file": "idle.json"}')
        assert await over_http(url, "POST", "/v1/chat/completions", b'{"stream": true}') == (b"200", SSE)
        assert (await over_http(url, "GET", "/nope"))[0] == b"404"
        assert await over_http(url, "GET", "/gone") == (b"", b"")


async def over_http(url: str, method: str, path: str, body: bytes = b"") -> tuple[bytes, bytes]:
    """Status and body of a plain request."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{method} {path} HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return (head.split(b" ")[1] if head else b""), rest


async def test_a_server_can_be_made_by_hand() -> None:
    server = RecordedServer(Recording.of_replies("vllm", {"/version": {"version": "0.1"}, "/metrics": "vllm:x 1"}))
    assert (await detect(server)).name == "vllm"
    assert (await server("GET", "/nope")).json() == {"detail": "Not Found"}


@pytest.mark.parametrize("text", [None, "{", '{"files": []}', '{"recorded_with": {}, "files": [{"file": "x"}]}'])
def test_a_folder_without_a_recording_is_the_users_mistake(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "index.json").write_text(text)
    with pytest.raises(UsageError, match="no recording"):
        load_recording(tmp_path)


@pytest.mark.parametrize(
    ("stated", "name"),
    [
        ("llama.cpp server", "llama.cpp"),
        ("vLLM", "vllm"),
        ("mlx-lm server", "mlx-lm"),
        ("LM Studio", "lm-studio"),
        ("New", "new"),
    ],
)
def test_engines_as_people_write_them(stated: str, name: str) -> None:
    assert engine_name(stated) == name
