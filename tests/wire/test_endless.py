"""A server without end is given up before it fills the memory."""

import asyncio

import pytest

from widelane.errors import MalformedReply, UsageError
from widelane.records import ChatRequest, HttpReply
from widelane.wire.client import HttpBackend
from widelane.wire.json_text import decode_json

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
REQUEST = ChatRequest(messages=[{"role": "user", "content": "Hi"}], model="m")


async def answered_by(first: bytes, again: bytes) -> None:
    """One call to a server that sends `first`, then `again` until the client hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(first)
            while True:
                writer.write(again)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, HttpBackend(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as backend:
        async with asyncio.timeout(60):
            await backend.complete(REQUEST)


@pytest.mark.parametrize(
    ("first", "again", "said"),
    [
        pytest.param(HEAD, b" " * 4096, "white space", id="blank body"),
        pytest.param(HEAD + b"data: ", b"x" * 16384, "no end", id="one line"),
        pytest.param(HEAD, b"data: x\n" * 512, "no end", id="one event"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"x-a: b\r\n" * 512, "no end", id="headers"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx-a: ", b"b" * 16384, "no end", id="one header"),
    ],
)
async def test_no_end_is_a_malformed_reply(first, again, said):
    with pytest.raises(MalformedReply, match=said):
        await answered_by(first, again)


def test_json_nested_without_end_is_no_json():
    deep = b"[" * 200_000
    with pytest.raises(ValueError):
        decode_json(deep)
    assert HttpReply(200, {}, deep).json() is None


def test_a_key_with_a_line_end_is_cleaned_and_one_with_a_header_inside_is_refused():
    assert HttpBackend("http://127.0.0.1:9", api_key="sk-a\n")._key == "sk-a"
    with pytest.raises(UsageError, match="API key"):
        HttpBackend("http://127.0.0.1:9", api_key="sk-a\r\nX-Evil: 1")
