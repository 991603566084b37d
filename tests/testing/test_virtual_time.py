"""Time that jumps: exact, the same each time, and never stuck in silence."""

import asyncio
import random
import subprocess
import sys
import time

import pytest

from widelane.clock import LoopClock
from widelane.testing.virtual_time import Deadlock, VirtualTimeError, run_virtual


def test_waiting_costs_no_real_time_and_is_exact():
    async def main():
        await asyncio.sleep(86_400.0)
        return asyncio.get_running_loop().time(), LoopClock().now_ns()

    begun = time.perf_counter()
    assert run_virtual(main) == (86_400.0, 86_400_000_000_000)
    assert time.perf_counter() - begun < 5.0


def test_timers_fire_in_order_and_a_timeout_fires_at_its_time():
    async def main():
        seen = []

        async def note(name, after_s):
            await asyncio.sleep(after_s)
            seen.append((name, asyncio.get_running_loop().time()))

        async with asyncio.TaskGroup() as group:
            for name, after_s in [("c", 3.0), ("a", 1.0), ("b", 2.0)]:
                group.create_task(note(name, after_s))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7.0):
                await asyncio.Event().wait()
        return seen, asyncio.get_running_loop().time()

    assert run_virtual(main) == ([("a", 1.0), ("b", 2.0), ("c", 3.0)], 10.0)


def test_real_loopback_sockets_deliver_before_time_jumps():
    """A heartbeat each half second for 100 s, each read on its own, with a timeout far away that must not fire."""

    async def main():
        async def serve(_reader, writer):
            for _ in range(200):
                await asyncio.sleep(0.5)
                writer.write(b"x")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("localhost", port)
        times = []
        while True:
            async with asyncio.timeout(0.6):
                if not await reader.read(100):
                    break
            times.append(asyncio.get_running_loop().time())
        writer.close()
        server.close()
        return times

    assert run_virtual(main) == [0.5 * (number + 1) for number in range(200)]


def test_a_deadlock_raises_and_names_who_waits_and_where():
    async def stuck_here():
        await asyncio.Event().wait()

    async def main():
        task = asyncio.create_task(stuck_here(), name="the forgotten one")
        await task

    with pytest.raises(Deadlock, match="the forgotten one") as caught:
        run_virtual(main)
    assert "stuck_here" in str(caught.value) or "Event.wait" in str(caught.value)
    assert "no timer" in str(caught.value)


def test_an_endless_run_is_stopped():
    async def main():
        while True:
            await asyncio.sleep(1.0)

    with pytest.raises(VirtualTimeError, match="100 virtual seconds"):
        run_virtual(main, longest_s=100.0)


async def _to_thread():
    await asyncio.to_thread(time.sleep, 0)


async def _executor():
    await asyncio.get_running_loop().run_in_executor(None, print)


async def _subprocess():
    await asyncio.create_subprocess_exec("true")


async def _shell():
    await asyncio.create_subprocess_shell("true")


async def _name_server():
    await asyncio.open_connection("example.invalid", 80)


@pytest.mark.parametrize("main", [_to_thread, _executor, _subprocess, _shell])
def test_what_needs_real_time_is_refused(main):
    with pytest.raises(VirtualTimeError, match="no progress in virtual time"):
        run_virtual(main)


def test_a_host_that_needs_a_name_server_does_not_resolve():
    with pytest.raises(OSError):
        run_virtual(_name_server)


def test_an_exception_rises_and_what_was_left_running_is_cancelled():
    ended = []

    async def sleeper():
        try:
            await asyncio.sleep(1000.0)
        finally:
            ended.append(asyncio.get_running_loop().time())

    async def main():
        task = asyncio.create_task(sleeper())
        await asyncio.sleep(1.0)
        assert not task.done()
        raise KeyError("x")

    with pytest.raises(KeyError):
        run_virtual(main)
    assert ended == [1.0]


_TRACE = """
import asyncio, random
from widelane.testing.fake_backend import FakeBackend, Scripted
from widelane.testing.virtual_time import run_virtual
from widelane.errors import ServerFailed, ServerOverloaded
from widelane.lanes import Lanes
from widelane.clock import LoopClock
from widelane.records import ChatRequest

async def main():
    rng = random.Random(5)
    def answer(request, number):
        result = rng.choice(["ok", "ok", ServerFailed("x"), ServerOverloaded("y", retry_after_s=2.0)])
        return Scripted(answer=result, delay_s=rng.random(), decode_s=rng.random())
    async with Lanes(FakeBackend(answer), width=5, clock=LoopClock(), rng=random.Random(6)) as lanes:
        calls = [lanes.call(ChatRequest(prompt="x"), priority=number % 3) for number in range(40)]
        await asyncio.gather(*calls, return_exceptions=True)
        for span in lanes.spans:
            print(span)

run_virtual(main)
"""


def test_the_same_seed_gives_the_same_trace_in_two_processes():
    traces = {
        subprocess.run(
            [sys.executable, "-c", _TRACE], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(traces) == 1
    assert traces.pop().count("Span(") == 40


@pytest.mark.parametrize("seed", range(3))
def test_ten_runs_over_real_sockets_give_one_trace(seed):
    async def main():
        rng = random.Random(seed)
        seen = []

        async def serve(reader, writer):
            while data := await reader.read(100):
                await asyncio.sleep(rng.random())
                writer.write(data)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def client(name):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for number in range(5):
                await asyncio.sleep(rng.random())
                writer.write(b"?")
                await reader.read(1)
                seen.append((name, number, asyncio.get_running_loop().time()))
            writer.close()

        async with asyncio.TaskGroup() as group:
            for name in range(6):
                group.create_task(client(name))
        server.close()
        return tuple(seen)

    assert len({run_virtual(main) for _ in range(10)}) == 1
