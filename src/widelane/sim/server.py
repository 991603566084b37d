"""The simulated model server, as a backend: calls in memory, in the time of the running loop.

    server = SimServer(config, cost, settings, seed=7)
    async with server:                                # under `run_virtual` no real time passes
        reply = await server.complete(ChatRequest(messages=[…]))
        engine = await detect(server.fetch)           # it answers as llama.cpp or vLLM does

Healthy calls go straight to the engine, without a byte of HTTP. What concerns bytes (plain requests, faults, odd
habits) goes through the real client over a pipe in memory, so that a caller sees exactly what HTTP would show. A direct
call has no time limits of a client: it waits as long as it takes.
"""

from __future__ import annotations

import asyncio
import random
from types import TracebackType
from typing import Any, Self

from widelane.clock import Clock, LoopClock
from widelane.records import ChatRequest, HttpReply, Observer, Reply
from widelane.sim.answers.answer import Answerer
from widelane.sim.answers.plain import PlainAnswers
from widelane.sim.answers.scripted import Line, Rule, Scripted
from widelane.sim.app import SimApp
from widelane.sim.ask import BadBody, read_ask
from widelane.sim.config import EngineConfig
from widelane.sim.cost_model import CostModel
from widelane.sim.direct_call import DirectCall
from widelane.sim.driver import EngineDriver
from widelane.sim.engine import SimEngine
from widelane.sim.events import Gauges
from widelane.sim.faults.catalogue import FaultChoice
from widelane.sim.http_connection import HttpConnection
from widelane.sim.memory_link import connect
from widelane.sim.refusal import PlainReply, bad_request, too_long
from widelane.sim.service import ModelService, Prepared, TooLong
from widelane.sim.settings import Habits, ServerSettings
from widelane.wire.client import HttpBackend
from widelane.wire.failures import classify
from widelane.wire.judge import judge
from widelane.wire.request_body import request_fields

INSIDE = "http://simulated"
"""Where the pipe leads; it stands in messages only."""
DEFAULT_ANSWERS: Answerer = Scripted(
    [Rule(when=r"capital of France", lines=[Line(text="The capital of France is Paris.")])], otherwise=PlainAnswers()
)
"""Filler prose of 256 tokens, and one right answer to what people ask first."""


class SimServer:
    """One simulated server. An async context manager; nothing runs before the first call.

    Args:
        seed: of the engine and of the answers.
        speed: simulated seconds in a second of the loop; None: as fast as the loop turns. 1 in virtual time.
        faults: which call gets which fault; None: none does.
        clock: the clock of the replies' times. It must run with the loop.
        name: what `url` shows.
    """

    def __init__(
        self,
        config: EngineConfig,
        cost: CostModel,
        settings: ServerSettings,
        *,
        seed: int = 0,
        answerer: Answerer = DEFAULT_ANSWERS,
        speed: float | None = 1.0,
        faults: FaultChoice | None = None,
        clock: Clock | None = None,
        name: str = INSIDE,
    ) -> None:
        self.settings = settings
        self._driver = EngineDriver(SimEngine(config, cost, random.Random(f"{seed}/engine")), speed=speed)
        self._service = ModelService(settings, self._driver, answerer, seed=seed)
        self.app = SimApp(self._service, faults=faults, speed=speed)
        self._clock = clock or LoopClock()
        self._straight = faults is None and _plain(settings.habits)
        self._inside = HttpBackend(INSIDE, model=settings.model, clock=self._clock, dial=self._dial)
        self._name = name
        self._calls = 0
        self._offset_ns: int | None = None

    def __repr__(self) -> str:
        return f"<SimServer {self._name}: {self._driver!r}>"

    @property
    def url(self) -> str:
        """What names this server."""
        return self._name

    @property
    def clock(self) -> Clock:
        """The clock of its replies."""
        return self._clock

    def gauges(self) -> Gauges:
        """What the engine has counted, up to now."""
        return self._driver.gauges()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop, and close every connection."""
        await self._inside.aclose()
        self.app.close()
        self._driver.close()

    async def complete(self, request: ChatRequest, observe: Observer | None = None) -> Reply:
        """The whole reply to one call; one attempt. See `records.Backend`.

        Raises:
            CallError: the call failed, or (unless `request.raw`) the reply is no usable answer.
            UsageError: the request cannot be sent as it is.
        """
        if not self._straight:
            return await self._inside.complete(request, observe)
        prepared = self._prepared(request)
        if isinstance(prepared, PlainReply):
            raise classify(prepared.status, prepared.headers, prepared.body, url=self._name)
        number = self._calls
        self._calls += 1
        call = DirectCall(self._service, request, prepared, observe, self._to_ns, number)
        return _judged(request, await call.reply())

    async def fetch(self, method: str, path: str, body: Any = None, *, timeout_s: float = 10.0) -> HttpReply:
        """A plain request. See `records.Fetch`.

        Raises:
            CallError: no reply came.
        """
        return await self._inside.fetch(method, path, body, timeout_s=timeout_s)

    def _prepared(self, request: ChatRequest) -> Prepared | PlainReply:
        """The request as the model will write it, or its refusal."""
        engine = self.settings.engine
        try:
            ask = read_ask(request_fields(request, self.settings.model), chat=request.prompt is None)
            return self.app.refusal(ask) or self._service.prepare(ask)
        except BadBody as problem:
            return bad_request(engine, str(problem), problem.field)
        except TooLong as problem:
            return too_long(engine, problem)

    def _dial(self, client: asyncio.BufferedProtocol) -> None:
        if not self.app.listening:
            raise ConnectionRefusedError("the simulated server is down")
        connect(client, HttpConnection(self.app))

    def _to_ns(self, time_s: float) -> int:
        """The clock's time of an instant of the engine."""
        if self._offset_ns is None:
            self._offset_ns = self._clock.now_ns() - int(asyncio.get_running_loop().time() * 1e9)
        return int(self._driver.loop_s(time_s) * 1e9) + self._offset_ns


def _plain(habits: Habits) -> bool:
    """Whether a client could not tell the bytes of such a server from a healthy one's."""
    return habits.keeps_max_tokens and not habits.buffers and habits.fails_in_streams is None and habits.frees_on_cancel


def _judged(request: ChatRequest, reply: Reply) -> Reply:
    problem = None if request.raw else judge(request, reply)
    if problem is not None:
        raise problem
    return reply
