"""What a fault may change of one answered request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from widelane.sim.ask import Ask
from widelane.sim.exchange import Outlet
from widelane.sim.http_connection import HttpConnection
from widelane.sim.refusal import PlainReply
from widelane.sim.service import Change

Bend = Callable[[HttpConnection, float | None], Outlet]
"""An outlet before a connection; the second argument is the server's speed, for what lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One known misbehaviour. What is None is left as it is.

    Attributes:
        name: as the catalogue of faults has it.
        what: what the server does, for a list of them.
        refusal: the reply instead of an answer.
        refuses: which requests get it; None: all.
        asked: other body fields than the client sent, as a server that ignores some reads them.
        change: what becomes of the answer.
        bend: what becomes of the bytes.
        outage_s: simulated seconds for which nobody listens, from this request on (from after its refusal, if any).
        ours: the fault lies with the client; the server answers well.
    """

    name: str
    what: str
    refusal: PlainReply | None = None
    refuses: Callable[[Ask], bool] | None = None
    asked: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    change: Change | None = None
    bend: Bend | None = None
    outage_s: float | None = None
    ours: bool = False
