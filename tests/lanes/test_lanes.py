"""Many calls at once, under virtual time and against a backend of our own."""

import asyncio
import random

import pytest

from tests.lanes.doubles import ASK, ONCE, Switch, lanes_over, reply
from widelane import errors
from widelane.lanes import IncidentKind, RetryPolicy
from widelane.records import ChatRequest, Outcome, Usage
from widelane.testing.fake_backend import FakeBackend, Scripted
from widelane.testing.virtual_time import run_virtual


async def ask_many(lanes, count, **options):
    return await asyncio.gather(*(lanes.call(ASK, **options) for _ in range(count)), return_exceptions=True)


def now_s():
    return asyncio.get_running_loop().time()


# --- width, order, cancellation


def test_width_calls_are_in_flight_and_the_rest_wait():
    async def main():
        backend = FakeBackend(delay_s=1.0)
        async with lanes_over(backend, width=4) as lanes:
            await ask_many(lanes, 10)
            return backend.peak, now_s()

    assert run_virtual(main) == (4, 3.0)  # 4 + 4 + 2


def test_the_width_may_be_changed_while_running():
    async def main():
        backend = FakeBackend(delay_s=1.0)
        async with lanes_over(backend, width=1) as lanes:
            work = asyncio.ensure_future(ask_many(lanes, 9))
            await asyncio.sleep(0.5)
            lanes.width = 4
            await work
            return backend.peak, now_s()

    # The first ends at 1; three start at 0.5, the fifth at 1, three at 1.5, and the ninth at 2, when the fifth ends.
    assert run_virtual(main) == (4, 3.0)


def test_the_critical_path_goes_before_speculative_work():
    async def main():
        backend = FakeBackend(delay_s=1.0)
        order = []

        async def ask(name, priority):
            await lanes.call(ASK, key=name, priority=priority)
            order.append(name)

        async with lanes_over(backend, width=1) as lanes, asyncio.TaskGroup() as group:
            for name, priority in [("first", 5), ("guess", 5), ("guess again", 5), ("needed", 0)]:
                group.create_task(ask(name, priority))
        return order

    assert run_virtual(main) == ["first", "needed", "guess", "guess again"]


def test_a_loser_is_dropped_by_cancelling_whoever_awaits_it():
    async def main():
        backend = FakeBackend(delay_s=10.0)
        async with lanes_over(backend, width=1) as lanes:
            running, queued = (asyncio.create_task(lanes.call(ASK)) for _ in range(2))
            await asyncio.sleep(1.0)
            queued.cancel()
            running.cancel()
            await asyncio.wait([running, queued])
            assert running.cancelled()
            assert queued.cancelled()
            assert (backend.running, lanes.in_flight, lanes.waiting) == (0, 0, 0)
            await lanes.call(ASK)  # the lane is free again
            return [(span.outcome, span.started_ns is None) for span in lanes.spans]

    assert run_virtual(main) == [(Outcome.CANCELLED, True), (Outcome.CANCELLED, False), (Outcome.OK, False)]


def test_leaving_the_block_cancels_everything_and_leaves_no_task():
    async def main():
        backend = FakeBackend(delay_s=10.0)
        async with lanes_over(backend, width=2) as lanes:
            callers = [asyncio.create_task(lanes.call(ASK)) for _ in range(5)]
            await asyncio.sleep(1.0)
        assert backend.running == 0
        assert backend.cancelled == 2
        await asyncio.wait(callers)
        assert all(caller.cancelled() for caller in callers)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return len(lanes.spans)

    assert run_virtual(main) == 5


def test_leaving_the_block_cancels_in_the_order_of_offering():
    """The same seed gives the same trace: no order may come from where the tasks lie in memory."""

    async def main():
        async with lanes_over(FakeBackend(delay_s=10.0), width=20) as lanes:
            callers = [asyncio.create_task(lanes.call(ASK, key=f"{number:02}")) for number in range(40)]
            await asyncio.sleep(1.0)
        await asyncio.wait(callers)
        return [span.key for span in lanes.spans]

    assert run_virtual(main) == [f"{number:02}" for number in range(40)]


def test_leaving_by_an_exception_does_the_same_and_lets_it_rise():
    async def main():
        backend = FakeBackend(delay_s=10.0)
        with pytest.raises(KeyError):
            async with lanes_over(backend) as lanes:
                caller = asyncio.create_task(lanes.call(ASK))
                await asyncio.sleep(1.0)
                raise KeyError("the job's own")
        await asyncio.wait([caller])
        return caller.cancelled(), backend.running

    assert run_virtual(main) == (True, 0)


