"""From a refusing reply to the typed error: by type first, by words second.

Not every 500 passes: a chat template that raises, a context that is too small and a bad grammar are the same tomorrow.
And not every 4xx is permanent: a proxy's 408 or 429 is. The order of `_RULES` is the order of certainty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from widelane.errors import (
    BadRequest,
    CallError,
    ChatTemplateFailed,
    ContextOverflow,
    EngineDead,
    ModelNotFound,
    NotAModelServer,
    PoolOverflow,
    ServerFailed,
    ServerLoading,
    ServerOverloaded,
    Unauthorized,
    UnsupportedParameter,
    WrongPath,
)
from widelane.wire.context_words import read_overflow
from widelane.wire.error_body import ErrorBody, read_error, read_error_body
from widelane.wire.parameter_words import unsupported_parameter
from widelane.wire.retry_after import retry_after_s

_OVERLOAD_STATUS = frozenset({408, 409, 425, 429, 502, 503, 504, 520, 521, 522, 523, 524, 529})


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known of a refusing reply. `status` is what it means, `http_status` what stood in the status line."""

    status: int
    http_status: int
    headers: Mapping[str, str]
    error: ErrorBody
    url: str
    wait_s: float | None


def classify(
    status: int, headers: Mapping[str, str], body: bytes, *, url: str = "", wall_s: float | None = None
) -> CallError:
    """The error that a reply with this status and body stands for.

    Args:
        headers: names in lower case.
        url: where the request went, for the message.
        wall_s: the client's wall clock, for a `Retry-After` date in a reply without `Date`.
    """
    return _classify(status, headers, read_error_body(body), url, wall_s)


def classify_event(value: object, *, url: str = "") -> CallError:
    """The error of an error object in a stream, or in a body whose status said 200."""
    return _classify(200, {}, read_error(value), url, None)


def _classify(status: int, headers: Mapping[str, str], error: ErrorBody, url: str, wall_s: float | None) -> CallError:
    wait_s = retry_after_s(headers, wall_s)
    meaning = status
    if error.code is not None and (status < 400 or status == 500):
        meaning = error.code  # the status line was written before the error was known, or by a catch-all
    elif status < 300:
        meaning = 500
    failure = Failure(meaning, status, headers, error, url, error.retry_after_s if wait_s is None else wait_s)
    for rule in _RULES:
        found = rule(failure)
        if found is not None:
            return found
    return _other(failure)


def _made(kind: type[CallError], failure: Failure, what: str = "", hint: str | None = None) -> CallError:
    said = failure.error.message.strip() or "(empty body)"
    status = f"HTTP {failure.http_status}" if failure.http_status >= 300 else "an error under HTTP 200"
    where = f" from {failure.url}" if failure.url else ""
    message = f"{what + ': ' if what else ''}{status}{where}: {said}"
    return kind(message, status=failure.http_status, retry_after_s=failure.wait_s, hint=hint)


def _context(failure: Failure) -> CallError | None:
    overflow = read_overflow(failure.status, failure.error)
    if overflow is None:
        return None
    if overflow.pool:
        hint = (
            "llama.cpp's slots share one pool: all running calls fail together. Run fewer or shorter calls at once, or "
            "start it with an explicit -np and a -c that gives every slot its own context."
        )
        return _made(PoolOverflow, failure, "The shared context pool is full", hint)
    prompt = f"{overflow.n_prompt} tokens" if overflow.n_prompt is not None else "more tokens than fit"
    window = f" of {overflow.n_ctx} tokens" if overflow.n_ctx is not None else ""
    error = _made(
        ContextOverflow,
        failure,
        f"The request ({prompt}) does not fit the context{window}",
        "Shorten the prompt or max_tokens, or give the server a larger context (llama.cpp counts it per slot).",
    )
    if isinstance(error, ContextOverflow):
        error.n_prompt, error.n_ctx = overflow.n_prompt, overflow.n_ctx
    return error


def _unauthorized(failure: Failure) -> CallError | None:
    said = re.search(r"(?:invalid|incorrect|missing|no) api.?key|unauthorized", failure.error.message, re.IGNORECASE)
    if failure.status in (401, 403, 407) or (failure.status == 400 and said):
        hint = "Give the right key with --api-key or in the URL (http://:KEY@host)."
        return _made(Unauthorized, failure, "The server refuses the key, or wants one", hint)
    return None


_LOADING = re.compile(
    r"loading (?:the )?model|model .{0,60}?(?:is |are )?(?:still |currently )?(?:being )?load(?:ing|ed, please wait)"
    r"|warming up|still (?:starting|initiali[sz]ing)|not (?:yet )?ready|initiali[sz]ing|is starting up",
    re.IGNORECASE,
)


def _loading(failure: Failure) -> CallError | None:
    if failure.status >= 500 or failure.status in (409, 425, 429):
        message = failure.error.message
        if _LOADING.search(message) and not re.search(r"fail|error loading|unable|could not", message, re.IGNORECASE):
            return _made(ServerLoading, failure, "The server is still loading its model")
    return None


_TEMPLATE = re.compile(
    r"jinja|raise_exception|chat.?template|while executing \w+ at line|conversation roles must alternate"
    r"|system (?:role|message) (?:not supported|must be)|only user(?:, system)? and assistant roles"
    r"|templateerror|failed to (?:parse|apply|render) template|roles must alternate",
    re.IGNORECASE,
)


def _template(failure: Failure) -> CallError | None:
    if failure.status < 400 or not _TEMPLATE.search(failure.error.message):
        return None
    if re.search(r"chat_template_kwargs|--jinja", failure.error.message):
        return None  # about a field of the request or a flag, not about the template raising
    hint = "Permanent for these messages: one system message, first, then user and assistant in turn."
    return _made(ChatTemplateFailed, failure, "The chat template refuses the messages", hint)


