"""Which parameter a server refuses, in the words servers use for it."""

from __future__ import annotations

import re
from typing import NamedTuple

from widelane.wire.error_body import ErrorBody


class RefusedParameter(NamedTuple):
    """The field of the request, and what helps (None: send it not)."""

    param: str
    hint: str | None = None


_TOOL_FLAGS = (
    "Start vLLM with --enable-auto-tool-choice and --tool-call-parser NAME; without them it cannot offer tools."
)
_KNOWN = (
    # whole sentences, each one parameter's
    (r"only one completion choice is allowed|field 'n':|\bn > 1\b|`?n`? must be 1|multiple choices", "n", None),
    (r"tool choice requires|requires --(?:enable-auto-tool-choice|tool-call-parser)", "tools", _TOOL_FLAGS),
    (r"tools? param\w* requires --jinja|requires --jinja", "tools", "Start llama-server with --jinja."),
    (r"does not support tools|tools? (?:use |calling )?(?:is |are )?not supported", "tools", None),
    (r"does not support thinking|thinking is not supported", "think", None),
    (r"stream.?options", "stream_options", None),
    (r"logprobs? (?:is |are )?(?:not supported|not available|not yet)", "logprobs", None),
)
_NAMED = (
    # sentences with the parameter's name in them
    r"(?:unrecognized|unknown|unsupported|unexpected|invalid) (?:request )?(?:argument|parameter|field|key|keyword)s?"
    r"(?: supplied)?:? *[`'\"]?(?P<param>[A-Za-z_][\w.]*)[`'\"]?",
    r"(?:unsupported|unexpected) value: [`'\"](?P<param>\w+)[`'\"]",
    r"unexpected keyword argument [`'\"](?P<param>\w+)[`'\"]",
    r"\('body', '(?P<param>\w+)'\)",
    r"[`'\"](?P<param>[A-Za-z_]\w*)[`'\"](?: parameter)? (?:is |are )?(?:not|currently not|not currently|not yet|un)"
    r" ?(?:supported|allowed|permitted|implemented)",
    r"(?P<param>[a-z]+_[a-z_]+|seed|logprobs|tools|stop|n) (?:is |are )(?:currently )?(?:not|un) ?(?:currently |yet )?"
    r"(?:supported|allowed|permitted|implemented)",
)
_REFUSED = re.compile(
    r"not (?:currently |yet )?(?:supported|allowed|permitted|implemented|available)|unsupported|extra_forbidden"
    r"|extra inputs|unrecognized|unknown|unexpected",
    re.IGNORECASE,
)


def unsupported_parameter(status: int, error: ErrorBody) -> RefusedParameter | None:
    """The parameter that is refused as such; None when its value, or something else, is at fault."""
    refusing = status in (400, 422, 501) or error.kind in ("invalid_request_error", "not_supported_error")
    if not refusing:
        return None
    message = error.message
    for pattern, param, hint in _KNOWN:
        if re.search(pattern, message, re.IGNORECASE):
            return RefusedParameter(param, hint)
    if not _REFUSED.search(f"{error.kind} {message}"):
        return None
    if error.param:
        return RefusedParameter(error.param.split(".")[0])
    for pattern in _NAMED:
        found = re.search(pattern, message, re.IGNORECASE)
        if found:
            return RefusedParameter(found["param"])
    return None
