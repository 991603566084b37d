"""The grammar of the server argument."""

from __future__ import annotations

import pytest

from widelane.engines.address import EmbeddedServerSpec, ServerAddress, SimServerSpec, UrlServer, parse_server
from widelane.errors import UsageError


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("http://localhost:8080", UrlServer("http://localhost:8080")),
        ("http://localhost:8080/", UrlServer("http://localhost:8080")),
        ("HTTPS://api.example.org/v1/", UrlServer("HTTPS://api.example.org/v1")),
        ("http://:KEY@10.0.0.2:8000", UrlServer("http://:KEY@10.0.0.2:8000")),
        ("localhost:8080", UrlServer("http://localhost:8080")),
        ("192.168.1.4:11434", UrlServer("http://192.168.1.4:11434")),
        ("[::1]:8080", UrlServer("http://[::1]:8080")),
        ("box.local:8000/v1", UrlServer("http://box.local:8000/v1")),
        (" embedded ", EmbeddedServerSpec(None)),
        ("embedded:1", EmbeddedServerSpec(1)),
        ("embedded:256", EmbeddedServerSpec(256)),
        ("sim:gb10/qwen3.6-27b/vllm?slots=8", SimServerSpec("sim:gb10/qwen3.6-27b/vllm?slots=8")),
        (" sim:sweep.json", SimServerSpec("sim:sweep.json")),
    ],
)
def test_what_is_understood(text: str, server: ServerAddress) -> None:
    assert parse_server(text) == server


@pytest.mark.parametrize(
    "text",
    [
        *("", "localhost", "8080"),
        *("embedded:", "embedded:0", "embedded:257", "embedded:x", "embedded:-1", "embedded:1.5"),
        *("http://", "http://:8080", "http://host:99999", "http://host:0", "host:99999"),
        *("ftp://host:21", "a b:80", "http://a b/"),
    ],
)
def test_what_is_refused_says_what_is_allowed(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_server(text)
    assert any(word in str(caught.value) for word in ("embedded", "URL", "ort"))
