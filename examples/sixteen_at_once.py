"""Sixteen requests on a real llama.cpp server, first one after the other, then all at once.

python examples/sixteen_at_once.py        (needs widelane[embedded])
"""

import asyncio
import random
import tempfile
import time
from pathlib import Path

from widelane import ChatRequest, EmbeddedServer, HttpBackend, Lanes, SystemClock

CALLS = 16
REQUEST = ChatRequest(messages=[{"role": "user", "content": "Name three rivers."}], max_tokens=24, temperature=0.8)


async def ask_all(backend: HttpBackend, width: int) -> float:
    """Seconds that all calls take with so many in flight."""
    began = time.perf_counter()
    async with (
        Lanes(backend, width=width, clock=SystemClock(), rng=random.Random(0)) as lanes,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(CALLS):
            group.create_task(lanes.call(REQUEST))
    return time.perf_counter() - began


async def main() -> None:
    with tempfile.TemporaryDirectory() as logs:
        async with EmbeddedServer(slots=CALLS, log_dir=Path(logs)) as server, HttpBackend(server.url) as backend:
            await ask_all(backend, CALLS)  # warm-up
            one, many = await ask_all(backend, 1), await ask_all(backend, CALLS)
            print(f"{CALLS} calls, one lane: {one:.1f} s; {CALLS} lanes: {many:.1f} s; {one / many:.1f} times as fast")


asyncio.run(main())