def test_a_call_outside_the_block_is_a_mistake():
    async def main():
        lanes = lanes_over(FakeBackend())
        with pytest.raises(RuntimeError, match="async with"):
            await lanes.call(ASK)

    run_virtual(main)


@pytest.mark.parametrize("seed", range(20))
def test_calls_cancelled_at_any_moment_leave_every_lane_free(seed):
    async def main():
        rng = random.Random(seed)
        backend = FakeBackend(
            lambda _request, _number: Scripted(
                answer=rng.choice(["ok", errors.ServerFailed("x"), errors.ServerOverloaded("x")]), delay_s=rng.random()
            )
        )
        async with lanes_over(backend, width=3, pool_tokens=100) as lanes:
            callers = [asyncio.create_task(lanes.call(ASK, priority=rng.randrange(3))) for _ in range(30)]
            for _ in callers:
                await asyncio.sleep(rng.random() * 0.3)
                if rng.random() < 0.5:
                    rng.choice(callers).cancel()
            await asyncio.wait(callers)
            assert (lanes.in_flight, lanes.waiting, backend.running) == (0, 0, 0)
            assert lanes._queue.admission.tokens_in_flight == 0
            assert lanes._ledger.reserved == 0
            assert sorted(span.key for span in lanes.spans) == sorted(f"call-{number}" for number in range(30))
            assert backend.peak <= 3
            return [(span.key, span.ended_ns, span.outcome, span.attempts) for span in lanes.spans]

    assert run_virtual(main) == run_virtual(main)  # same seed, same trace


# --- tokens in flight


def test_tokens_in_flight_stay_within_the_servers_pool():
    async def main():
        backend = FakeBackend(delay_s=1.0)
        request = ChatRequest(prompt="x", max_tokens=90, prompt_tokens_estimate=10)
        async with lanes_over(backend, width=16, pool_tokens=450) as lanes:
            await asyncio.gather(*(lanes.call(request) for _ in range(16)))
            return backend.peak

    assert run_virtual(main) == 4


def test_an_overflow_lowers_the_bound_and_every_call_it_failed_is_sent_again():
    async def main():
        limit = 5

        def answer(_request, _number):
            # The pool holds five of these calls; a sixth fails everybody in flight.
            return errors.PoolOverflow("kv full") if backend.running >= limit else "ok"

        backend = FakeBackend(answer, delay_s=1.0)
        request = ChatRequest(prompt="x", max_tokens=90, prompt_tokens_estimate=10)
        async with lanes_over(backend, width=8, pool_tokens=800) as lanes:
            replies = await asyncio.gather(*(lanes.call(request) for _ in range(24)))
            kinds = {incident.kind for incident in lanes.incidents}
            return len(replies), lanes.pool_tokens < 600, kinds, lanes.incidents[0].width

    assert run_virtual(main) == (24, True, {IncidentKind.POOL_OVERFLOW}, 8)


# --- retries


def test_a_passing_fault_is_retried_and_the_partial_answer_forgotten():
    async def main():
        backend = FakeBackend([errors.ConnectionLost("cut", partial=reply("hal")), "whole"])
        async with lanes_over(backend) as lanes:
            answer = await lanes.call(ASK)
            return answer.text, lanes.spans[0].attempts, lanes.spans[0].outcome

    assert run_virtual(main) == ("whole", 2, Outcome.OK)


def test_a_lane_is_free_for_others_while_a_failed_call_waits():
    async def main():
        backend = FakeBackend([errors.ServerFailed("x", retry_after_s=None), "b", "a"], delay_s=0.001)
        policy = RetryPolicy(first_wait_s=100.0, longest_wait_s=100.0)
        async with lanes_over(backend, width=1, retry=policy) as lanes:
            await asyncio.gather(lanes.call(ASK, key="a"), lanes.call(ASK, key="b"))
            return [span.key for span in lanes.spans], [span.lane for span in lanes.spans]

    # Two calls were open at the same time, so they have two rows of the timeline.
    assert run_virtual(main) == (["b", "a"], [1, 0])


def test_a_permanent_fault_is_not_retried_and_names_the_call():
    async def main():
        backend = FakeBackend([errors.ContextOverflow("too long")])
        async with lanes_over(backend) as lanes:
            with pytest.raises(errors.ContextOverflow) as caught:
                await lanes.call(ASK, key="long one")
            return caught.value.request_id, len(backend.requests), lanes.spans[0].error

    assert run_virtual(main) == ("long one", 1, "context_overflow")


