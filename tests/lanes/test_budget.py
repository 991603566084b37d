"""Budgets: kept when many calls start at once, and given back what was not used."""

import asyncio

import pytest

from tests.lanes.doubles import ASK, lanes_over, reply
from widelane.errors import BudgetExhausted
from widelane.lanes.budget import Admit, Budget, Ledger
from widelane.records import ChatRequest, Outcome, Usage
from widelane.testing.fake_backend import FakeBackend, Scripted
from widelane.testing.virtual_time import run_virtual


def test_a_call_that_may_not_fit_waits_for_what_others_give_back():
    ledger = Ledger(Budget(tokens=100))
    ledger.reserve(60)
    assert ledger.admit(60) is Admit.WAIT
    ledger.settle(60, used=20)
    assert ledger.admit(60) is Admit.START
    ledger.reserve(60)
    ledger.settle(60, used=60)
    assert ledger.admit(21) is Admit.EXHAUSTED
    assert "100 tokens" in str(ledger.run_exhausted(21))


def test_max_tokens_is_lowered_to_the_calls_own_budget():
    ledger = Ledger(Budget(call_tokens=100))
    assert ledger.limited(ChatRequest(prompt="x", max_tokens=500), 30, 0).max_tokens == 70
    assert ledger.limited(ChatRequest(prompt="x", max_tokens=500), 30, 50).max_tokens == 20
    assert ledger.limited(ChatRequest(prompt="x"), 30, 0).max_tokens == 70
    assert ledger.limited(ChatRequest(prompt="x", max_tokens=10), 30, 0).max_tokens == 10
    with pytest.raises(BudgetExhausted, match="100 tokens"):
        ledger.limited(ChatRequest(prompt="x"), 30, 70)


def test_a_run_of_many_calls_keeps_its_budget_of_tokens():
    async def main():
        backend = FakeBackend([reply(usage=Usage(8, 8))], delay_s=1.0)
        done = refused = 0
        async with lanes_over(backend, width=16, budget=Budget(tokens=100)) as lanes:
            results = await asyncio.gather(*(lanes.call(call) for _ in range(16)), return_exceptions=True)
            for result in results:
                done += not isinstance(result, Exception)
                refused += isinstance(result, BudgetExhausted)
            return done, refused, lanes.tokens_spent

    call = ChatRequest(prompt="x", max_tokens=8, prompt_tokens_estimate=8)
    # 100 tokens are six calls of 16.
    assert run_virtual(main) == (6, 10, 96)


def test_the_runs_seconds_stop_what_is_in_flight():
    async def main():
        backend = FakeBackend(["ok"], delay_s=10.0)
        async with lanes_over(backend, budget=Budget(seconds=25.0)) as lanes:
            await lanes.call(ASK)
            await lanes.call(ASK)
            with pytest.raises(BudgetExhausted, match="run's budget of 25 s"):
                await lanes.call(ASK)
            last = lanes.spans[-1]
            return last.ended_ns, last.outcome, last.error, backend.running

    assert run_virtual(main) == (25_000_000_000, Outcome.FAILED, "budget_exhausted", 0)


def test_after_the_runs_seconds_nothing_is_sent_any_more():
    async def main():
        backend = FakeBackend(delay_s=10.0)
        async with lanes_over(backend, budget=Budget(seconds=25.0)) as lanes:
            for offered_s in (25.0, 26.0):
                await asyncio.sleep(offered_s - asyncio.get_running_loop().time())
                with pytest.raises(BudgetExhausted, match="the run's budget of 25 s"):
                    await lanes.call(ASK)
            return len(backend.requests), [(span.outcome, span.attempts) for span in lanes.spans]

    assert run_virtual(main) == (0, [(Outcome.FAILED, 0)] * 2)


def test_a_calls_seconds_count_from_its_first_sending_and_not_from_its_queueing():
    async def main():
        backend = FakeBackend(
            [Scripted(answer="a", delay_s=8.0), Scripted(answer="b", delay_s=8.0), Scripted(answer="c", delay_s=20.0)]
        )
        async with lanes_over(backend, width=1, budget=Budget(call_seconds=10.0)) as lanes:
            results = await asyncio.gather(*(lanes.call(ASK) for _ in range(3)), return_exceptions=True)
            return [getattr(result, "text", type(result)) for result in results], lanes.spans[-1].ended_ns

    assert run_virtual(main) == (["a", "b", BudgetExhausted], 26_000_000_000)
