"""Refusals in the words of each server, and the error each one is."""

# ruff: noqa: E501 - the sentences of servers and models are not broken
from __future__ import annotations

import json
from typing import Any

import pytest

from widelane.errors import (
    BadRequest,
    CallError,
    ChatTemplateFailed,
    ContextOverflow,
    EngineDead,
    ModelNotFound,
    NotAModelServer,
    PoolOverflow,
    Retry,
    ServerFailed,
    ServerLoading,
    ServerOverloaded,
    Unauthorized,
    UnsupportedParameter,
    WrongPath,
)
from widelane.wire.failures import classify

HTML = "<!DOCTYPE html>\n<html><head><title>It works</title></head></html>"


def of(status: int, body: Any, **headers: str) -> CallError:
    """The error of a reply; a string is a plain body, a dictionary the inside of {"error": …}."""
    text = body if isinstance(body, str) else json.dumps({"error": body})
    return classify(status, {name.replace("_", "-"): value for name, value in headers.items()}, text.encode())


# (words, prompt tokens, context) - each as its server sends it
OVERFLOWS = [
    ("This model's maximum context length is 16384 tokens. However, you requested 19591 tokens (9591 in the messages, 10000 "
     "in the completion). Please reduce the length of the messages or completion.", 9591, 16384),
    ("This model's maximum context length is 4097 tokens, however you requested 4927 tokens (3927 in your prompt; 1000 for "
     "the completion).", 3927, 4097),
    ("This model's maximum context length is 8192 tokens. However, your messages resulted in 10127 tokens.", 10127, 8192),
    ("This model's maximum context length is 2048 tokens. However, your request has 3000 input tokens.", 3000, 2048),
    ("The decoder prompt (length 10127) is longer than the maximum model length of 8192.", 10127, 8192),
    ("The prompt (total length 9000) is too long and exceeds the maximum model length of 8192.", 9000, 8192),
    ("max_tokens=100000 cannot be greater than max_model_len=2048. Please request fewer output tokens.", None, 2048),
    ("The input (61709 tokens) is longer than the model's context length (40960 tokens).", 61709, 40960),
    ("Input length (61709 tokens) exceeds the maximum allowed length (40954 tokens).", 61709, 40954),
    ("Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 10127 tokens: "
     "9000 tokens from the input messages and 1127 tokens for the completion.", 9000, 8192),
    ("request (4031 tokens) exceeds the available context size (2048 tokens), try increasing it", 4031, 2048),
    ("the request exceeds the available context size, try increasing it", None, None),
    ("Trying to keep the first 5066 tokens when context the overflows. However, the model is loaded with context length of "
     "only 4096 tokens, which is not enough.", 5066, 4096),
    ("Reached context length of 4096 tokens with model (arch: llama) that does not currently support overflow", None, 4096),
    ("The number of tokens to keep from the initial prompt is greater than the context length.", None, None),
    ("Requested tokens (2051) exceed context window of 2048", 2051, 2048),
    ("the input length exceeds the context length", None, None),
    ("prompt too long; exceeded max context length by 12 tokens", None, None),
    ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`", 5000, 4096),
    ("prompt is too long: 200500 tokens > 200000 maximum", 200500, 200000),
]  # fmt: skip


@pytest.mark.parametrize(("words", "n_prompt", "n_ctx"), OVERFLOWS, ids=[words[:40] for words, _, _ in OVERFLOWS])
@pytest.mark.parametrize("status", [400, 500])
def test_a_context_overflow_is_known_by_its_words_and_its_numbers_are_read(
    words: str, n_prompt: int | None, n_ctx: int | None, status: int
) -> None:
    error = of(status, {"message": words, "type": "BadRequestError"})
    assert isinstance(error, ContextOverflow)
    assert (error.n_prompt, error.n_ctx) == (n_prompt, n_ctx)
    assert error.retry is Retry.NEVER


def test_a_context_overflow_is_known_by_its_type_whatever_the_words() -> None:
    typed = {"message": "trop long", "type": "exceed_context_size_error", "n_prompt_tokens": 1407, "n_ctx": 256}
    error = of(400, typed)
    assert isinstance(error, ContextOverflow)
    assert (error.n_prompt, error.n_ctx) == (1407, 256)
    assert isinstance(of(400, {"message": "?", "code": "context_length_exceeded"}), ContextOverflow)


def test_a_full_shared_pool_is_not_this_requests_fault() -> None:
    error = of(500, {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"})
    assert isinstance(error, PoolOverflow)
    assert error.retry is Retry.BACKOFF


TEMPLATE = "\n------------\nWhile executing CallExpression at line 85, column 32 in source:\n{{- raise_exception('System message must be at the beginning.') }}\nError: Jinja Exception"
KINDS: list[tuple[int, Any, type[CallError]]] = [
    # keys
    (401, {"message": "Invalid API Key", "type": "authentication_error"}, Unauthorized),
    (403, HTML, Unauthorized),
    (400, {"message": "Incorrect API key provided: sk-x"}, Unauthorized),
    # loading
    (503, {"code": 503, "message": "Loading model", "type": "unavailable_error"}, ServerLoading),
    (503, {"message": "Model is still loading, please wait"}, ServerLoading),
    (500, "llm server loading model", ServerLoading),
    (500, {"message": "error loading model: out of memory"}, ServerFailed),
    # templates: permanent, whatever the status
    (500, {"code": 500, "message": TEMPLATE, "type": "server_error"}, ChatTemplateFailed),
    (400, {"message": "Conversation roles must alternate user/assistant/user/assistant/..."}, ChatTemplateFailed),
    (400, {"message": "default chat template is no longer allowed, so you must provide a chat template"}, ChatTemplateFailed),
    # models
    (404, {"message": "The model `Qwen` does not exist.", "type": "NotFoundError"}, ModelNotFound),
    (404, {"message": 'model "llama9" not found, try pulling it first', "type": "api_error"}, ModelNotFound),
    (404, {"message": "nope", "code": "model_not_found"}, ModelNotFound),
    (400, {"message": "No models loaded. Please load a model in the developer page or use the `lms load` command."}, ModelNotFound),
    (400, {"message": "Invalid model identifier 'x'. Please specify a valid downloaded model"}, ModelNotFound),
    # overload
    (503, '{"error": "server busy, please try again.  maximum pending requests exceeded"}', ServerOverloaded),
    (503, '{"object": "error", "message": "The request queue is full.", "type": "ServiceUnavailable", "code": 503}', ServerOverloaded),
    (500, {"message": "queue is full", "code": "queue_full"}, ServerOverloaded),
    (429, {"message": "slow down"}, ServerOverloaded),
    (408, "", ServerOverloaded),
    (425, "", ServerOverloaded),
    (502, "<html><head><title>502 Bad Gateway</title></head></html>", ServerOverloaded),
    (504, "<html><head><title>504 Gateway Time-out</title></head></html>", ServerOverloaded),
    (529, {"type": "overloaded_error", "message": "Overloaded"}, ServerOverloaded),
    # shed load in a generic 500 (NeMo Guardrails) and dead engines: worth another try
    (500, {"message": "Internal server error", "type": "server_error", "param": None, "code": None}, ServerFailed),
    (500, "Internal Server Error", ServerFailed),
    (500, HTML, ServerFailed),
    (500, {"message": "EngineCore encountered an issue. See stack trace (above) for the root cause.", "code": 500}, EngineDead),
    (500, {"message": "llama runner process has terminated: signal: killed"}, EngineDead),
    (500, {"message": "The model produced output that does not match the expected peg-native format"}, ServerFailed),
    # paths
    (404, "404 page not found", WrongPath),
    (404, '{"detail": "Not Found"}', WrongPath),
    (404, {"message": "File Not Found", "type": "not_found_error", "code": 404}, WrongPath),
    (404, HTML, WrongPath),
    (405, '{"detail": "Method Not Allowed"}', WrongPath),
    (301, "", WrongPath),
    (501, "<html><head><title>Unsupported method ('POST')</title></head></html>", NotAModelServer),
    (405, HTML, NotAModelServer),
    # plain refusals
    (400, {"message": "temperature must be non-negative, got -1.0.", "param": "temperature"}, BadRequest),
    (400, {"message": "Cannot use custom grammar constraints with tools."}, BadRequest),
    (500, {"message": "Failed to initialize samplers: failed to parse grammar", "type": "invalid_request_error"}, BadRequest),
    (500, {"message": "model requires more system memory (5.6 GiB) than is available (3.1 GiB)"}, BadRequest),
    (500, {"message": "bad field", "type": "BadRequestError", "code": 400}, BadRequest),
    (400, "The plain HTTP request was sent to HTTPS port", BadRequest),
    (429, {"message": "You exceeded your current quota", "type": "insufficient_quota"}, BadRequest),
    (413, "Payload Too Large", BadRequest),
]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "body", "kind"), KINDS, ids=[f"{status} {str(body)[:48]}" for status, body, _ in KINDS]
)
def test_a_refusal_is_of_its_kind(status: int, body: Any, kind: type[CallError]) -> None:
    error = of(status, body)
    assert error.code == kind.code
    assert error.status == status


@pytest.mark.parametrize(
    ("status", "body", "param"),
    [
        (400, {"message": "Only one completion choice is allowed", "type": "invalid_request_error"}, "n"),
        (400, {"message": "Field 'n': Value must be between 1 <= value <= 1, but got 4"}, "n"),
        (400, {"message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'}, "tools"),
        (500, {"message": "tools param requires --jinja flag", "type": "invalid_request_error"}, "tools"),
        (400, {"message": "registry.ollama.ai/library/gemma:2b does not support tools"}, "tools"),
        (400, {"message": "Unrecognized request argument supplied: min_p"}, "min_p"),
        (400, {"message": "Unknown parameter: 'reasoning_effort'.", "param": "reasoning_effort"}, "reasoning_effort"),
        (400, {"message": "Unsupported parameter: 'max_tokens' is not supported with this model.", "param": "max_tokens"}, "max_tokens"),
        (400, {"message": "logit_bias is not currently supported"}, "logit_bias"),
        (400, {"message": "[{'type': 'extra_forbidden', 'loc': ('body', 'foo'), 'msg': 'Extra inputs are not permitted'}]"}, "foo"),
        (422, '{"detail": [{"type": "extra_forbidden", "loc": ["body", "foo"], "msg": "Extra inputs are not permitted"}]}', "foo"),
        (400, {"message": "Stream options can only be defined when `stream=True`."}, "stream_options"),
    ],
)  # fmt: skip
def test_a_refused_parameter_is_named(status: int, body: Any, param: str) -> None:
    error = of(status, body)
    assert isinstance(error, UnsupportedParameter)
    assert error.param == param


def test_a_body_that_is_no_json_is_quoted_and_shortened() -> None:
    error = of(500, "<html>" + "x" * 1000)
    assert "<html>xxx" in error.message
    assert len(error.message) < 400
    assert "proxy" in (of(504, HTML).hint or "")


def test_the_message_says_where_and_a_redirect_says_whereto() -> None:
    error = classify(308, {"location": "https://host/v1/chat/completions"}, b"", url="http://host/v1/chat/completions")
    assert isinstance(error, WrongPath)
    assert "http://host/v1/chat/completions" in error.message
    assert "https://host/v1/chat/completions" in str(error)


def test_what_the_body_means_counts_more_than_a_status_line_that_came_too_early() -> None:
    assert isinstance(of(200, {"message": "slow down", "code": 429}), ServerOverloaded)
    assert isinstance(of(200, {"message": "bad", "type": "invalid_request_error", "code": 400}), BadRequest)
    assert isinstance(of(200, {"message": "boom"}), ServerFailed)


def test_the_wait_that_a_server_asks_for_is_handed_on() -> None:
    assert of(429, {"message": "rate limit"}, retry_after="2").retry_after_s == 2
    assert of(503, {"message": "Model x is currently loading", "estimated_time": 20}).retry_after_s is None
    loading = classify(503, {}, b'{"error": "Model x is currently loading", "estimated_time": 20.0}')
    assert isinstance(loading, ServerLoading)
    assert loading.retry_after_s == 20
    assert isinstance(of(500, {"message": "?"}, retry_after="1"), ServerOverloaded)