def test_attempts_are_bounded():
    async def main():
        backend = FakeBackend([errors.ServerFailed("x")])
        async with lanes_over(backend) as lanes:
            with pytest.raises(errors.ServerFailed):
                await lanes.call(ASK)
            return len(backend.requests), lanes.spans[0].attempts

    assert run_virtual(main) == (5, 5)


def test_a_stale_connection_costs_no_time_and_no_charge_even_when_retries_are_off():
    async def main():
        backend = FakeBackend([errors.StaleConnection("x"), "ok"])
        async with lanes_over(backend, retry=ONCE) as lanes:
            await lanes.call(ASK)
            return now_s(), lanes.spans[0].attempts, lanes.incidents

    assert run_virtual(main) == (0.0, 2, [])


def test_retry_after_holds_all_lanes_of_the_server():
    async def main():
        backend = FakeBackend([errors.ServerOverloaded("busy", retry_after_s=30.0), "ok"], delay_s=0.1)
        sent_s = []
        original = backend.complete

        async def complete(request, observe=None):
            sent_s.append(now_s())
            return await original(request, observe)

        backend.complete = complete
        async with lanes_over(backend, width=1) as lanes:
            await ask_many(lanes, 3)
            return sent_s

    first, *later = run_virtual(main)
    assert first == 0.0
    assert len(later) == 3
    assert min(later) >= 30.1


def test_an_overload_lowers_the_width_and_says_which_width_it_was():
    async def main():
        def answer(_request, _number):
            return errors.ServerOverloaded("queue full") if backend.running > 4 else "ok"

        backend = FakeBackend(answer, delay_s=1.0)
        async with lanes_over(backend, width=16) as lanes:
            results = await ask_many(lanes, 64)
            assert all(result.text == "ok" for result in results)
            first = lanes.incidents[0]
            return first.kind, first.width, first.new_width, lanes.current_width < 16, lanes.width

    # `running` falls while the 16 end one after the other, so the last four of them are served.
    assert run_virtual(main) == (IncidentKind.OVERLOADED, 16, 8, True, 16)


def test_a_measuring_run_never_changes_its_width():
    async def main():
        backend = FakeBackend([errors.ServerOverloaded("x")])
        async with lanes_over(backend, width=16, retry=ONCE) as lanes:
            await ask_many(lanes, 32)
            return len(backend.requests), lanes.current_width, len(lanes.spans)

    assert run_virtual(main) == (32, 16, 32)


def test_retries_never_pass_a_tenth_of_the_requests_of_a_minute_instead_the_width_goes_down():
    async def main():
        calls = 0

        def answer(_request, _number):
            nonlocal calls
            calls += 1
            # A third of all sendings fails inside the server.
            return errors.ServerFailed("x") if calls % 3 == 0 else "ok"

        backend = FakeBackend(answer, delay_s=0.5)
        async with lanes_over(backend, width=16) as lanes:
            await ask_many(lanes, 600)
            kinds = {incident.kind for incident in lanes.incidents}
            # Sixty seconds from the start: at most 16 (one a lane) or a tenth of what was sent.
            return kinds, len(lanes.spans), lanes.current_width < 16

    kinds, ended, narrower = run_virtual(main)
    assert kinds == {IncidentKind.RETRIES_HELD_BACK}
    assert ended == 600
    assert narrower


# --- a server that goes away


def test_refused_calls_wait_behind_one_probe_and_go_on():
    async def main():
        is_up = Switch(now_s, up_from_s=20.0)
        refused = 0

        def answer(_request, _number):
            nonlocal refused
            if now_s() < 20.0:
                refused += 1
                return errors.ConnectionRefused("nobody listens")
            return "ok"

        backend = FakeBackend(answer, delay_s=0.01)
        async with lanes_over(backend, width=128, is_up=is_up) as lanes:
            results = await ask_many(lanes, 256)
            assert all(result.text == "ok" for result in results)
            attempts = {span.attempts for span in lanes.spans}
            down = [incident for incident in lanes.incidents if incident.kind is IncidentKind.SERVER_DOWN]
            return is_up.asked, refused, attempts, [(incident.width) for incident in down], now_s()

    asked, refused, attempts, widths, ended_s = run_virtual(main)
    assert asked <= 10
    assert refused == 128  # those in flight, once each
    assert attempts == {1}
    assert widths == [128]
    assert 20.0 <= ended_s < 31.0


