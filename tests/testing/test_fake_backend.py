"""The backend without a server."""

import asyncio

import pytest

from widelane.errors import ServerFailed
from widelane.records import ChatRequest
from widelane.testing.fake_backend import FakeBackend, Scripted
from widelane.testing.virtual_time import run_virtual

ASK = ChatRequest(prompt="x")


def test_answers_come_in_order_and_the_last_repeats():
    async def main():
        backend = FakeBackend(["a", ServerFailed("boom"), "b"])
        texts = [(await backend.complete(ASK)).text]
        with pytest.raises(ServerFailed, match="boom"):
            await backend.complete(ASK)
        texts += [(await backend.complete(ASK)).text for _ in range(2)]
        return texts, len(backend.requests)

    assert run_virtual(main) == (["a", "b", "b"], 4)


def test_delays_are_on_the_loops_time_and_observed():
    async def main():
        seen = []
        backend = FakeBackend([Scripted(answer="hello there", delay_s=2.0, decode_s=3.0)])
        reply = await backend.complete(ASK, seen.append)
        timing = reply.timing
        return [delta.t_ns for delta in seen], timing.first_token_ns, timing.ended_ns, reply.usage.completion_tokens

    assert run_virtual(main) == ([2_000_000_000], 2_000_000_000, 5_000_000_000, 2)


def test_too_few_slots_make_calls_wait_and_the_peak_counts_offers():
    async def main():
        backend = FakeBackend(delay_s=1.0, slots=2)
        await asyncio.gather(*(backend.complete(ASK) for _ in range(6)))
        return backend.peak, asyncio.get_running_loop().time()

    assert run_virtual(main) == (6, 3.0)


def test_a_function_may_choose_the_answer():
    async def main():
        backend = FakeBackend(lambda request, number: f"{request.prompt} {number}")
        return (await backend.complete(ASK)).text

    assert run_virtual(main) == "x 0"
