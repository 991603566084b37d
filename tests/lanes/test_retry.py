"""When a failed call is sent again."""

import random

import pytest

from widelane import errors
from widelane.lanes.retry import RetryPolicy, RetryQuota, Then, decide, resend_at_once

POLICY = RetryPolicy()


def decided(error, charged=1, policy=POLICY, seed=0):
    return decide(error, charged=charged, policy=policy, rng=random.Random(seed))


@pytest.mark.parametrize(
    ("error", "then"),
    [
        (errors.ConnectionLost("x"), Then.WAIT),
        (errors.TruncatedStream("x"), Then.WAIT),
        (errors.MalformedReply("x"), Then.WAIT),
        (errors.FirstTokenTimeout("x"), Then.WAIT),
        (errors.IdleTimeout("x"), Then.WAIT),
        (errors.ServerOverloaded("x"), Then.WAIT),
        (errors.ServerFailed("x"), Then.WAIT),
        (errors.PoolOverflow("x"), Then.WAIT),
        (errors.EmptyAnswer("x"), Then.WAIT),
        (errors.ConnectionRefused("x"), Then.WHEN_UP),
        (errors.EngineDead("x"), Then.WHEN_UP),
        (errors.ServerLoading("x"), Then.WHEN_READY),
        (errors.BadRequest("x"), Then.GIVE_UP),
        (errors.ContextOverflow("x"), Then.GIVE_UP),
        (errors.ChatTemplateFailed("x"), Then.GIVE_UP),
        (errors.Unauthorized("x"), Then.GIVE_UP),
        (errors.ModelNotFound("x"), Then.GIVE_UP),
        (errors.UnsupportedParameter("x"), Then.GIVE_UP),
        (errors.BudgetSpentOnReasoning("x"), Then.GIVE_UP),
        (errors.PromptTruncated("x"), Then.GIVE_UP),
        (errors.Repetition("x"), Then.GIVE_UP),
        (errors.ServerDown("x"), Then.GIVE_UP),
        (errors.OpenFilesLimit("x"), Then.GIVE_UP),
    ],
)
def test_each_kind_of_failure_has_its_rule(error, then):
    assert decided(error).then is then


def test_a_stale_connection_is_resent_at_once_the_first_time_only():
    stale = errors.StaleConnection("x")
    assert resend_at_once(stale, resent=False)
    assert not resend_at_once(stale, resent=True)
    assert decided(stale).then is Then.WAIT
    assert not resend_at_once(errors.ConnectionLost("x"), resent=False)


def test_attempts_are_bounded():
    assert decided(errors.ServerFailed("x"), charged=4).then is Then.WAIT
    assert decided(errors.ServerFailed("x"), charged=5).then is Then.GIVE_UP


def test_an_empty_answer_gets_one_more_try():
    assert decided(errors.EmptyAnswer("x"), charged=1).then is Then.WAIT
    assert decided(errors.EmptyAnswer("x"), charged=2).then is Then.GIVE_UP


def test_measuring_tries_once():
    for error in (errors.ServerFailed("x"), errors.ConnectionRefused("x"), errors.ServerLoading("x")):
        assert decided(error, policy=RetryPolicy.none()).then is Then.GIVE_UP


def test_waits_have_full_jitter_under_a_doubling_bound():
    policy = RetryPolicy(max_attempts=99, first_wait_s=1.0, longest_wait_s=30.0)
    for charged, bound_s in [(1, 1.0), (2, 2.0), (3, 4.0), (6, 30.0), (40, 30.0)]:
        waits = [decided(errors.ServerFailed("x"), charged, policy, seed).wait_s for seed in range(200)]
        assert 0.0 <= min(waits) < 0.1 * bound_s
        assert 0.9 * bound_s < max(waits) <= bound_s


def test_retry_after_pauses_the_whole_server_and_is_shortened_to_its_limit():
    asked = decided(errors.ServerOverloaded("x", retry_after_s=2.0))
    assert asked.pause_s == 2.0
    assert 2.0 <= asked.wait_s <= 2.5
    assert decided(errors.ServerOverloaded("x", retry_after_s=3600.0)).pause_s == 120.0
    assert decided(errors.ServerOverloaded("x", retry_after_s=-5.0)).pause_s == 0.0


def test_retries_are_at_most_a_tenth_of_the_sendings_of_a_minute():
    quota = RetryQuota(POLICY)
    for number in range(1000):
        quota.sent(number * 0.01)
    given = sum(quota.take(10.0, width=8) == 0 for _ in range(1000))
    assert given == 100


def test_a_small_run_may_retry_once_a_lane_and_ten_times_in_any_case():
    for width, allowed in [(1, 10), (64, 64)]:
        quota = RetryQuota(POLICY)
        quota.sent(0.0)
        assert sum(quota.take(1.0, width=width) == 0 for _ in range(1000)) == allowed


def test_a_held_back_retry_is_told_when_the_oldest_leaves_the_window():
    quota = RetryQuota(POLICY)
    for number in range(10):
        assert quota.take(float(number), width=1) == 0
    assert quota.take(20.0, width=1) == pytest.approx(40.0)
    assert quota.take(60.0, width=1) == 0
