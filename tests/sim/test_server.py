"""The simulated server as a backend: replies, times, refusals, cancelling; and that HTTP would have shown the same."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.sim.small_server import RoundCosts, small_server
from widelane.clock import LoopClock
from widelane.errors import BadRequest, ContextOverflow, ModelNotFound, PoolOverflow, UnsupportedParameter
from widelane.records import ChatRequest, Delta, Reply
from widelane.sim.config import BlockPool, EngineConfig, PoolPolicy
from widelane.sim.http_connection import HttpConnection
from widelane.sim.memory_link import connect
from widelane.sim.server import SimServer
from widelane.testing.virtual_time import run_virtual
from widelane.wire.client import HttpBackend

ENGINES = ("llama.cpp", "vllm")
ASK = ({"role": "user", "content": "What is the capital of France?"},)
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
REQUESTS = {
    "a short answer": ChatRequest(messages=ASK),
    "cut by its limit": ChatRequest(messages=ASK, max_tokens=3),
    "not streamed": ChatRequest(messages=ASK, stream=False),
    "not streamed, cut": ChatRequest(messages=ASK, stream=False, max_tokens=3),
    "plain completion": ChatRequest(prompt="Once upon a time", max_tokens=20),
    "two choices": ChatRequest(messages=ASK, n=2, max_tokens=5, temperature=0.8),
    "a tool call": ChatRequest(
        messages=({"role": "user", "content": "What is the weather in Paris? Call the tool."},), tools=(TOOL,)
    ),
    "a stop string": ChatRequest(messages=ASK, stop=("France",)),
}


def over_http(server: SimServer) -> HttpBackend:
    """The real client, connected to the server in memory."""
    return HttpBackend("http://x", clock=LoopClock(), dial=lambda client: connect(client, HttpConnection(server.app)))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_direct_call_gives_the_reply_that_http_gives(engine: str, name: str) -> None:
    async def both() -> tuple[Reply, Reply, list[Delta], list[Delta]]:
        seen: tuple[list[Delta], list[Delta]] = ([], [])
        async with small_server(engine) as one, small_server(engine) as other, over_http(other) as http:
            direct = await one.complete(REQUESTS[name], seen[0].append)
            await asyncio.sleep(1.0)
            return direct, await http.complete(REQUESTS[name], seen[1].append), *seen

    direct, http, direct_deltas, http_deltas = run_virtual(both)

    def comparable(reply: Reply) -> Reply:
        timings = {k: v for k, v in (reply.server_timings or {}).items() if k.endswith("_n")}
        return replace(reply, timing=direct.timing, server_timings=timings)

    assert comparable(direct) == comparable(http)
    assert [delta.text for delta in direct_deltas] == [delta.text for delta in http_deltas]
    assert len(direct.timing.chunk_ns) == len(http.timing.chunk_ns)
    for ours, theirs in zip(direct.timing.chunk_ns, http.timing.chunk_ns, strict=True):
        assert (ours - direct.timing.sent_ns) == pytest.approx(theirs - http.timing.sent_ns, abs=5_000)


def test_times_are_those_of_the_steps() -> None:
    """20 prompt tokens: read in 100 + 20 ms, then a token every 100 ms."""
    prompt = " word" * 20

    async def call() -> Reply:
        async with small_server() as server:
            return await server.complete(ChatRequest(prompt=prompt, max_tokens=4, extra={"ignore_eos": True}))

    reply = run_virtual(call)
    after_ms = [(t_ns - reply.timing.sent_ns) / 1e6 for t_ns in reply.timing.chunk_ns]
    assert after_ms == pytest.approx([120, 220, 320, 420], abs=0.01)
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (20, 4)
    assert reply.finish == "length"


def test_calls_beyond_the_slots_wait() -> None:
    async def five() -> list[float]:
        async with small_server(slots=4) as server:
            requests = [ChatRequest(prompt=f"number {n}", max_tokens=10, extra={"ignore_eos": True}) for n in range(5)]
            replies = await asyncio.gather(*(server.complete(request) for request in requests))
            return [(reply.timing.first_token_ns or 0) / 1e9 for reply in replies]

    firsts = run_virtual(five)
    assert max(firsts[:4]) < 0.2
    assert firsts[4] > 1.0  # nine more steps of the four


def test_cancelling_frees_the_slot_at_once() -> None:
    async def cancelled() -> tuple[int, float]:
        async with small_server(slots=1) as server:
            long = ChatRequest(prompt="a", max_tokens=1000, extra={"ignore_eos": True})
            task = asyncio.create_task(server.complete(long))
            await asyncio.sleep(1.05)
            task.cancel()
            await asyncio.wait([task])
            running = server.gauges().running
            reply = await server.complete(ChatRequest(prompt="b", max_tokens=1))
            return running, (reply.timing.ended_ns - reply.timing.sent_ns) / 1e9

    running, took_s = run_virtual(cancelled)
    assert running == 0
    assert took_s < 0.25  # the step that ran, and its own


@pytest.mark.parametrize("engine", ENGINES)
def test_refusals_are_the_typed_errors_of_the_client(engine: str) -> None:
    async def refused() -> ContextOverflow:
        async with small_server(engine, context=256) as server:
            with pytest.raises(ContextOverflow) as caught:
                await server.complete(ChatRequest(prompt=" word" * 300, max_tokens=5))
            return caught.value

    error = run_virtual(refused)
    assert error.n_ctx == 256


def test_each_engine_refuses_in_its_own_way() -> None:
    async def ask() -> None:
        async with small_server("vllm") as vllm, small_server("llama.cpp") as llama:
            with pytest.raises(ModelNotFound):
                await vllm.complete(ChatRequest(messages=ASK, model="other"))
            assert (await llama.complete(ChatRequest(messages=ASK, model="other"))).text
            with pytest.raises(UnsupportedParameter, match="between 1 <= value <= 4"):
                await llama.complete(ChatRequest(messages=ASK, n=9))

    run_virtual(ask)


def test_a_body_that_cannot_be_served_is_a_bad_request() -> None:
    async def ask() -> None:
        async with small_server() as server:
            with pytest.raises(BadRequest):
                await server.complete(ChatRequest(messages=ASK, temperature=-1.0))

    run_virtual(ask)


def test_a_full_shared_pool_fails_every_running_call() -> None:
    async def fill() -> list[Any]:
        async with small_server("llama.cpp") as model:
            config = EngineConfig(
                slots=4, longest_tokens=200, pool=BlockPool(200, block_tokens=1), policy=PoolPolicy.FAIL_ALL
            )
            settings = replace(model.settings, context_tokens=200, unified=True)
        async with SimServer(config, RoundCosts(), settings) as server:
            requests = [ChatRequest(prompt=f"{n}" + " word" * 40, max_tokens=100, extra={"ignore_eos": True})
                        for n in range(3)]  # fmt: skip
            return await asyncio.gather(*(server.complete(one) for one in requests), return_exceptions=True)

    outcomes = run_virtual(fill)
    assert all(isinstance(outcome, PoolOverflow) for outcome in outcomes)


def test_a_conversation_finds_what_was_said_before_in_the_cache() -> None:
    """llama.cpp's slot keeps prompt and answer; the next turn reads only what is new.

    Not so with a template that opens thoughts: the history holds none, so its text differs where the answer began.
    """

    async def talk() -> Reply:
        async with small_server("llama.cpp", thinks=False) as server:
            story = ({"role": "user", "content": "Tell me a story." + " word" * 100},)
            first = await server.complete(ChatRequest(messages=story, max_tokens=300))
            again = (*story, {"role": "assistant", "content": first.text}, {"role": "user", "content": "Go on."})
            return await server.complete(ChatRequest(messages=again, max_tokens=5))

    reply = run_virtual(talk)
    assert reply.usage is not None
    assert reply.usage.prompt_tokens is not None
    assert reply.usage.cached_tokens is not None
    assert 0 < reply.usage.prompt_tokens - reply.usage.cached_tokens < 50


def test_same_seed_same_replies() -> None:
    async def several(seed: int) -> list[str]:
        async with small_server(seed=seed) as server:
            asks = [ChatRequest(messages=ASK, max_tokens=9), ChatRequest(prompt="Tell me", max_tokens=9)]
            return [(await server.complete(ask)).text for ask in asks * 2]

    first = run_virtual(lambda: several(1))
    assert first == run_virtual(lambda: several(1))
    assert first != run_virtual(lambda: several(2))
