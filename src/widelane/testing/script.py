"""What a scripted server does, checked before it runs: turns made of operations. Pure.

A turn is the answer to one request, a list of operations, each an object with `op` and its own keys:

| op | keys | what the server does |
| --- | --- | --- |
| `status` | `code`, `headers` | sends the status line and headers |
| `send` | `text` | sends text in one write |
| `send_hex` | `hex` | sends bytes in one write |
| `send_bytewise` | `text` or `hex` | sends one write a byte |
| `repeat` | `times`, `every_s`, `text` | sends the text that many times, waiting before each |
| `wait` | `s` | waits |
| `slots` | `n`, `service_s` | serves n requests together, each for service_s; the others wait for a slot |
| `end` | | ends the body properly; the connection stays open |
| `fin` | | closes the socket |
| `rst` | | resets it |
| `hang` | | keeps it open and sends nothing more |
| `refuse` | `s` | drops every connection and refuses new ones for s seconds |
| `client_closes_then_busy` | `s` | once the client has closed, reports a running request for s seconds |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from widelane.errors import UsageError

Operation = Mapping[str, Any]
Turn = Sequence[Operation]

# Required keys of each operation; of a tuple, one of them.
_KEYS: Mapping[str, tuple[str | tuple[str, ...], ...]] = {
    "status": ("code",),
    "send": ("text",),
    "send_hex": ("hex",),
    "send_bytewise": (("text", "hex"),),
    "repeat": ("times", "text"),
    "wait": ("s",),
    "slots": ("n", "service_s"),
    "end": (),
    "fin": (),
    "rst": (),
    "hang": (),
    "refuse": ("s",),
    "client_closes_then_busy": ("s",),
}
_CUTS = frozenset({"fin", "rst", "hang", "refuse"})


def check_turns(turns: Sequence[Turn]) -> None:
    """Refuse a script that this server cannot play.

    Raises:
        UsageError: an operation is unknown or lacks a key, or there is no turn.
    """
    if not turns:
        raise UsageError("a script needs at least one turn")
    for number, turn in enumerate(turns):
        for operation in turn:
            name = str(operation.get("op"))
            if name not in _KEYS:
                raise UsageError(f"turn {number}: unknown operation {name!r}; known are {', '.join(_KEYS)}")
            for key in _KEYS[name]:
                names = key if isinstance(key, tuple) else (key,)
                if not any(one in operation for one in names):
                    raise UsageError(f"turn {number}: operation {name!r} needs {' or '.join(names)}")


def payload(operation: Operation) -> bytes:
    """The bytes that one write of a sending operation carries."""
    if "hex" in operation:
        return bytes.fromhex(operation["hex"])
    return str(operation["text"]).encode()


def starts_refusing(turn: Turn) -> bool:
    """Whether the turn refuses connections before any request can come."""
    return bool(turn) and turn[0]["op"] == "refuse"


def body_length(turn: Turn, headers: Mapping[str, str]) -> int | None:
    """Content-Length of a turn's body; None for a chunked one.

    Event streams are chunked, and so are bodies that are not ended properly, so that a cut body is seen to be cut.
    """
    streaming = headers.get("content-type", "").startswith("text/event-stream")
    names = {operation["op"] for operation in turn}
    if streaming or "end" not in names or names & _CUTS:
        return None
    return sum(_size(operation) for operation in turn)


def _size(operation: Operation) -> int:
    if operation["op"] not in ("send", "send_hex", "send_bytewise", "repeat"):
        return 0
    return len(payload(operation)) * int(operation.get("times", 1))