def test_calls_lost_with_the_server_are_put_back_at_nobodys_charge():
    async def main():
        policy = RetryPolicy(max_attempts=2)

        def answer(_request, number):
            if number < 4:
                return (
                    Scripted(answer=errors.ConnectionRefused("x"), delay_s=0.0)
                    if number == 0
                    else Scripted(answer=errors.ConnectionLost("reset"), delay_s=0.2)
                )
            return Scripted(answer=errors.ServerFailed("x") if number == 4 else "ok", delay_s=0.1)

        is_up = Switch(now_s, up_from_s=5.0)
        async with lanes_over(FakeBackend(answer), width=4, is_up=is_up, retry=policy) as lanes:
            results = await ask_many(lanes, 4)
            return [getattr(result, "text", result) for result in results]

    # One more failure afterwards is still allowed: the loss was not charged.
    assert run_virtual(main) == ["ok"] * 4


def test_a_server_that_stays_away_ends_the_run_in_the_stated_time():
    async def main():
        backend = FakeBackend([errors.ConnectionRefused("x")])
        is_up = Switch(now_s, up_from_s=float("inf"))
        async with lanes_over(backend, width=2, is_up=is_up) as lanes:
            results = await ask_many(lanes, 5)
            assert all(isinstance(result, errors.ServerDown) for result in results)
            ended_s = now_s()
            with pytest.raises(errors.ServerDown):  # at once: nobody waits another two minutes
                await lanes.call(ASK)
            assert now_s() == ended_s
            return ended_s, "resume" in str(results[0]), len({id(result) for result in results})

    ended_s, resumable, errors_made = run_virtual(main)
    assert 119.0 <= ended_s <= 121.0
    assert resumable
    assert errors_made == 5


def test_a_server_that_accepts_and_refuses_by_turns_is_given_up_too():
    async def main():
        backend = FakeBackend([errors.ConnectionRefused("x")])

        async def always_up():
            return True

        async with lanes_over(backend, is_up=always_up) as lanes:
            with pytest.raises(errors.ServerDown):
                await lanes.call(ASK)
            return now_s(), len(backend.requests)

    ended_s, sent = run_virtual(main)
    assert ended_s <= 121.0
    assert sent < 25


def test_a_request_that_kills_the_engine_each_time_is_given_up():
    async def main():
        backend = FakeBackend([errors.EngineDead("EngineCore died")])
        async with lanes_over(backend) as lanes:
            with pytest.raises(errors.EngineDead):
                await lanes.call(ASK)
            return len(backend.requests), lanes.incidents[0].kind

    assert run_virtual(main) == (5, IncidentKind.SERVER_DOWN)


def test_loading_is_waited_for_and_is_no_error():
    async def main():
        def answer(_request, _number):
            return errors.ServerLoading("loading") if now_s() < 300.0 else "ok"

        async with lanes_over(FakeBackend(answer)) as lanes:
            await lanes.call(ASK)
            return lanes.spans[0].outcome, [incident.kind for incident in lanes.incidents][:1], now_s()

    outcome, kinds, ended_s = run_virtual(main)
    assert (outcome, kinds) == (Outcome.OK, [IncidentKind.LOADING])
    assert 300.0 <= ended_s <= 311.0


def test_loading_has_its_own_limit():
    async def main():
        async with lanes_over(FakeBackend([errors.ServerLoading("loading")])) as lanes:
            with pytest.raises(errors.ServerLoading, match="still loading"):
                await lanes.call(ASK)
            return now_s()

    assert 890.0 <= run_virtual(main) <= 901.0


# --- trace and warnings


def test_every_call_leaves_a_span_with_its_times_and_tokens():
    async def main():
        backend = FakeBackend(delay_s=0.5, decode_s=1.5)
        async with lanes_over(backend, width=1) as lanes:
            await asyncio.gather(lanes.call(ASK, key="plan", role="plan"), lanes.call(ASK, key="work", parent="plan"))
            return lanes.spans

    first, second = run_virtual(main)
    assert (first.key, first.role, first.parent, first.lane) == ("plan", "plan", None, 0)
    assert (first.queued_ns, first.started_ns, first.first_token_ns, first.ended_ns) == (
        0,
        0,
        500_000_000,
        2_000_000_000,
    )
    assert (first.prompt_tokens, first.output_tokens) == (8, 1)
    assert (second.parent, second.queued_ns, second.started_ns) == ("plan", 0, 2_000_000_000)
    assert second.lane == 0  # the row was free again


