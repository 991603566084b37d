"""Single calls to the real server: streaming, cancellation, structure, forced texts, refusals."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.live.conftest import one_thread, running
from widelane.engines.detect import detect
from widelane.engines.embedded import EmbeddedServer
from widelane.engines.engine import Engine, Hints
from widelane.errors import ContextOverflow
from widelane.records import ChatRequest, Delta
from widelane.wire.client import HttpBackend

pytestmark = pytest.mark.live

WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path | None) -> Iterator[EmbeddedServer]:
    """As llama.cpp starts by default."""
    with running(tmp_path_factory.mktemp("logs"), cache_dir) as started:
        yield started


@pytest.fixture
async def backend(server: EmbeddedServer) -> AsyncIterator[HttpBackend]:
    async with HttpBackend(server.url) as client:
        yield client


@pytest.fixture
async def engine(server: EmbeddedServer, backend: HttpBackend) -> Engine:
    return await detect(backend.fetch, Hints(launch=server.launch_line))


def say(text: str, **options: Any) -> ChatRequest:
    return ChatRequest(messages=[{"role": "user", "content": text}], **options)


async def busy_slots(backend: HttpBackend) -> int:
    slots = (await backend.fetch("GET", "/slots")).json()
    return sum(1 for slot in slots if slot["is_processing"])


async def test_by_default_there_are_four_slots_and_each_claims_the_models_whole_context(backend: HttpBackend) -> None:
    slots = (await backend.fetch("GET", "/slots")).json()

    assert [slot["n_ctx"] for slot in slots] == [8192] * 4


async def test_a_stream_brings_tokens_usage_and_the_servers_timings(backend: HttpBackend, engine: Engine) -> None:
    seen: list[Delta] = []

    reply = await backend.complete(
        say("Say hello.", max_tokens=12, temperature=0.0, extra=engine.fixed_length(12)), seen.append
    )

    assert reply.text == "".join(delta.text for delta in seen) != ""
    assert reply.finish == "length"
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 12
    assert reply.usage.origin == "read"
    assert reply.server_timings is not None
    assert reply.server_timings["predicted_n"] == 12
    assert reply.timing.streamed
    assert 1 < len(reply.timing.chunk_ns) <= 12
    assert reply.timing.sent_ns < reply.timing.chunk_ns[0] < reply.timing.ended_ns
    assert list(reply.timing.chunk_ns) == sorted(reply.timing.chunk_ns)


async def test_a_completion_continues_its_prompt(backend: HttpBackend) -> None:
    reply = await backend.complete(ChatRequest(prompt="The capital of France is", max_tokens=4, temperature=0.0))

    assert reply.text.startswith(" Paris")


async def test_cancelling_a_call_frees_its_slot(backend: HttpBackend, engine: Engine) -> None:
    began = asyncio.Event()
    call = asyncio.create_task(
        backend.complete(
            ChatRequest(prompt="Once upon a time", max_tokens=4000, extra=engine.fixed_length(4000)),
            lambda delta: began.set(),
        )
    )
    await began.wait()
    assert await busy_slots(backend) == 1

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    async with asyncio.timeout(10):
        while await busy_slots(backend):
            await asyncio.sleep(0.05)


async def test_a_json_schema_is_enforced(backend: HttpBackend) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "green"]}, "count": {"type": "integer", "maximum": 99}},
        "required": ["colour", "count"],
        "additionalProperties": False,
    }

    reply = await backend.complete(
        say(
            "Tell me a story.",  # nothing in it asks for JSON
            max_tokens=120,
            temperature=0.0,
            response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
        )
    )

    answer = msgspec.json.decode(reply.text)
    assert set(answer) == {"colour", "count"}
    assert answer["colour"] in {"red", "green"}
    assert isinstance(answer["count"], int)


async def test_forced_reasoning_is_kept_apart_from_the_answer(backend: HttpBackend, engine: Engine) -> None:
    forced = engine.forced_text("<think>\nFrance has a capital.\n</think>\n\nParis")
    assert forced is not None

    reply = await backend.complete(say("Where?", max_tokens=64, temperature=0.0, extra=forced))

    assert reply.text == "Paris"
    assert reply.reasoning.strip() == "France has a capital."
    assert "reasoning_in_content" in reply.warnings


async def test_a_forced_tool_call_left_in_the_text_is_recovered(backend: HttpBackend, engine: Engine) -> None:
    """llama.cpp takes a grammar beside tools only with `tool_choice` none, and then parses no calls itself."""
    forced = engine.forced_text('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>')
    assert forced is not None

    reply = await backend.complete(
        say("Weather?", max_tokens=100, temperature=0.0, tools=[WEATHER_TOOL], tool_choice="none", extra=forced)
    )

    assert [(call.name, dict(call.arguments)) for call in reply.tool_calls] == [("get_weather", {"city": "Paris"})]
    assert reply.text.strip() == ""
    assert "tool_call_recovered" in reply.warnings


async def test_a_prompt_longer_than_the_slots_context_is_refused_with_both_numbers(
    tmp_path: Path, cache_dir: Path | None
) -> None:
    async with one_thread(tmp_path, cache_dir, slots=2, context=512) as small, HttpBackend(small.url) as backend:
        with pytest.raises(ContextOverflow) as raised:
            await backend.complete(ChatRequest(prompt="word " * 400, max_tokens=4))

    assert raised.value.n_ctx == 256
    assert raised.value.n_prompt is not None
    assert 400 <= raised.value.n_prompt <= 410


async def test_float32_weights_give_the_same_answer(tmp_path: Path, cache_dir: Path | None) -> None:
    async with one_thread(tmp_path, cache_dir, weights="f32", slots=1) as wide, HttpBackend(wide.url) as backend:
        reply = await backend.complete(ChatRequest(prompt="The capital of France is", max_tokens=4, temperature=0.0))
        props = (await backend.fetch("GET", "/props")).json()

    assert reply.text.startswith(" Paris")
    assert props["model_ftype"] == "all F32"
    assert "message['role']" in props["chat_template"]
