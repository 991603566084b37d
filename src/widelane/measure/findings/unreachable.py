"""No server to diagnose: nobody listens, it is loading, the path or the key is wrong. These are findings too."""

from __future__ import annotations

from collections.abc import Mapping

from widelane import errors
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Finding, unknown
from widelane.measure.findings import build
from widelane.measure.profile import DoctorReport, Limit

CASES: tuple[tuple[type[errors.CallError], str, str], ...] = (
    (errors.ServerLoading, "loading", "The server is up and still loading its model."),
    (errors.Unauthorized, "wrong-key", "The server refuses the key."),
    (errors.WrongPath, "wrong-path", "A server answers, but not at this path."),
    (errors.NotAModelServer, "not-a-model-server", "Something answers there, and it is no model server."),
    (errors.ModelNotFound, "wrong-model", "The server does not have this model."),
    (errors.EngineDead, "engine-dead", "The HTTP front answers, and the engine behind it has died."),
    (errors.ServerOverloaded, "overloaded", "The server sheds load: it answers, and refuses the call."),
    (errors.ConnectionRefused, "unreachable", "Nobody listens at this address."),
    (errors.CallError, "unreachable", "The server cannot be used."),
)
"""The first case whose class fits names the finding."""


def diagnose_unreachable(error: errors.CallError) -> Finding:
    """The finding for a server that could not be asked at all; its severity is always `error`."""
    code, title = next((code, title) for kind, code, title in CASES if isinstance(error, kind))
    said = f"{error.message} {error.hint}" if error.hint else error.message
    return build.error(code, title, said)


def unreachable_report(url: str, error: errors.CallError, made: Mapping[str, str] | None = None) -> DoctorReport:
    """The whole document for such a server: no facts, no levels, one finding."""
    finding = diagnose_unreachable(error)
    return DoctorReport(
        server=url,
        verdict=f"{finding.title} {error.message}",
        facts=no_facts("the server could not be asked"),
        findings=(finding,),
        limit=Limit.UNKNOWN,
        limit_evidence="nothing was measured",
        levels=(),
        knee=None,
        made=dict(made or {}),
    )


def no_facts(why: str) -> ServerFacts:
    """Facts of a server of which nothing is known."""
    word = unknown("", why)
    return ServerFacts(
        engine="unknown",
        version=word,
        model=word,
        slots=unknown("slots", why),
        context_per_slot=unknown("tokens", why),
        context_trained=unknown("tokens", why),
        kv_dtype=word,
        state_dtype=word,
        pool_tokens=unknown("tokens", why),
        unified_pool=word,
        speculation=word,
        prefix_cache=word,
        queue_length=unknown("requests", why),
        reasoning_parser=word,
        tool_parser=word,
        weights_bytes=unknown("bytes", why),
        parameters=unknown("", why),
        launch_command=word,
    )
