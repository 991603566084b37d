"""Runs one catalogue entry: the real HttpBackend and Lanes, a real loopback socket, virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.entry_request import build_request, poisoned, wall_clock_s
from widelane.clock import LoopClock
from widelane.engines.llama_cpp import LlamaCpp
from widelane.errors import CallError, WidelaneError
from widelane.figures import Finding
from widelane.lanes import Lanes, ObservedWidth, RetryPolicy, RunStore
from widelane.measure.findings.needs import needs
from widelane.measure.findings.unreachable import no_facts
from widelane.measure.probes.cancel import CancelFrees
from widelane.measure.probes.probe import ProbeContext
from widelane.records import ChatRequest, Reply, Span
from widelane.testing.scripted_server import Received, ScriptedServer
from widelane.wire.client import HttpBackend

MODELS = ("served-model-a", "served-model-b")
HOLD_S = 1.0
MOST_CALLS = 8
OK_TURN = [
    {"op": "status", "code": 200, "headers": {"content-type": "application/json"}},
    {"op": "send", "text": '{"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", '
                           '"content": "back"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, '
                           '"completion_tokens": 1, "total_tokens": 10}}'},
    {"op": "end"},
]  # fmt: skip


@dataclass
class Seen:
    """What an entry's run showed.

    Attributes:
        results: replies or errors of the calls, in order of calling.
        elapsed_s: loop time from the first call to the end of the last.
        history: requests sent to check that what came back can go into a history.
        resumed: the answer of the same call in a resumed run, after a failure.
    """

    results: list[Reply | WidelaneError] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    requests: list[Received] = field(default_factory=list)
    warnings: Mapping[str, int] = field(default_factory=dict)
    width: ObservedWidth | None = None
    peak: int = 0
    elapsed_s: float = 0.0
    observed_text: str = ""
    history: list[Received] = field(default_factory=list)
    resumed: Reply | None = None
    first_token_limit_s: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    @property
    def last(self) -> Reply | WidelaneError:
        return self.results[-1]

    @property
    def reply(self) -> Reply | None:
        """The last call's reply, or what had arrived of it."""
        if isinstance(self.last, Reply):
            return self.last
        return self.last.partial if isinstance(self.last, CallError) else None

    @property
    def error(self) -> WidelaneError | None:
        return None if isinstance(self.last, Reply) else self.last


async def replay(entry: dict[str, Any], folder: Path) -> Seen:
    """Run the entry's calls and note everything that an expectation may ask for."""
    expect = entry["expect"]
    request = build_request(entry)
    if "request_check" in expect:
        request = poisoned(request)
    clock = LoopClock(wall_clock_s(entry))
    seen = Seen()
    width = int(expect.get("lanes", 1))
    hold_s = HOLD_S if "peak_concurrent_at_server" in expect else 0.0
    with RunStore.create(folder / "run", {"entry": entry["name"]}, clock=clock, in_thread=False) as store:
        async with (
            ScriptedServer(entry["turns"], models=MODELS, hold_s=hold_s) as server,
            HttpBackend(server.url, clock=clock) as backend,
            Lanes(backend, width=width, clock=clock, rng=random.Random(7), store=store) as lanes,
        ):
            seen.first_token_limit_s = backend._first_token_s(request) or 0.0
            if _watches_cancelling(entry):
                seen.findings = await _probe_cancelling(backend, clock)
            elif "cancel_after_s" in (entry.get("request") or {}):
                await _cancel_call(lanes, request, float(entry["request"]["cancel_after_s"]))
            else:
                await _make_calls(entry, lanes, server, request, seen)
            seen.elapsed_s = asyncio.get_running_loop().time()
            seen.spans, seen.warnings, seen.width = list(lanes.spans), lanes.warnings, lanes.server_width
            seen.requests, seen.peak = list(server.requests), server.peak_running
        if expect.get("resume"):
            assert store.unfinished() == ["call"]
    if expect.get("resume"):
        seen.resumed = await _resume(entry, folder, request)
    if expect.get("history_safe"):
        seen.history = await _go_on(request, seen)
    return seen


async def _make_calls(
    entry: dict[str, Any], lanes: Lanes, server: ScriptedServer, request: ChatRequest, seen: Seen
) -> None:
    expect = entry["expect"]
    texts: list[str] = []

    async def call(key: str) -> Reply | WidelaneError:
        try:
            return await lanes.call(request, key=key, observe=lambda delta: texts.append(delta.text))
        except WidelaneError as error:
            return error

    together = int(expect.get("lanes", 1))
    if together > 1:
        seen.results += await asyncio.gather(*(call(f"call-{number}") for number in range(together)))
        return
    seen.results.append(await call("call"))
    # `requests` states how many calls the job makes; without it, further calls take the turns that are left, unless
    # the entry says how often the one call is sent.
    while len(seen.results) < MOST_CALLS and isinstance(seen.last, Reply):
        if "requests" in expect:
            if len(seen.results) >= int(expect["requests"]):
                break
        elif {"attempts", "attempts_max"} & expect.keys() or not server.turns_left:
            break
        texts.clear()
        seen.results.append(await call(f"call-{len(seen.results)}"))
    seen.observed_text = "".join(texts)


async def _cancel_call(lanes: Lanes, request: ChatRequest, after_s: float) -> None:
    """One call that its caller drops."""
    task = asyncio.create_task(lanes.call(request, key="call"))
    await asyncio.sleep(after_s)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


def _watches_cancelling(entry: dict[str, Any]) -> bool:
    return any(operation["op"] == "client_closes_then_busy" for turn in entry["turns"] for operation in turn)


async def _probe_cancelling(backend: HttpBackend, clock: LoopClock) -> list[Finding]:
    """What the doctor's probe says of dropped streams; the scripted server reports what runs as llama.cpp does."""
    async with Lanes(backend, width=8, clock=clock, rng=random.Random(7), retry=RetryPolicy.none()) as lanes:
        context = ProbeContext(
            backend=backend,
            lanes=lanes,
            engine=LlamaCpp(backend.fetch),
            facts=no_facts("not asked"),
            needs=needs(None, None),
            clock=clock,
        )
        return await CancelFrees().run(context)


async def _resume(entry: dict[str, Any], folder: Path, request: ChatRequest) -> Reply:
    """The same run, opened again when the server is well: the call is made anew, and after that never again."""
    clock = LoopClock()
    with RunStore.open(folder / "run", config={"entry": entry["name"]}, clock=clock, in_thread=False) as store:
        async with (
            ScriptedServer([OK_TURN]) as server,
            HttpBackend(server.url, clock=clock) as backend,
            Lanes(backend, width=1, clock=clock, rng=random.Random(7), store=store) as lanes,
        ):
            reply = await lanes.call(request, key="call")
            assert (await lanes.call(request, key="call")).text == reply.text
            assert len(server.requests) == 1
            return reply


async def _go_on(request: ChatRequest, seen: Seen) -> list[Received]:
    """Put what came back into the history, as a worker does, and ask on; what was sent."""
    assert seen.reply is not None
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for call in seen.reply.tool_calls
    ]
    said: dict[str, Any] = {"role": "assistant", "content": seen.reply.text or seen.reply.tool_error or ""}
    if calls:
        said["tool_calls"] = calls
    further = ChatRequest(messages=[*request.messages, said, {"role": "user", "content": "Go on."}], stream=False)
    async with ScriptedServer([OK_TURN]) as server, HttpBackend(server.url, clock=LoopClock()) as backend:
        with contextlib.suppress(CallError):
            await backend.complete(further)
        return list(server.requests)
