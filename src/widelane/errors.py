"""Every exception the package raises, in one tree.

    WidelaneError                      exit status 1
    ├── UsageError                     exit status 2: the input is wrong, nothing was done
    │   └── UnreadableModel            a model file is damaged, hostile or of an unknown form
    ├── EmbeddedServerFailed           the server that we started for ourselves did not come up, or died
    ├── LaunchFailed                   the server that a user had us start did not come up, or died
    ├── BudgetExhausted                a stated budget (tokens, seconds) is used up
    ├── RunNotResumable                the saved run belongs to other settings
    └── CallError                      one call failed; `code` names the kind, `retry` what may be done about it
        ├── transport                  ConnectionRefused, ConnectionLost, StaleConnection, TruncatedStream,
        │                              MalformedReply
        ├── time                       FirstTokenTimeout, IdleTimeout
        ├── server state               ServerDown, ServerLoading, ServerOverloaded, ServerFailed (EngineDead),
        │                              PoolOverflow
        ├── request                    BadRequest, Unauthorized, WrongPath, NotAModelServer, ModelNotFound,
        │                              UnsupportedParameter, ContextOverflow, ChatTemplateFailed
        ├── answer                     EmptyAnswer, BudgetSpentOnReasoning, PromptTruncated, Repetition
        └── client                     OpenFilesLimit

A foreign exception (socket, TLS, JSON, SQLite) is translated where it enters and never leaves the package raw.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from widelane.records import Reply


class WidelaneError(Exception):
    """Base of everything raised on purpose. The message says what happened, why it matters and what to do."""

    exit_status: ClassVar[int] = 1


class UsageError(WidelaneError):
    """The caller's input cannot be used. Nothing was started and nothing was written."""

    exit_status = 2


class UnreadableModel(UsageError):
    """A model file or config cannot be read. Says which file, where in it, and what was expected there."""


class EmbeddedServerFailed(WidelaneError):
    """The embedded server did not start, or ended by itself. Says how, with the last lines of its log."""


class LaunchFailed(WidelaneError):
    """A server started by `widelane launch` did not come up, or ended by itself. Says how, with its last log lines."""


class BudgetExhausted(WidelaneError):
    """A stated budget was used up; what was finished is kept."""


class RunNotResumable(UsageError):
    """The run directory was made with other settings, or is not a run directory."""


class Retry(StrEnum):
    """What a caller may do about a failed call (the rule itself is in `lanes.retry`)."""

    NEVER = "never"
    AT_ONCE = "at-once"
    """A pooled connection was already closed by the server: the request was never seen."""
    BACKOFF = "backoff"
    WHEN_UP = "when-up"
    """Nobody listens: one shared probe waits for the server, the calls wait for the probe."""
    WHEN_READY = "when-ready"
    """The server is up and loading its model."""


class CallError(WidelaneError):
    """One call to a model server failed.

    Attributes:
        code: kind of failure, stable and machine-readable.
        retry: what may be done about it.
        status: HTTP status, None when no reply came.
        retry_after_s: seconds the server asked for (already relative to its own clock), None when it did not ask.
        request_id: the call's id, when the caller gave one.
        partial: what had arrived, never to be taken for an answer.
        hint: what to do, on its own line.
    """

    code: ClassVar[str] = "call_failed"
    retry: ClassVar[Retry] = Retry.NEVER

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        request_id: str | None = None,
        partial: Reply | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.retry_after_s = retry_after_s
        self.request_id = request_id
        self.partial = partial
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


# --- transport


class ConnectionRefused(CallError):
    """Nobody listens at the address, or its name does not resolve."""

    code = "connection_refused"
    retry = Retry.WHEN_UP


class ConnectionLost(CallError):
    """The connection was closed or reset before the answer was whole."""

    code = "connection_lost"
    retry = Retry.BACKOFF


class StaleConnection(CallError):
    """A reused connection closed before any byte of the reply: the server had dropped it while idle."""

    code = "stale_connection"
    retry = Retry.AT_ONCE


class TruncatedStream(CallError):
    """The body ended properly, but without a finish reason or `[DONE]`."""

    code = "truncated_stream"
    retry = Retry.BACKOFF


class MalformedReply(CallError):
    """The bytes are not what the protocol allows (HTTP, SSE or JSON)."""

    code = "malformed_reply"
    retry = Retry.BACKOFF


# --- time


class FirstTokenTimeout(CallError):
    """No output token came within the first-token limit."""

    code = "first_token_timeout"
    retry = Retry.BACKOFF


class IdleTimeout(CallError):
    """Tokens came and then stopped for longer than the idle limit."""

    code = "idle_timeout"
    retry = Retry.BACKOFF


# --- server state


class ServerDown(CallError):
    """The server did not come back within the stated down-time limit. The run can be resumed."""

    code = "server_down"


class ServerLoading(CallError):
    """The server is up and still loading its model."""

    code = "loading"
    retry = Retry.WHEN_READY


class ServerOverloaded(CallError):
    """The server, or a proxy before it, sheds load (429, 502, 503, 504, 408, 425)."""

    code = "overloaded"
    retry = Retry.BACKOFF


class ServerFailed(CallError):
    """The server failed inside (5xx, or an error event in a stream)."""

    code = "server_failed"
    retry = Retry.BACKOFF


class EngineDead(ServerFailed):
    """The HTTP front still answers, and says that the engine behind it has died: every call fails until a restart."""

    code = "engine_dead"
    retry = Retry.WHEN_UP


class PoolOverflow(CallError):
    """llama.cpp's shared KV pool is full: every running call failed, not only this one."""

    code = "pool_overflow"
    retry = Retry.BACKOFF


# --- request


class BadRequest(CallError):
    """The server refuses the request as it is."""

    code = "bad_request"


class Unauthorized(CallError):
    """The API key is missing or wrong."""

    code = "unauthorized"


class WrongPath(CallError):
    """A server answers, but not at this path."""

    code = "wrong_path"


class NotAModelServer(CallError):
    """Something answers, and it does not speak the OpenAI protocol (an HTML page, another service)."""

    code = "not_a_model_server"


class ModelNotFound(CallError):
    """The server does not have the model that was asked for."""

    code = "model_not_found"


class UnsupportedParameter(CallError):
    """The server refuses one parameter.

    Attributes:
        param: its name in the request body.
    """

    code = "unsupported_parameter"
    param: str = ""


class ContextOverflow(CallError):
    """The prompt, or prompt plus max_tokens, is larger than the context.

    Attributes:
        n_prompt: prompt tokens the server counted, None when it did not say.
        n_ctx: context in tokens; with llama.cpp that of ONE slot. None when the server did not say.
    """

    code = "context_overflow"
    n_prompt: int | None = None
    n_ctx: int | None = None


class ChatTemplateFailed(CallError):
    """The chat template raised: permanent for these messages, whatever the status says."""

    code = "chat_template"


# --- answer


class EmptyAnswer(CallError):
    """Status 200 and nothing in it: no text, no reasoning, no tool call."""

    code = "empty_answer"
    retry = Retry.BACKOFF


class BudgetSpentOnReasoning(CallError):
    """The token limit was reached inside the reasoning: there is no answer."""

    code = "budget_spent_on_reasoning"


class PromptTruncated(CallError):
    """The server cut the prompt to its window and answered the rest."""

    code = "prompt_truncated"


class Repetition(CallError):
    """The model repeats itself without end; the stream was closed early."""

    code = "repetition"


# --- client


class OpenFilesLimit(CallError):
    """The process may not open as many files as the width needs."""

    code = "open_files_limit"
