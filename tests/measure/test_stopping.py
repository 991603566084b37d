"""When a level is known well enough."""

from widelane.measure.calls import CallRecord
from widelane.measure.client_watch import ClientLoad
from widelane.measure.level import Repeat
from widelane.measure.stopping import Stopping

RULE = Stopping(precision=0.05, min_repeats=3, max_repeats=5)


def repeats(*tok_s: float, steady_calls: int = 4) -> list[Repeat]:
    call = CallRecord(sent_ns=0, ended_ns=1, chunk_ns=(1,), output_tokens=1)
    return [
        Repeat(
            number=number,
            window_s=1.0,
            output_tokens=rate,
            calls=(call,) * steady_calls,
            decoding_together=1,
            unfinished=0,
            client=ClientLoad(0.0, 0.0, 0.0),
        )
        for number, rate in enumerate(tok_s)
    ]


def test_three_windows_that_agree_are_enough() -> None:
    # t(2) = 4.303, s = 1: 4.303 / sqrt(3) = 2.48 of 100.
    assert RULE.precise(repeats(99, 100, 101), concurrency=4)


def test_windows_that_stray_are_not() -> None:
    # s = 4: 9.9 of 100.
    assert not RULE.precise(repeats(96, 100, 104), concurrency=4)


def test_two_windows_are_never_enough() -> None:
    assert not RULE.precise(repeats(100, 100), concurrency=4)


def test_latencies_need_a_call_of_each_lane_or_sixteen() -> None:
    assert not RULE.precise(repeats(100, 100, 100, steady_calls=1), concurrency=4)
    assert RULE.precise(repeats(100, 100, 100, steady_calls=6), concurrency=128)


def test_calls_of_the_opening_say_nothing_about_waiting() -> None:
    opening = CallRecord(sent_ns=0, ended_ns=1, chunk_ns=(1,), output_tokens=1, opening=True)
    early = [Repeat(**{**_fields(one), "calls": (opening,) * 9}) for one in repeats(100, 100, 100)]  # type: ignore[arg-type]
    assert not RULE.precise(early, concurrency=4)


def test_all_windows_used_is_the_end_even_when_they_stray() -> None:
    assert not RULE.exhausted(repeats(50, 100, 150, 50), concurrency=4)
    assert RULE.exhausted(repeats(50, 100, 150, 50, 150), concurrency=4)


def test_waiting_for_latencies_has_an_end_too() -> None:
    assert not RULE.exhausted(repeats(*[100] * 9, steady_calls=0), concurrency=4)
    assert RULE.exhausted(repeats(*[100] * 10, steady_calls=0), concurrency=4)


def _fields(repeat: Repeat) -> dict[str, object]:
    return {name: getattr(repeat, name) for name in Repeat.__dataclass_fields__}
