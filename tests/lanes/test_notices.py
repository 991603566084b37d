"""What replies tell about their server."""

from tests.lanes.doubles import ASK, reply
from widelane.lanes.notices import Notices, is_burst
from widelane.records import CallTiming, ChatRequest


def streamed(times_s, ended_s=None, streamed=True):
    times = tuple(round(t_s * 1e9) for t_s in times_s)
    return reply(timing=CallTiming(
        sent_ns=0, headers_ns=0, first_token_ns=times[0], ended_ns=times[-1], chunk_ns=times, streamed=streamed
    ))  # fmt: skip


def test_a_stream_that_came_in_one_burst_at_its_end_was_held_back():
    assert is_burst(streamed([5.0 + 0.0001 * n for n in range(40)]))


def test_a_slow_prefill_a_short_answer_or_a_quick_call_is_no_burst():
    assert not is_burst(streamed([5.0 + 0.01 * n for n in range(40)]))  # 100 tokens/s after a long prefill
    assert not is_burst(streamed([5.0, 5.0]))
    assert not is_burst(streamed([0.01] * 40))
    assert not is_burst(streamed([5.0] * 40, streamed=False))


def test_warnings_are_counted_by_name():
    notices = Notices()
    notices.read(ASK, reply(warnings=["special_token_leak"]))
    notices.read(ASK, reply(warnings=["special_token_leak"]))
    notices.read(ASK, streamed([5.0] * 8))
    assert notices.counts == {"special_token_leak": 2, "buffered_stream": 1}


def test_only_the_very_same_seeded_request_is_compared():
    notices = Notices()
    asked = ChatRequest(prompt="x", seed=1, temperature=0)
    notices.read(asked, reply("a"))
    notices.read(ChatRequest(prompt="x", seed=2, temperature=0), reply("b"))
    notices.read(ChatRequest(prompt="x", seed=1, temperature=0, max_tokens=9), reply("c"))
    notices.read(ChatRequest(prompt="x", seed=1, temperature=0.7), reply("d"))
    assert notices.counts == {}
    notices.read(asked, reply("e"))
    assert notices.counts == {"not_reproducible": 1}
