"""https, with a certificate made for the test."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.wire.raw_server import answering
from tests.wire.streams import ASK, says
from widelane.errors import NotAModelServer
from widelane.wire.client import HttpBackend


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A key and a certificate for 127.0.0.1, one day valid."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl command to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-keyout", str(key), "-out", str(certificate), "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return key, certificate


BODY = says("Hello")
REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY


async def test_a_call_over_tls_and_a_certificate_nobody_vouches_for(certificate: tuple[Path, Path]) -> None:
    key, public = certificate
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(public, key)
    trusted = ssl.create_default_context(cafile=str(public))
    async with answering(REPLY, tls=served) as place:
        async with HttpBackend(f"https://{place}", model="m", tls=trusted) as backend:
            assert (await backend.complete(ASK)).text == "Hello"
            assert (await backend.complete(ASK)).text == "Hello"
        async with HttpBackend(f"https://{place}", model="m") as backend:
            with pytest.raises(NotAModelServer, match="not trusted"):
                await backend.complete(ASK)


async def test_https_to_a_plain_server_says_so() -> None:
    async with (
        answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as place,
        HttpBackend(f"https://{place}", model="m") as backend,
    ):
        with pytest.raises(NotAModelServer, match="does not speak TLS") as failed:
            await backend.complete(ASK)
    assert "http://" in (failed.value.hint or "")
