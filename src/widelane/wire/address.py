"""Where a server is: the URL a person gave, taken apart once."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from widelane.errors import UsageError

_API_BASE = re.compile(r"/v\d+\Z")
_ENDPOINT = re.compile(r"/(?:chat/completions|completions|models|embeddings)/?\Z")


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address.

    Attributes:
        host: name or IP literal, without brackets.
        root_path: path prefix of the server itself, empty or `/prefix`.
        api_path: path prefix of the OpenAI protocol, `root_path` + `/v1` unless the URL said otherwise (`/v3`).
        api_key: the key that stood in the URL, None when none did. It appears in no other attribute.
    """

    tls: bool
    host: str
    port: int
    root_path: str
    api_path: str
    api_key: str | None = None

    @property
    def origin(self) -> str:
        """`scheme://host[:port]`, the port left out where it is the scheme's own."""
        return f"{'https' if self.tls else 'http'}://{self.host_header}"

    @property
    def host_header(self) -> str:
        """The value of `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    @property
    def ip_literals(self) -> tuple[str, ...]:
        """Addresses that need no look-up: the literal itself, both loopbacks for `localhost`; else empty."""
        if self.host == "localhost":
            return ("127.0.0.1", "::1")
        try:
            ipaddress.ip_address(self.host.partition("%")[0])
        except ValueError:
            return ()
        return (self.host,)


def parse_address(url: str) -> Address:
    """The address in a base URL, with or without `/v1`, with or without a key (`http://:KEY@host`).

    Raises:
        UsageError: it is no http(s) URL.
    """
    text = url.strip()
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{_shown(text)!r} is no usable address: {error}.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"[\s\x00-\x1f]", text):
        raise UsageError(f"{_shown(text)!r} is no usable address: give http://host:port/v1 or https://host/v1.")
    path = _ENDPOINT.sub("", parts.path.rstrip("/")).rstrip("/")
    has_base = _API_BASE.search(path)
    tls = parts.scheme == "https"
    key = parts.password or parts.username
    return Address(
        tls=tls,
        host=parts.hostname,
        port=port or (443 if tls else 80),
        root_path=path[: has_base.start()] if has_base else path,
        api_path=path if has_base else f"{path}/v1",
        api_key=unquote(key) if key else None,
    )


def _shown(text: str) -> str:
    """The URL without what might be a key."""
    return re.sub(r"//[^/@]*@", "//…@", text)
