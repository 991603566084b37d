"""Slots, counted by behaviour alone."""

import asyncio
import random

import pytest

from tests.measure.facts import facts
from widelane.clock import LoopClock
from widelane.errors import CallError, ConnectionRefused, ServerOverloaded
from widelane.figures import Figure, Origin
from widelane.measure.bursts import infer_slots, read_burst
from widelane.measure.calls import CallRecord
from widelane.testing.fake_engine import FakeEngine, FakeServer
from widelane.testing.virtual_time import run_virtual

CPU = {"step_s": lambda batch: 0.010 + 0.008 * batch, "prefill_s_per_token": 0.006}
GPU = {"step_s": lambda batch: 0.020 + 0.0001 * batch, "prefill_s_per_token": 0.0001}


def infer(
    *, tells: bool = True, forces: bool = True, seconds: float = 300.0, seed: int = 1, **server: object
) -> Figure:
    async def main() -> Figure:
        made = FakeServer(LoopClock(), **server)  # type: ignore[arg-type]
        engine = FakeEngine(made, tells=tells, forces=forces)
        return await infer_slots(made, engine, facts(), clock=LoopClock(), rng=random.Random(seed), seconds=seconds)

    return run_virtual(main)


@pytest.mark.parametrize("slots", range(1, 33))
def test_every_number_of_slots_from_1_to_32_is_found_exactly(slots: int) -> None:
    for kind in (CPU, GPU):
        found = infer(slots=slots, noise=random.Random(slots), noise_share=0.3, **kind)
        assert (found.value, found.low, found.high) == (slots, slots, slots)
        assert found.origin is Origin.INFERRED


@pytest.mark.parametrize("slots", [1, 5, 17, 32])
def test_neither_metrics_nor_a_forced_length_are_needed(slots: int) -> None:
    assert infer(slots=slots, tells=False, forces=False, natural_length=200, **CPU).value == slots


def test_speculation_does_not_confuse_it() -> None:
    assert infer(slots=8, tokens_per_step=4, **GPU).value == 8


def test_more_than_can_be_counted_is_at_least_that() -> None:
    found = infer(slots=128, **GPU)
    assert (found.value, found.low, found.high) == (40, 40, None)
    assert found.reason is not None
    assert "at least" in found.reason


def test_a_buffering_proxy_hides_the_slots() -> None:
    found = infer(slots=4, buffers=True, **CPU)
    assert found.value is None
    assert found.reason is not None
    assert "one piece" in found.reason


def test_a_server_that_sheds_load_is_counted_by_what_it_serves() -> None:
    def fails(number: int) -> CallError | None:
        return ServerOverloaded("busy") if number >= 3 and number % 4 == 3 else None

    assert infer(slots=2, fails=fails, **CPU).value == 2


def test_a_server_that_fails_everything_says_why() -> None:
    def fails(number: int) -> CallError | None:
        return ServerOverloaded("busy") if number >= 3 else None  # the three calls before the bursts are served

    found = infer(slots=2, fails=fails, **CPU)
    assert found.value is None
    assert found.reason is not None
    assert "failed" in found.reason


def test_nobody_there_is_an_error() -> None:
    with pytest.raises(ConnectionRefused):
        infer(slots=2, fails=lambda _: ConnectionRefused("nobody"), **CPU)


def test_time_that_is_up_is_no_answer_of_its_own() -> None:
    found = infer(slots=32, seconds=2.5, **CPU)
    assert found.value is None or found.high != found.low
    assert found.reason


def test_the_bursts_are_over_when_the_answer_is_there() -> None:
    async def main() -> tuple[object, set[str]]:
        server = FakeServer(LoopClock(), slots=4, **CPU)  # type: ignore[arg-type]
        await infer_slots(server, FakeEngine(server), facts(), clock=LoopClock(), rng=random.Random(1))
        await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        return server.gauges().running, {task.get_name() for task in others if task is not None}

    running, tasks = run_virtual(main)
    assert running == 0
    assert tasks <= {"fake server steps"}


# --- reading one burst


def wave(start: int, count: int, length: int = 10) -> list[CallRecord]:
    """Calls with a chunk a millisecond from `start`."""
    chunks = tuple(t * 1_000_000 for t in range(start, start + length))
    return [CallRecord(sent_ns=0, ended_ns=chunks[-1], chunk_ns=chunks, output_tokens=length)] * count


def test_waves_tell_the_slots() -> None:
    reading = read_burst([*wave(10, 3), *wave(25, 3), *wave(40, 1)])
    assert (reading.offered, reading.together, reading.before_first_end, reading.slots) == (7, 3, 3, 3)
    assert reading.clear


def test_a_burst_that_all_decode_together_has_no_slots_to_tell() -> None:
    assert read_burst(wave(10, 7)).slots is None


def test_a_first_wave_that_is_wider_than_what_decodes_together_is_not_clear() -> None:
    # Three had begun before the first of them ended, but the third only in its last instant: two decode together.
    late = CallRecord(sent_ns=0, ended_ns=30_000_000, chunk_ns=(18_800_000, 30_000_000), output_tokens=2)
    reading = read_burst([*wave(10, 2), late, *wave(31, 2)])
    assert (reading.together, reading.before_first_end, reading.clear) == (2, 3, False)


def test_failed_calls_are_not_offered_calls() -> None:
    failed = CallRecord(sent_ns=0, ended_ns=5, failure="overloaded")
    reading = read_burst([*wave(10, 2), failed, failed])
    assert (reading.offered, reading.failed, reading.slots) == (2, 2, None)
