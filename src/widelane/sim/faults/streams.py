"""Faults of the bytes: streams that are cut, stand still, are framed oddly, or whose events lack something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from widelane.sim.exchange import Outlet
from widelane.sim.faults import rewrites
from widelane.sim.faults.answers import WIDE_LETTERS, WITH_CALL, WITH_CALLS
from widelane.sim.faults.bends import (
    CUT_AFTER,
    Cut,
    Failing,
    Framed,
    Hanging,
    Lacking,
    Rewritten,
    Slow,
    Stale,
    Straight,
)
from widelane.sim.faults.fault import Bend, Fault
from widelane.sim.reply_form import EventKind

GONE_S = 1e9


def _as(kind: Callable[..., Outlet], *arguments: Any, **named: Any) -> Bend:
    return lambda connection, speed: kind(connection, speed, *arguments, **named)


_K = EventKind
STREAMS: tuple[Fault, ...] = (
    Fault(name="cut_mid_stream_fin", what="the socket closes in the middle of a stream", bend=_as(Cut, "close")),
    Fault(name="cut_mid_stream_rst", what="the connection is reset after some events", bend=_as(Cut, "reset")),
    Fault(name="cut_inside_event", what="the socket closes inside an event", bend=_as(Cut, "inside")),
    Fault(
        name="clean_end_without_finish",
        what="the body ends properly, without finish reason and [DONE]",
        bend=_as(Lacking, frozenset({_K.FINISH, _K.USAGE, _K.DONE})),
    ),
    Fault(
        name="no_done_after_finish_eof",
        what="[DONE] never comes",
        bend=_as(Lacking, frozenset({_K.USAGE, _K.DONE})),
    ),
    Fault(
        name="no_done_connection_stays_open",
        what="after the finish reason, silence on an open connection",
        bend=_as(Lacking, frozenset({_K.USAGE, _K.DONE}), hangs=True),
    ),
    Fault(name="stale_keepalive_socket", what="a used connection closes before any byte", bend=_as(Stale)),
    Fault(name="connection_refused_restart", what="nobody listens for 20 s", outage_s=20.0),
    Fault(name="server_gone_for_good", what="nobody listens any more", outage_s=GONE_S),
    Fault(name="hang_before_headers", what="the request is taken and no byte ever comes", bend=_as(Hanging, 0)),
    Fault(name="hang_mid_stream", what="tokens flow, then stop for ever", bend=_as(Hanging, CUT_AFTER)),
    Fault(name="slow_first_token", what="headers at once, the first token after 240 s", bend=_as(Slow)),
    Fault(name="client_pool_limit", what="128 lanes on a client whose pool holds 100 connections", ours=True),
    Fault(name="fd_limit", what="more lanes than the client may open files", ours=True),
    Fault(name="comment_heartbeat", what="comment lines before every event", bend=_as(Framed, rewrites.commented)),
    Fault(
        name="utf8_split_across_reads",
        what="a sign of four bytes is split between writes",
        change=WIDE_LETTERS,
        bend=_as(Framed, rewrites.split),
    ),
    Fault(
        name="crlf_and_no_space",
        what="CRLF line ends, no space after the colon, further fields, a byte-order mark",
        bend=_as(Framed, rewrites.crlf),
    ),
    Fault(name="json_instead_of_stream", what="a streaming request gets one JSON body", asked=rewrites.unstreamed),
    Fault(name="empty_choices_usage", what="the usage chunk has no choices", bend=_as(Straight)),
    Fault(name="usage_missing", what="no usage though it was asked for", bend=_as(Rewritten, rewrites.without_usage)),
    Fault(name="error_event_in_stream", what="status 200, tokens, then an error as an event", bend=_as(Failing)),
    Fault(
        name="finish_stop_with_tool_calls",
        what="tool calls arrive and the finish reason is stop",
        change=WITH_CALL,
        bend=_as(Rewritten, rewrites.each_choice(rewrites.finish_stop)),
    ),
    Fault(
        name="finish_never_but_done",
        what="no finish reason, then [DONE]",
        bend=_as(Rewritten, rewrites.each_choice(rewrites.no_finish)),
    ),
    Fault(
        name="tool_args_unterminated",
        what="a call's arguments end inside a string",
        change=WITH_CALL,
        bend=_as(Rewritten, rewrites.each_call(rewrites.cut_arguments)),
    ),
    Fault(
        name="tool_args_empty",
        what="a call's arguments are an empty string",
        change=WITH_CALL,
        bend=_as(Rewritten, rewrites.each_call(rewrites.no_arguments)),
    ),
    Fault(
        name="tool_parallel_same_index",
        what="two calls with index 0 and different ids",
        change=WITH_CALLS,
        bend=_as(Rewritten, rewrites.each_call(rewrites.index_zero)),
    ),
    Fault(
        name="tool_id_missing",
        what="calls without an id",
        change=WITH_CALL,
        bend=_as(Rewritten, rewrites.each_call(rewrites.no_id)),
    ),
    Fault(
        name="tool_fragments_empty_name",
        what="later fragments of a call repeat its name as an empty string",
        change=WITH_CALL,
        bend=_as(Rewritten, rewrites.each_call(rewrites.empty_name)),
    ),
    Fault(
        name="ctx_ollama_silent",
        what="a long prompt is cut to the server's window without a word",
        bend=_as(Rewritten, rewrites.small_prompt),
    ),
)
REASONING_FIELDS = {
    "reasoning_content_field": _as(Rewritten, rewrites.each_choice(rewrites.named_reasoning("reasoning_content"))),
    "reasoning_field": _as(Rewritten, rewrites.each_choice(rewrites.named_reasoning("reasoning"))),
}
"""In which field the reasoning comes, whatever the engine's own is."""
