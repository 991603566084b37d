"""What the simulated engine tells is read by the adapters as a real one's is."""

import asyncio

import pytest

from tests.sim.small_server import small_server
from widelane.engines.detect import detect
from widelane.engines.engine import Gauges
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Origin
from widelane.records import ChatRequest
from widelane.testing.virtual_time import run_virtual


async def facts_of(engine: str) -> ServerFacts:
    async with small_server(engine, slots=6, context=2048) as server:
        adapter = await detect(server.fetch)
        assert adapter.name == engine
        return await adapter.facts()


@pytest.mark.parametrize("engine", ["llama.cpp", "vllm"])
def test_detected_and_read(engine: str) -> None:
    facts = run_virtual(lambda: facts_of(engine))
    assert (facts.slots.value, facts.slots.origin) == (6, Origin.READ)
    assert facts.context_per_slot.value == 2048
    assert facts.model.value == "Qwen/Qwen3.6-27B"
    assert facts.speculation.value is False
    assert facts.queue_length.value == 0


def test_vllm_tells_its_types_and_pool() -> None:
    facts = run_virtual(lambda: facts_of("vllm"))
    assert (facts.kv_dtype.value, facts.state_dtype.value) == ("fp8", "float16")
    assert facts.pool_tokens.value == 6 * 2048
    assert facts.reasoning_parser.value == "qwen3"


@pytest.mark.parametrize("engine", ["llama.cpp", "vllm"])
def test_gauges_count_what_runs(engine: str) -> None:
    async def busy() -> tuple[Gauges, Gauges]:
        async with small_server(engine, slots=2) as server:
            adapter = await detect(server.fetch)
            request = ChatRequest(prompt="a", max_tokens=50, extra={"ignore_eos": True})
            tasks = [asyncio.create_task(server.complete(request)) for _ in range(5)]
            await asyncio.sleep(1.0)
            during = await adapter.gauges()
            await asyncio.gather(*tasks)
            return during, await adapter.gauges()

    during, after = run_virtual(busy)
    assert (during.running, during.waiting) == (2, 3)
    assert (after.running, after.waiting) == (0, 0)
    assert after.output_tokens_total == 250


def test_an_engine_without_facts_is_an_openai_server() -> None:
    async def name() -> str:
        async with small_server("sglang") as server:
            return (await detect(server.fetch)).name

    assert run_virtual(name) == "openai-compatible"


def test_unknown_paths_are_not_found() -> None:
    async def statuses() -> list[int]:
        async with small_server("llama.cpp") as llama, small_server("vllm") as vllm:
            return [(await server.fetch("GET", "/nowhere")).status for server in (llama, vllm)]

    assert run_virtual(statuses) == [404, 404]


@pytest.mark.parametrize("engine", ["llama.cpp", "vllm"])
@pytest.mark.parametrize("tokens", [5, None, "abc", [10**15, -1, True, "x"]])
def test_detokenize_takes_any_json(engine: str, tokens: object) -> None:
    async def status() -> int:
        async with small_server(engine) as server:
            return (await server.fetch("POST", "/detokenize", {"tokens": tokens})).status

    assert run_virtual(status) == 200
