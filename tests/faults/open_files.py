"""Few open files and many lanes: run in a child process, whose limits are its own."""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
from typing import Any

from widelane.clock import SystemClock
from widelane.errors import CallError
from widelane.lanes import Lanes
from widelane.records import ChatRequest
from widelane.testing.scripted_server import ScriptedServer
from widelane.wire.client import HttpBackend

SOFT = 64
LANES = 128


async def run_with_few_files(turns: list[Any], hard: int | None) -> dict[str, Any]:
    """What a child with a soft limit of 64 files says: `{"ok": n}` or `{"error": code, "message": …}`."""
    async with ScriptedServer(turns, hold_s=1.0) as server:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.faults.open_files", server.url, str(hard or 0),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, errors = await child.communicate()
        assert child.returncode == 0, errors.decode()
        return {**json.loads(out), "peak": server.peak_running}


async def _call_all(url: str) -> dict[str, Any]:
    try:
        async with (
            HttpBackend(url) as backend,
            Lanes(backend, width=LANES, clock=SystemClock(), rng=random.Random(1)) as lanes,
        ):
            request = ChatRequest(messages=[{"role": "user", "content": "Hi"}])
            replies = await asyncio.gather(*(lanes.call(request) for _ in range(LANES)))
            return {"ok": len(replies)}
    except CallError as error:
        return {"error": error.code, "message": str(error)}


def main() -> None:
    stated = int(sys.argv[2])
    hard = stated or resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, hard))
    print(json.dumps(asyncio.run(_call_all(sys.argv[1]))))


if __name__ == "__main__":
    main()
