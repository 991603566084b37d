"""URLs as people write them."""

from __future__ import annotations

import pytest

from widelane.errors import UsageError
from widelane.wire.address import parse_address
from widelane.wire.client import HttpBackend


@pytest.mark.parametrize(
    ("url", "root", "base"),
    [
        ("http://localhost:8080", "http://localhost:8080", "http://localhost:8080/v1"),
        ("http://localhost:8080/", "http://localhost:8080", "http://localhost:8080/v1"),
        ("http://localhost:8080/v1", "http://localhost:8080", "http://localhost:8080/v1"),
        ("http://localhost:8080/v1/", "http://localhost:8080", "http://localhost:8080/v1"),
        ("http://localhost:8080/v1/chat/completions", "http://localhost:8080", "http://localhost:8080/v1"),
        ("localhost:8080", "http://localhost:8080", "http://localhost:8080/v1"),
        ("https://host", "https://host", "https://host/v1"),
        ("https://host:443/v1", "https://host", "https://host/v1"),
        ("http://host:80", "http://host", "http://host/v1"),
        ("http://host/llm/v1", "http://host/llm", "http://host/llm/v1"),
        ("http://host/v3", "http://host", "http://host/v3"),
        ("http://[::1]:8000/v1", "http://[::1]:8000", "http://[::1]:8000/v1"),
    ],
)
def test_root_and_base_are_found(url: str, root: str, base: str) -> None:
    backend = HttpBackend(url)
    assert (backend.root_url, backend.url) == (root, base)


@pytest.mark.parametrize(
    "url", ["http://:s3cret@host:8000/v1", "http://s3cret@host:8000", "http://me:s3cret@host:8000"]
)
def test_a_key_in_the_url_is_used_and_never_shown(url: str) -> None:
    address = parse_address(url)
    assert address.api_key == "s3cret"
    backend = HttpBackend(url)
    assert "s3cret" not in backend.url + backend.root_url + repr(backend)


@pytest.mark.parametrize(
    "url", ["", "ftp://host", "http://", "http://host:port", "http://host:99999", "http://ho st/v1", "a\nb"]
)
def test_what_is_no_url_is_refused_in_one_sentence(url: str) -> None:
    with pytest.raises(UsageError, match="no usable address"):
        parse_address(url)


def test_a_refused_url_does_not_show_its_key() -> None:
    with pytest.raises(UsageError) as refused:
        parse_address("http://:s3cret@host:port")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "literals"),
    [("127.0.0.1", ("127.0.0.1",)), ("[::1]", ("::1",)), ("localhost", ("127.0.0.1", "::1")), ("example.org", ())],
)
def test_loopback_and_ip_addresses_need_no_look_up(host: str, literals: tuple[str, ...]) -> None:
    assert parse_address(f"http://{host}:1").ip_literals == literals
