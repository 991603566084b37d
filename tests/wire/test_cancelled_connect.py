"""A call cancelled at any moment of its connecting leaves nothing that closing would wait for."""

import asyncio
import socket

import pytest

from widelane.errors import CallError
from widelane.records import ChatRequest
from widelane.wire.client import HttpBackend

REQUEST = ChatRequest(messages=[{"role": "user", "content": "Hi"}], model="m")


def loop_factories():
    factories = [pytest.param(asyncio.new_event_loop, id="asyncio")]
    try:
        import uvloop
    except ImportError:
        return factories
    return [*factories, pytest.param(uvloop.new_event_loop, id="uvloop")]


async def _cancel_after(turns: int) -> None:
    """Cancel a call after so many turns of the loop, then close the backend."""
    with socket.create_server(("127.0.0.1", 0)) as listening:  # connections are made, and nobody answers
        await _call_and_close(listening.getsockname()[1], turns)


async def _call_and_close(port: int, turns: int) -> None:
    backend = HttpBackend(f"http://127.0.0.1:{port}")
    task = asyncio.ensure_future(backend.complete(REQUEST))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises((asyncio.CancelledError, CallError)):
        await task
    async with asyncio.timeout(5):
        await backend.aclose()


@pytest.mark.parametrize("loop_factory", loop_factories())
def test_closing_never_waits_for_a_connection_that_was_given_up(loop_factory):
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        for turns in range(12):
            runner.run(_cancel_after(turns))
