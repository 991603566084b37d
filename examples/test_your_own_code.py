"""Your own code against a simulated server that misbehaves, in virtual time: minutes of waiting take a second.

python examples/test_your_own_code.py        (or `pytest examples/test_your_own_code.py`)
"""

import asyncio
import random

from widelane import (
    ChatRequest,
    HttpBackend,
    Lanes,
    LoopClock,
    SimServer,
    assemble,
    load_profile,
    parse_script,
    parse_sim,
    run_virtual,
)

TEXTS = [f"chapter {number}" for number in range(1, 25)]
SERVER = "sim:gb10/qwen3.6-27b/vllm?quant=fp8&slots=4&fault=none,none,rate_429_seconds,none,cut_mid_stream_rst,none"
ANSWERS = '{"answers": [{"when": "Summarise", "say": [{"text": "In short: it rains.", "tokens": "200-400"}]}]}'


async def summarise(backend: SimServer | HttpBackend, texts: list[str]) -> list[str]:
    """The code under test: with `HttpBackend("http://…")` it talks to a real server."""
    async with (
        Lanes(backend, width=8, clock=LoopClock(), rng=random.Random(0)) as lanes,
        asyncio.TaskGroup() as group,
    ):
        calls = [group.create_task(lanes.call(request(text))) for text in texts]
    return [call.result().text for call in calls]


def request(text: str) -> ChatRequest:
    return ChatRequest(messages=[{"role": "user", "content": f"Summarise {text}."}], max_tokens=2000)


def test_every_text_is_summarised_whatever_the_server_does() -> None:
    async def main() -> tuple[list[str], float, int]:
        simulated = assemble(parse_sim(SERVER), load_profile=load_profile)
        async with simulated.server(answerer=parse_script(ANSWERS)) as server:
            summaries = await summarise(server, TEXTS)
            return summaries, asyncio.get_running_loop().time(), server.gauges().submitted

    summaries, seconds, submitted = run_virtual(main)
    assert summaries == ["In short: it rains."] * len(TEXTS)
    assert submitted > len(TEXTS), "some were cut off and written again"
    print(f"{len(TEXTS)} calls, {submitted} begun by the server, {seconds / 60:.1f} virtual minutes")


if __name__ == "__main__":
    test_every_text_is_summarised_whatever_the_server_does()
