"""Which server a command is about: the one grammar of every server argument.

    URL            http://host:8080, https://host/v1
    host:port      localhost:8080, [::1]:8080
    embedded       the server that Widelane starts itself, with the engine's own number of slots
    embedded:N     the same with N slots
    sim:…          a simulated server (the whole grammar is in `sim.spec`)

A new form is one more entry in `_FORMS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from widelane.errors import UsageError

MAX_SLOTS = 256
"""llama.cpp starts with at most this many."""

_HOST_AND_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+(%\w+)?\]|[^\s:/@?#\[\]]+):(?P<port>\d+)(?P<path>/\S*)?")


@dataclass(frozen=True, slots=True)
class UrlServer:
    """A server that already runs. `url` has a scheme and no trailing slash; a path (`/v1`) is kept."""

    url: str


@dataclass(frozen=True, slots=True)
class EmbeddedServerSpec:
    """The server to start. `slots` None means the engine's own default."""

    slots: int | None = None


@dataclass(frozen=True, slots=True)
class SimServerSpec:
    """A server to simulate. `text` is the whole argument, which `sim.spec.parse_sim` reads."""

    text: str


ServerAddress = UrlServer | EmbeddedServerSpec | SimServerSpec


def parse_server(text: str) -> ServerAddress:
    """The server that `text` names.

    Raises:
        UsageError: `text` follows no form of the grammar; the message names the forms.
    """
    stated = text.strip()
    for applies, parse in _FORMS:
        if applies(stated):
            return parse(stated)
    raise UsageError(f"cannot read the server {text!r}: {_FORMS_IN_WORDS}")


_FORMS_IN_WORDS = "give a URL (http://localhost:8080), host:port, `embedded`, `embedded:SLOTS`, or `sim:…`"


def _embedded(text: str) -> EmbeddedServerSpec:
    _, colon, slots = text.partition(":")
    if not colon:
        return EmbeddedServerSpec()
    if not re.fullmatch(r"[0-9]+", slots) or not 1 <= int(slots) <= MAX_SLOTS:
        raise UsageError(f"cannot read {text!r}: after `embedded:` comes a number of slots from 1 to {MAX_SLOTS}")
    return EmbeddedServerSpec(int(slots))


def _url(text: str) -> UrlServer:
    if re.search(r"\s", text):
        raise UsageError(f"cannot read the server {text!r}: a URL has no spaces")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"cannot read the server {text!r}: {error}") from None
    if not parts.hostname or port == 0:
        raise UsageError(f"cannot read the server {text!r}: a URL needs a host, and a port from 1 to 65535 if any")
    return UrlServer(text.split("#", 1)[0].rstrip("/"))


def _host_and_port(text: str) -> UrlServer:
    return _url(f"http://{text}")


_FORMS: tuple[tuple[Callable[[str], bool], Callable[[str], ServerAddress]], ...] = (
    (lambda text: text == "embedded" or text.startswith("embedded:"), _embedded),
    (lambda text: text.startswith("sim:"), SimServerSpec),
    (lambda text: text.lower().startswith(("http://", "https://")), _url),
    (lambda text: _HOST_AND_PORT.fullmatch(text) is not None, _host_and_port),
)
"""Whether a form applies, and how it is read; the first that applies decides."""
