"""What a probe is, and what it may use.

A probe asks the running server a few small questions and judges the replies. Its judging functions are pure (replies
in, findings out) and are tested on recorded replies; `run` only sends and hands over. A probe that cannot tell says
`not-checked` and why; one that fails by itself is reported the same way by the doctor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from widelane.clock import Clock
from widelane.engines.engine import Engine
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Finding
from widelane.lanes.lanes import Lanes
from widelane.measure.findings.needs import Needs
from widelane.measure.probes.answer import Answer, answer_of
from widelane.records import ChatRequest, HttpReply, Observer, Reply

CHAT_PATH = "/v1/chat/completions"


class ProbeBackend(Protocol):
    """What probes need of a backend: calls, and plain requests with untouched bodies."""

    async def complete(self, request: ChatRequest, observe: Observer | None = None) -> Reply:
        """One call, as users make them."""
        ...

    async def fetch(self, method: str, path: str, body: Any = None, *, timeout_s: float = 10.0) -> HttpReply:
        """One plain request; the path is relative to the server's root."""
        ...


@dataclass(slots=True)
class Spent:
    """Tokens that the probes cost the server so far, as far as it says."""

    prompt_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeContext:
    """One server under diagnosis.

    Attributes:
        lanes: where calls go, without retries: a probe wants to see the first failure.
        model: name to put into request bodies; None leaves the field out.
        intrusive: probes that can fail other users' requests may run.
        seconds: how long a single request of a probe may take.
    """

    backend: ProbeBackend
    lanes: Lanes
    engine: Engine
    facts: ServerFacts
    needs: Needs
    clock: Clock
    model: str | None = None
    use: str | None = None
    intrusive: bool = False
    seconds: float = 20.0
    spent: Spent = field(default_factory=Spent)

    async def chat(
        self, content: str | Sequence[Mapping[str, Any]], *, max_tokens: int | None, stream: bool = False, **fields: Any
    ) -> Answer:
        """One chat request at temperature 0; the answer as the server sent it.

        Args:
            content: the user's message, or the whole list of messages.
            fields: further body fields; None as a value leaves a default out.

        Raises:
            CallError: no reply came at all.
        """
        messages = [{"role": "user", "content": content}] if isinstance(content, str) else list(content)
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": stream,
            "stream_options": {"include_usage": True} if stream else None,
        }
        body.update(fields)
        sent = {name: value for name, value in body.items() if value is not None}
        answer = answer_of(await self.backend.fetch("POST", CHAT_PATH, sent, timeout_s=self.seconds))
        self.spent.requests += 1
        self.spent.prompt_tokens += answer.prompt_tokens or 0
        self.spent.output_tokens += answer.completion_tokens or 0
        return answer

    async def call(self, request: ChatRequest, observe: Observer | None = None) -> Reply:
        """One streamed call through the client that users have.

        Raises:
            CallError: the call failed.
        """
        self.spent.requests += 1
        reply = await self.lanes.call(request, role="probe", observe=observe)
        if reply.usage is not None:
            self.spent.prompt_tokens += reply.usage.prompt_tokens or 0
            self.spent.output_tokens += reply.usage.completion_tokens
        return reply

    def seconds_since(self, start_ns: int) -> float:
        """Seconds from an instant of this context's clock."""
        return (self.clock.now_ns() - start_ns) / 1e9


class Probe(Protocol):
    """One check of a running server."""

    @property
    def name(self) -> str:
        """Of the probe, for choosing it and for progress."""
        ...

    @property
    def codes(self) -> tuple[str, ...]:
        """The findings it reports; each of them comes back, as `not-checked` when nothing else."""
        ...

    @property
    def seconds(self) -> float:
        """The longest the whole probe may take."""
        ...

    def applies(self, context: ProbeContext) -> str | None:
        """None when the probe makes sense here, else why it does not."""
        ...

    async def run(self, context: ProbeContext) -> list[Finding]:
        """Ask and judge.

        Raises:
            CallError: a question got no reply; the doctor reports that as not checked.
        """
        ...