def test_a_failed_call_keeps_what_its_partial_answer_cost():
    async def main():
        cut = errors.Repetition("loops", partial=reply("a a a", usage=Usage(8, 300)))
        async with lanes_over(FakeBackend([cut])) as lanes:
            with pytest.raises(errors.Repetition):
                await lanes.call(ASK)
            return lanes.spans[0].output_tokens, lanes.tokens_spent, lanes.spans[0].detail

    assert run_virtual(main) == (300, 308, "loops")


def test_a_key_names_one_call():
    async def main():
        async with lanes_over(FakeBackend([errors.BadRequest("x"), "ok"])) as lanes:
            with pytest.raises(errors.BadRequest):
                await lanes.call(ASK, key="a")
            await lanes.call(ASK, key="a")  # a failed one may be made again
            with pytest.raises(errors.UsageError, match="'a'"):
                await lanes.call(ASK, key="a")

    run_virtual(main)


def test_a_cancelled_call_may_be_made_again_under_its_key():
    """As in a resumed run, where what was not finished is made anew."""

    async def main():
        async with lanes_over(FakeBackend(delay_s=1.0), width=1) as lanes:
            other = asyncio.create_task(lanes.call(ASK, key="other"))
            for wait_s in (0.5, 1.0):  # while it waits for a lane, and while it is under way
                waits = asyncio.create_task(lanes.call(ASK, key="a"))
                await asyncio.sleep(wait_s)
                waits.cancel()
                await asyncio.wait([waits])
            await other
            again = await lanes.call(ASK, key="a")
            return again.text, [(span.key, span.outcome, span.attempts) for span in lanes.spans]

    cancelled = ("a", Outcome.CANCELLED)
    assert run_virtual(main) == (
        "ok",
        [(*cancelled, 0), ("other", Outcome.OK, 1), (*cancelled, 1), ("a", Outcome.OK, 1)],
    )


def test_a_call_whose_reply_could_not_be_stored_does_not_keep_its_key():
    """Whoever asks again is told about the disk, or answered; not that the key was used."""

    class FullOnce:
        def __init__(self):
            self.full = True

        def reply(self, key):
            return None

        async def started(self, key):
            pass

        async def finished(self, span, reply):
            full, self.full = self.full, False
            if full:
                raise errors.UsageError("no space left")

    async def main():
        async with lanes_over(FakeBackend(), store=FullOnce()) as lanes:
            with pytest.raises(errors.UsageError, match="no space left"):
                await lanes.call(ASK, key="a")
            return (await lanes.call(ASK, key="a")).text

    assert run_virtual(main) == "ok"


def test_a_call_cancelled_in_the_moment_it_is_made_leaves_a_span_and_its_key():
    """Before its first step there is nothing to stop, and still it was offered."""

    async def main():
        async with lanes_over(FakeBackend()) as lanes:
            waits = asyncio.create_task(lanes.call(ASK, key="a"))
            asyncio.get_running_loop().call_soon(waits.cancel)
            await asyncio.wait([waits])
            again = await lanes.call(ASK, key="a")
            return again.text, [(span.outcome, span.attempts) for span in lanes.spans]

    assert run_virtual(main) == ("ok", [(Outcome.CANCELLED, 0), (Outcome.OK, 1)])


def test_warnings_are_collected_once_a_server_with_how_many_replies_showed_them():
    async def main():
        backend = FakeBackend([reply(warnings=["n_ignored", "not_streamed"]), reply(warnings=["n_ignored"])])
        async with lanes_over(backend) as lanes:
            await ask_many(lanes, 2)
            return dict(lanes.warnings)

    assert run_virtual(main) == {"n_ignored": 2, "not_streamed": 1}


def test_two_answers_to_one_seeded_request_are_reported():
    async def main():
        fixed = ChatRequest(prompt="x", seed=42, temperature=0)
        async with lanes_over(FakeBackend(["60", "60", "70"])) as lanes:
            await lanes.call(fixed)
            await lanes.call(fixed)
            assert dict(lanes.warnings) == {}
            await lanes.call(fixed)
            assert dict(lanes.warnings) == {"not_reproducible": 1}
            # Without a seed, or at another temperature, two answers are nothing to speak of.
            await lanes.call(ChatRequest(prompt="y", seed=42, temperature=1))

    run_virtual(main)


def test_a_server_with_too_few_slots_is_found_out():
    async def main():
        backend = FakeBackend(delay_s=0.1, decode_s=2.0, slots=4)
        async with lanes_over(backend, width=16) as lanes:
            await ask_many(lanes, 16)
            return lanes.server_width.effective, lanes.server_width.offered, set(lanes.warnings)

    assert run_virtual(main) == (4, 16, {"server_queues"})