_MODEL_KINDS = frozenset({"model_not_found", "modelnotfounderror"})
_MODEL = re.compile(
    r"model\b.{0,120}?(?:does not exist|not (?:found|exist|served|loaded)|is not available|isn't loaded|unknown)"
    r"|(?:no such|unknown|invalid|unable to find|cannot find|can't find|no) (?:a )?model\b"
    r"|invalid model (?:name|identifier)|no models? (?:is |are )?loaded|try pulling it first"
    r"|appropriate cached snapshot folder|repository not found|not a valid model identifier",
    re.IGNORECASE | re.DOTALL,
)


def _model(failure: Failure) -> CallError | None:
    said = failure.error.kind in _MODEL_KINDS or bool(_MODEL.search(failure.error.message))
    if 400 <= failure.status < 500 and failure.status not in _OVERLOAD_STATUS and said and not failure.error.is_html:
        return _made(ModelNotFound, failure, "The server does not have this model")
    return None


_BUSY_KINDS = frozenset(
    {"overloaded_error", "rate_limit_error", "rate_limit_exceeded", "queue_full", "serviceunavailable"}
)
_BUSY = re.compile(
    r"server (?:is )?(?:busy|overloaded)|queue is full|queue full|queuefull|too many (?:concurrent )?requests"
    r"|rate.?limit|maximum pending requests|no slot available|overloaded|at capacity|try again later",
    re.IGNORECASE,
)


def _overloaded(failure: Failure) -> CallError | None:
    error = failure.error
    permanent = re.search(r"insufficient_quota|exceeded your current quota", f"{error.kind} {error.message}")
    busy = failure.status >= 500 and (error.kind in _BUSY_KINDS or _BUSY.search(error.message) or failure.wait_s)
    if permanent or not (failure.status in _OVERLOAD_STATUS or busy):
        return None
    hint = None
    if failure.error.is_html and failure.status in (502, 503, 504, 524):
        hint = "A proxy answered, not the model server: raise its read timeout (nginx: proxy_read_timeout)."
    return _made(ServerOverloaded, failure, "The server or a proxy before it sheds load", hint)


def _parameter(failure: Failure) -> CallError | None:
    if not 400 <= failure.status < 600:
        return None
    found = unsupported_parameter(failure.status, failure.error)
    if found is None:
        return None
    error = _made(UnsupportedParameter, failure, f"The server does not support `{found.param}`", found.hint)
    if isinstance(error, UnsupportedParameter):
        error.param = found.param
    return error


def _redirect(failure: Failure) -> CallError | None:
    if not 300 <= failure.http_status < 400:
        return None
    place = failure.headers.get("location", "(no Location)")
    told = replace(failure, error=replace(failure.error, message=f"redirects to {place}"))
    return _made(WrongPath, told, "The server is not at this address", f"Use the address it redirects to: {place}")


def _path(failure: Failure) -> CallError | None:
    if failure.status not in (404, 405, 410, 501):
        return None
    if failure.error.is_html and failure.status in (405, 501):
        return _not_a_model_server(failure)
    if failure.status == 501 and failure.error.is_json:
        return _made(BadRequest, failure, "The server does not do this")
    hint = "Give the address with the path the server really uses, usually http://host:port/v1."
    return _made(WrongPath, failure, "A server answers, but not at this path", hint)


def _not_a_model_server(failure: Failure) -> CallError:
    return _made(NotAModelServer, failure, "Something answers here that is no model server")


_HTTPS = re.compile(
    r"plain HTTP request was sent to (?:an )?HTTPS|client sent an HTTP request to an HTTPS", re.IGNORECASE
)


def _https(failure: Failure) -> CallError | None:
    if failure.status == 400 and _HTTPS.search(failure.error.message):
        return _made(BadRequest, failure, "The server speaks HTTPS", "Use https:// in the address.")
    return None


_PERMANENT_KINDS = frozenset({"invalid_request_error", "badrequesterror", "bad request", "not_supported_error"})
_PERMANENT = re.compile(
    r"failed to (?:parse|initiali[sz]e) (?:the )?(?:grammar|samplers|schema|json)|json\.exception|invalid grammar"
    r"|(?:unrecognized|invalid|unsupported) (?:json )?schema|requires more system memory|json schema",
    re.IGNORECASE,
)


def _permanent(failure: Failure) -> CallError | None:
    refused = 400 <= failure.status < 500 and failure.status != 499
    error = failure.error
    if refused or error.kind in _PERMANENT_KINDS or (failure.status >= 500 and _PERMANENT.search(error.message)):
        return _made(BadRequest, failure, "The server refuses the request")
    return None


_DEAD = re.compile(
    r"enginecore|enginedead|engine (?:is )?(?:dead|died)|background loop|runner process has terminated"
    r"|process.{0,20}?(?:exited|crashed|terminated)",
    re.IGNORECASE,
)


def _other(failure: Failure) -> CallError:
    if failure.status < 400:
        return _not_a_model_server(failure)
    hint: str | None = None
    if _DEAD.search(failure.error.message):
        hint = "The engine behind the server has died; the server's own log says why."
        return _made(EngineDead, failure, "The engine died", hint)
    if re.search(r"out of memory|\boom\b", failure.error.message, re.IGNORECASE):
        hint = "The server ran out of memory: fewer slots, a smaller context or a smaller model."
    return _made(ServerFailed, failure, "The server failed", hint)


_RULES: tuple[Callable[[Failure], CallError | None], ...] = (
    _redirect,
    _context,
    _unauthorized,
    _loading,
    _template,
    _model,
    _overloaded,
    _https,
    _parameter,
    _path,
    _permanent,
)
