"""The calls before a sweep: which endpoint answers, with which fields, and how long a call alone waits."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from widelane.engines.engine import Engine
from widelane.errors import CallError, ConnectionRefused, OpenFilesLimit, ServerLoading, Unauthorized
from widelane.lanes.lanes import Lanes
from widelane.measure.workload import CallMaker
from widelane.metrics import ttft_s
from widelane.records import Reply

WARM_UP_TOKENS = 8
"""The first call after a start also compiles, captures graphs or fills caches: it is thrown away."""
_ALONE_TOKENS = 4
_ALONE_CALLS = 2
# Another endpoint or fewer fields do not help against these.
_HOPELESS = (ConnectionRefused, Unauthorized, OpenFilesLimit, ServerLoading)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCalls:
    """What the first calls showed.

    Attributes:
        endpoint: the one that answers, `completions` or `chat`.
        fields_accepted: False when the server refused the fields that fix the length and avoid its cache.
        alone_ttft_s: TTFT of a call alone, None when the server does not stream.
        prompt_tokens: the server's count for a prompt of the sweep, None when it does not tell.
    """

    endpoint: str
    fields_accepted: bool
    alone_ttft_s: float | None
    prompt_tokens: int | None


async def first_calls(lanes: Lanes, maker: CallMaker, engine: Engine, endpoint: str) -> FirstCalls:
    """Warm the server up and learn how it wants to be called.

    Raises:
        CallError: it answers no form of call; the first failure is raised, for later forms are less usual.
    """
    first_error: CallError | None = None
    for name, with_fields in _forms(endpoint, engine, maker):
        form = form_of(maker, name, with_fields=with_fields)
        try:
            reply = await _one(lanes, form, engine, 0, WARM_UP_TOKENS)
        except _HOPELESS:
            raise
        except CallError as error:
            first_error = first_error or error
            continue
        if reply.timing.first_token_ns is None and not (reply.text or reply.reasoning):
            continue
        alone = [await _one(lanes, form, engine, 1 + number, _ALONE_TOKENS) for number in range(_ALONE_CALLS)]
        waits = [wait for one in alone if (wait := ttft_s(one.timing)) is not None]
        return FirstCalls(
            endpoint=name,
            fields_accepted=with_fields,
            alone_ttft_s=statistics.median(waits) if waits else None,
            prompt_tokens=alone[-1].usage.prompt_tokens if alone[-1].usage else None,
        )
    raise first_error or CallError(
        "The server answers calls with nothing: no text came in 8 tokens on any endpoint.",
        hint="Ask it for something by hand, and look into its log.",
    )


def form_of(maker: CallMaker, endpoint: str, *, with_fields: bool) -> CallMaker:
    """The maker for an endpoint, with or without the engine's own fields."""
    if with_fields:
        return replace(maker, endpoint=endpoint)
    return replace(maker, endpoint=endpoint, forced=False, extra={})


def length_fields(maker: CallMaker, engine: Engine, tokens: int) -> Mapping[str, Any]:
    """Fields that fix the length; none where the engine cannot or the server refused them."""
    return engine.fixed_length(tokens) if maker.forced else {}


def _forms(endpoint: str, engine: Engine, maker: CallMaker) -> list[tuple[str, bool]]:
    """Forms of a call to try, the best first: plain completions (no template), and with the engine's fields."""
    names = ["completions", "chat"] if endpoint == "auto" else [endpoint]
    has_fields = bool(maker.extra or engine.fixed_length(WARM_UP_TOKENS))
    return [(name, fields) for fields in ((True, False) if has_fields else (True,)) for name in names]


async def _one(lanes: Lanes, form: CallMaker, engine: Engine, number: int, tokens: int) -> Reply:
    request = form.request("first", number, tokens, length_fields(form, engine, tokens))
    return await lanes.call(request, role="warm-up")
