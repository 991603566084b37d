"""Faults that are one reply: errors in the words of the servers that send them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from widelane.sim.ask import Ask
from widelane.sim.faults.fault import Fault
from widelane.sim.refusal import PlainReply, json_reply


def _reply(status: int, body: Any, **headers: str) -> PlainReply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return PlainReply(status=status, body=msgspec.json.encode(body), headers=named)


def _vllm(status: int, message: str, kind: str) -> PlainReply:
    return _reply(status, {"object": "error", "message": message, "type": kind, "param": None, "code": status})


def _llama(status: int, message: str, kind: str, **more: Any) -> PlainReply:
    return _reply(status, {"error": {"code": status, "message": message, "type": kind, **more}})


def _broken_history(ask: Ask) -> bool:
    """Whether a tool call in the history has arguments that are no JSON."""
    for message in ask.request.messages:
        for call in message.get("tool_calls") or ():
            function = call.get("function") if isinstance(call, Mapping) else None
            arguments = function.get("arguments") if isinstance(function, Mapping) else None
            if isinstance(arguments, str) and not _is_json(arguments):
                return True
    return False


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def _several(ask: Ask) -> bool:
    return ask.request.n > 1


_TEMPLATE = (
    "\n------------\nWhile executing CallExpression at line 85, column 32 in source:\n"
    "{{- raise_exception('System message must be at the beginning.') }}\nError: Jinja Exception"
)
_DATE = "Tue, 01 Jan 2030 01:00:00 GMT"
_LATER = "Tue, 01 Jan 2030 01:00:03 GMT"

REFUSALS: tuple[Fault, ...] = (
    Fault(
        name="proxy_504_html",
        what="a proxy answers 504 with a web page",
        refusal=PlainReply(
            status=504,
            body=b"<html><head><title>504 Gateway Time-out</title></head><body>nginx</body></html>",
            content_type="text/html",
        ),
    ),
    Fault(
        name="error_body_with_200",
        what="status 200 with an error object",
        refusal=json_reply(
            {
                "error": {
                    "code": 400,
                    "message": "the request exceeds the available context size",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 14429,
                    "n_ctx": 8192,
                }
            }
        ),
    ),
    Fault(
        name="tool_history_poison",
        what="400 for every request whose history holds a tool call with broken arguments",
        refusal=_vllm(400, "Expecting ',' delimiter: line 1 column 54 (char 53)", "BadRequestError"),
        refuses=_broken_history,
    ),
    Fault(
        name="ctx_vllm_requested",
        what="context overflow in vLLM's words, prompt and completion counted",
        refusal=_vllm(
            400,
            "This model's maximum context length is 16384 tokens. However, you requested 19591 tokens (9591 in the "
            "messages, 10000 in the completion). Please reduce the length of the messages or completion.",
            "BadRequestError",
        ),
    ),
    Fault(
        name="ctx_vllm_decoder_prompt",
        what="context overflow in vLLM's words, of the prompt",
        refusal=_vllm(
            400,
            "The decoder prompt (length 10127) is longer than the maximum model length of 8192. Make sure that "
            "`max_model_len` is no smaller than the number of text tokens.",
            "BadRequestError",
        ),
    ),
    Fault(
        name="ctx_sglang",
        what="context overflow in SGLang's words",
        refusal=_vllm(
            400,
            "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
            "BadRequestError",
        ),
    ),
    Fault(
        name="ctx_llamacpp",
        what="context overflow in llama.cpp's words",
        refusal=_llama(
            400,
            "the request exceeds the available context size, try increasing it",
            "exceed_context_size_error",
            n_prompt_tokens=14029,
            n_ctx=8192,
        ),
    ),
    Fault(
        name="busy_503_no_retry_after",
        what="503 about pending requests, without Retry-After",
        refusal=_reply(503, {"error": "server busy, please try again.  maximum pending requests exceeded"}),
    ),
    Fault(
        name="queue_full_503",
        what="503: the request queue is full",
        refusal=_vllm(503, "The request queue is full.", "ServiceUnavailable"),
    ),
    Fault(
        name="rate_429_seconds",
        what="429 with Retry-After in seconds",
        refusal=_reply(429, {"error": {"message": "rate limit", "type": "rate_limit_error"}}, retry_after="2"),
    ),
    Fault(
        name="rate_429_http_date_skew",
        what="429 with Retry-After as a date of a clock that differs from the client's",
        refusal=_reply(
            429, {"error": {"message": "rate limit", "type": "rate_limit_error"}}, date=_DATE, retry_after=_LATER
        ),
    ),
    Fault(
        name="loading_503", what="503: the model is loading", refusal=_llama(503, "Loading model", "unavailable_error")
    ),
    Fault(
        name="engine_dead_500",
        what="500 from a dead engine, then nobody listens for 20 s",
        refusal=_reply(
            500,
            {
                "error": {
                    "message": "EngineCore encountered an issue. See stack trace (above) for the root cause.",
                    "type": "InternalServerError",
                    "code": 500,
                }
            },
        ),
        outage_s=20.0,
    ),
    Fault(
        name="n_refused",
        what="400 for several choices",
        refusal=_llama(400, "Only one completion choice is allowed", "invalid_request_error"),
        refuses=_several,
    ),
    Fault(
        name="template_system_position",
        what="500 from the chat template: the system message must come first",
        refusal=_llama(500, _TEMPLATE, "server_error"),
    ),
    Fault(
        name="model_missing_404",
        what="404: the model does not exist",
        refusal=_vllm(404, "The model `Qwen-14B-Chat` does not exist.", "NotFoundError"),
    ),
)
