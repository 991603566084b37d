"""What detection says when the server is not well, or is none."""

from __future__ import annotations

from typing import Any

import pytest

from widelane.engines.detect import detect
from widelane.errors import CallError, ConnectionRefused, NotAModelServer, ServerLoading, Unauthorized, WrongPath
from widelane.records import HttpReply

URL = "http://127.0.0.1:9"


def answering(
    status: int, body: bytes, *, content_type: str = "application/json", server: str = "", **paths: bytes
) -> Any:
    """A server with one answer for everything, but for the `paths` (by name, 200)."""

    async def fetch(method: str, path: str, body_sent: Any = None, *, timeout_s: float = 10.0) -> HttpReply:
        name = path.strip("/").replace("/", "_")
        found = paths.get(name)
        headers = {"content-type": content_type, "server": server}
        return HttpReply(200 if found else status, headers, found or body, f"{URL}{path}")

    return fetch


@pytest.mark.parametrize(
    ("fetch", "error", "words"),
    [
        (
            answering(401, b'{"error":{"code":401,"message":"Invalid API Key"}}', server="llama.cpp"),
            Unauthorized,
            "key",
        ),
        (answering(401, b'{"error":"Unauthorized"}', server="uvicorn"), Unauthorized, "key"),
        (
            answering(503, b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}'),
            ServerLoading,
            "loading",
        ),
        (answering(200, b"<!DOCTYPE html><html></html>", content_type="text/html"), NotAModelServer, "web page"),
        (answering(404, b"<html>not here</html>", content_type="text/html"), NotAModelServer, "web page"),
        (answering(404, b'{"detail":"Not Found"}'), WrongPath, "neither /v1/models"),
        (answering(200, b'{"hello":"world"}'), NotAModelServer, "not as a model server"),
    ],
)
async def test_what_is_no_healthy_model_server_gets_its_own_error(
    fetch: Any, error: type[CallError], words: str
) -> None:
    with pytest.raises(error, match=words):
        await detect(fetch)


async def test_a_gateway_that_guards_other_paths_is_not_taken_for_a_wrong_key() -> None:
    fetch = answering(401, b"no", v1_models=b'{"data":[{"id":"m","owned_by":"vllm"}]}')
    assert (await detect(fetch)).name == "vllm"


async def test_nobody_there_stays_nobody_there() -> None:
    async def refused(*_: Any, **__: Any) -> HttpReply:
        raise ConnectionRefused("nobody listens at 127.0.0.1:9")

    with pytest.raises(ConnectionRefused):
        await detect(refused)
