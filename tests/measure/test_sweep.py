"""The whole sweep, on a server whose answers are known, in virtual time."""

import asyncio
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.measure.facts import facts
from widelane.clock import LoopClock
from widelane.errors import (
    BadRequest,
    CallError,
    ConnectionRefused,
    RunNotResumable,
    ServerFailed,
    UsageError,
    WrongPath,
)
from widelane.lanes.store import RunStore
from widelane.measure.options import SweepOptions, quick_options
from widelane.measure.profile import Level, Limit, SweepReport
from widelane.measure.sweep import Progress, sweep
from widelane.records import ChatRequest, Observer, Reply
from widelane.testing.fake_engine import FakeEngine, FakeServer
from widelane.testing.virtual_time import run_virtual

FLAT = {"step_s": lambda _: 0.05, "prefill_s_per_token": 0.002}
COMPUTE = {"step_s": lambda batch: 0.005 + 0.010 * batch, "prefill_s_per_token": 0.002}


class MemoryStore:
    """A store that forgets nothing, and can be made to stop the run after so many records."""

    def __init__(self, kept: Mapping[tuple[str, str], Any] | None = None, stop_after: int | None = None) -> None:
        self.kept = dict(kept or {})
        self.stop_after = stop_after

    async def put(self, kind: str, key: str, value: Any) -> None:
        assert (kind, key) not in self.kept, "a record is never overwritten"
        self.kept[kind, key] = msgspec.json.decode(msgspec.json.encode(value))
        if self.stop_after is not None and len(self.kept) >= self.stop_after:
            raise KilledError

    def items(self, kind: str) -> Mapping[str, Any]:
        return {key: value for (each, key), value in self.kept.items() if each == kind}


class KilledError(BaseException):
    """The process is gone."""


def run(
    options: SweepOptions | None = None,
    *,
    store: MemoryStore | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop_at_s: float | None = None,
    engine: Mapping[str, bool] | None = None,
    wrap: Callable[[FakeServer], Any] = lambda server: server,
    **server: object,
) -> tuple[SweepReport, float]:
    """The report, and the virtual seconds it took."""

    async def main() -> tuple[SweepReport, float]:
        made = FakeServer(LoopClock(), **server)  # type: ignore[arg-type]
        stop = asyncio.Event()
        if stop_at_s is not None:
            asyncio.get_running_loop().call_later(stop_at_s, stop.set)
        report = await sweep(
            wrap(made),
            FakeEngine(made, **(engine or {})),
            facts(),
            options or SweepOptions(),
            clock=LoopClock(),
            rng=random.Random(5),
            store=store,
            progress=progress,
            stop=stop,
        )
        return report, asyncio.get_running_loop().time()

    return run_virtual(main)


def by_width(report: SweepReport) -> dict[int, Level]:
    return {level.concurrency: level for level in report.levels}


# --- figures


def test_throughput_and_latencies_are_those_of_the_server() -> None:
    report, _ = run(SweepOptions(levels=(1, 4)), slots=4, **FLAT)
    alone, four = by_width(report)[1], by_width(report)[4]
    # Alone: 16 words x 2 ms, then 63 steps of 50 ms: 64 tokens in 3.182 s.
    assert alone.output_tok_s.value == pytest.approx(64 / 3.182, rel=0.001)
    assert alone.ttft_s.p50.value == pytest.approx(0.032, abs=0.001)
    assert alone.tpot_s.p50.value == pytest.approx(0.050, abs=0.0001)
    # Four in turn: each step still 50 ms, and four prompts of 32 ms come between in the time of one call.
    service_s = 64 * 0.05 + 4 * 0.032
    assert four.output_tok_s.value == pytest.approx(4 * 64 / service_s, rel=0.02)
    assert four.decoding_together.value == 4
    assert four.failures == {}


def test_waiting_is_that_of_the_steady_state() -> None:
    report, _ = run(SweepOptions(levels=(1, 2, 4, 8, 16), seconds=600), slots=4, **FLAT)
    rows = by_width(report)
    service_s = 4 * 64 / (rows[4].output_tok_s.number or 0)
    for width in (8, 16):
        waves = (width - 4) / 4
        assert rows[width].ttft_s.p50.value == pytest.approx(waves * service_s, rel=0.10)
        assert rows[width].tpot_s.p50.value == pytest.approx(rows[4].tpot_s.p50.value, rel=0.05)
        assert rows[width].decoding_together.value == 4
        assert rows[width].flags == ()
    assert rows[16].queue_share.number == pytest.approx(0.75, abs=0.05)


@pytest.mark.parametrize("slots", [1, 3, 4, 6, 8, 12])
def test_slots_are_the_limit_and_the_knee(slots: int) -> None:
    report, took_s = run(slots=slots, noise=random.Random(slots), **FLAT)
    assert report.limit is Limit.SLOTS
    assert report.knee is not None
    assert report.knee.concurrency.value == slots
    assert report.complete
    assert took_s <= 125


def test_a_wide_road_has_no_limit_and_no_end_yet() -> None:
    report, _ = run(SweepOptions(max_level=32), slots=64, **FLAT)
    assert report.limit is Limit.NOT_REACHED
    assert report.knee is not None
    assert (report.knee.concurrency.value, report.knee.concurrency.high) == (32, None)


def test_a_slow_processor_is_named_before_its_many_slots() -> None:
    report, _ = run(slots=16, noise=random.Random(1), **COMPUTE)
    assert report.limit is Limit.COMPUTE
    assert report.knee is not None
    assert int(report.knee.concurrency.number or 0) < 16


def test_preemption_is_read_from_the_server() -> None:
    report, _ = run(slots=16, pool_tokens=400, preempts=True, **FLAT)
    assert report.limit is Limit.KV_POOL
    assert any(level.preemptions and (level.preemptions.number or 0) > 0 for level in report.levels)


def test_a_shared_pool_that_fails_calls_ends_the_ladder() -> None:
    report, _ = run(slots=16, pool_tokens=400, **FLAT)
    assert report.limit is Limit.KV_POOL
    last = report.levels[-1]
    assert last.failures["pool_overflow"] >= 8
    assert report.knee is not None
    assert int(report.knee.concurrency.number or 0) < last.concurrency


def test_a_buffering_proxy_takes_the_latencies_and_the_verdict() -> None:
    report, _ = run(slots=4, buffers=True, **FLAT)
    assert report.limit is Limit.UNKNOWN
    assert all("buffering-proxy" in level.codes for level in report.levels)
    assert all(level.ttft_s.p50.value is None for level in report.levels)
    # The throughput is not spoiled: about 4 x 64 tokens in 3.33 s.
    assert by_width(report)[8].output_tok_s.value == pytest.approx(76, rel=0.15)


def test_speculative_tokens_are_all_counted() -> None:
    report, _ = run(SweepOptions(levels=(1, 2)), slots=4, tokens_per_step=3, **FLAT)
    # First token after 32 ms, then 63 tokens in 21 steps: 64 in 1.082 s.
    assert by_width(report)[1].output_tok_s.value == pytest.approx(64 / 1.082, rel=0.01)
    assert by_width(report)[1].tpot_s.p50.value == pytest.approx(21 * 0.05 / 63, rel=0.01)


def test_a_server_that_stops_by_itself_is_measured_on_what_it_wrote() -> None:
    report, _ = run(SweepOptions(levels=(1, 2)), slots=4, natural_length=10, engine={"forces": False}, **FLAT)
    assert "10 tokens (median) instead of 64" in report.levels[0].flags[0]


def test_figures_are_the_same_with_the_same_seed() -> None:
    first, _ = run(SweepOptions(levels=(1, 4, 8), seed=3), slots=4, noise=random.Random(9), **FLAT)
    again, _ = run(SweepOptions(levels=(1, 4, 8), seed=3), slots=4, noise=random.Random(9), **FLAT)
    assert [(row.output_tok_s, row.ttft_s, row.e2e_s) for row in first.levels] == [
        (row.output_tok_s, row.ttft_s, row.e2e_s) for row in again.levels
    ]
    assert first.workload.seed == 3


# --- time


def test_the_time_bound_holds_and_says_what_is_missing() -> None:
    report, took_s = run(SweepOptions(levels=(1, 2, 4, 8, 16, 32), seconds=5), slots=4, **FLAT)
    assert took_s <= 12  # the bound, the warm-up, and the settling after each level
    assert report.levels
    assert report.complete or "was up" in report.notes[0]


def test_wide_levels_are_not_starved() -> None:
    report, _ = run(SweepOptions(levels=(1, 2, 4, 8, 16, 32, 64), seconds=120), slots=64, **FLAT)
    assert [level.concurrency for level in report.levels] == [1, 2, 4, 8, 16, 32, 64]
    assert all(level.repeats >= 2 for level in report.levels)
    assert all(level.output_tok_s.low is not None for level in report.levels)


def test_the_quick_sweep_of_a_small_server_finds_its_slots_in_time() -> None:
    report, took_s = run(quick_options(seconds=24, seed=1), slots=4, noise=random.Random(2), **COMPUTE)
    assert took_s < 30
    assert (report.limit, [level.concurrency for level in report.levels]) == (Limit.SLOTS, [1, 2, 4, 8, 16])


# --- stopping, killing, resuming


def test_a_stopped_sweep_reports_what_it_has() -> None:
    report, took_s = run(slots=4, stop_at_s=25.0, **FLAT)
    assert took_s < 28
    assert not report.complete
    assert "stopped" in report.notes[0]
    assert report.levels


@pytest.mark.parametrize("records", [1, 2, 3, 5, 8])
def test_a_killed_sweep_goes_on_where_it_was(records: int) -> None:
    options = SweepOptions(levels=(1, 2, 4, 8), seed=1)
    killed = MemoryStore(stop_after=records)
    with pytest.raises(BaseException) as error:
        run(options, store=killed, slots=4, **FLAT)
    assert "Killed" in repr(error.value)
    resumed = MemoryStore(killed.kept)
    report, _ = run(options, store=resumed, slots=4, **FLAT)
    assert report.complete
    assert [level.concurrency for level in report.levels] == [1, 2, 4, 8]
    assert (report.limit, report.workload.seed) == (Limit.SLOTS, 1)
    assert killed.kept.items() <= resumed.kept.items()


def test_a_finished_sweep_is_not_measured_again() -> None:
    options = SweepOptions(levels=(1, 4), seed=1)
    store = MemoryStore()
    first, _ = run(options, store=store, slots=4, **FLAT)
    again, took_s = run(options, store=MemoryStore(store.kept), slots=4, **FLAT)
    assert took_s == 0
    assert list(again.levels) == list(first.levels)
    assert list(again.timeline) == ["1", "4"]


def test_records_of_something_else_are_refused() -> None:
    with pytest.raises(RunNotResumable):
        run(store=MemoryStore({("repeat", "1/0"): {"tok_s": 5}}), slots=4, **FLAT)


def test_a_full_disk_stops_the_sweep_with_one_plain_error() -> None:
    class Full(MemoryStore):
        async def put(self, kind: str, key: str, value: Any) -> None:
            if kind == "repeat":
                raise UsageError("the disk is full")

    with pytest.raises(UsageError, match="disk is full"):
        run(store=Full(), slots=4, **FLAT)


def test_the_real_store_holds_a_sweep(tmp_path: Path) -> None:
    async def main() -> tuple[SweepReport, SweepReport]:
        server = FakeServer(LoopClock(), slots=2, **FLAT)  # type: ignore[arg-type]
        options = SweepOptions(levels=(1, 2), seed=1)
        reports = []
        for _ in range(2):
            path = tmp_path / "run"
            store = (
                RunStore.open(path, clock=LoopClock(), in_thread=False)
                if path.exists()
                else RunStore.create(path, options.as_config(), clock=LoopClock(), in_thread=False)
            )
            with store:
                reports.append(
                    await sweep(
                        server,
                        FakeEngine(server),
                        facts(),
                        options,
                        clock=LoopClock(),
                        rng=random.Random(1),
                        store=store,
                    )
                )
        return reports[0], reports[1]

    first, again = run_virtual(main)
    assert list(again.levels) == list(first.levels)


# --- how the server is called


class Picky:
    """A server with only one endpoint, or one that knows no further fields."""

    def __init__(self, server: FakeServer, refuse: Callable[[ChatRequest], CallError | None]) -> None:
        self.server, self.refuse = server, refuse
        self.served: list[ChatRequest] = []

    async def complete(self, request: ChatRequest, observe: Observer | None = None) -> Reply:
        error = self.refuse(request)
        if error is not None:
            raise error
        self.served.append(request)
        return await self.server.complete(request, observe)


def picky(refuse: Callable[[ChatRequest], CallError | None]) -> tuple[SweepReport, list[ChatRequest]]:
    made: list[Picky] = []

    def wrap(server: FakeServer) -> Picky:
        made.append(Picky(server, refuse))
        return made[0]

    report, _ = run(SweepOptions(levels=(1, 2)), slots=4, wrap=wrap, **FLAT)
    return report, made[0].served


def test_without_completions_the_chat_endpoint_is_used() -> None:
    report, served = picky(lambda request: WrongPath("404") if request.prompt is not None else None)
    assert report.workload.endpoint == "chat"
    assert all(request.messages for request in served)


def test_fields_that_the_server_refuses_are_left_out_and_that_is_said() -> None:
    report, served = picky(lambda request: BadRequest("unknown field") if request.extra else None)
    assert report.workload.endpoint == "completions"
    assert all(not request.extra for request in served)
    assert "refused the fields" in report.notes[0]


def test_a_server_that_answers_nothing_raises_its_first_failure() -> None:
    with pytest.raises(ServerFailed, match="first"):
        picky(lambda request: ServerFailed("first" if request.prompt is not None and request.extra else "later"))


def test_nobody_there_is_not_tried_four_times() -> None:
    asked: list[ChatRequest] = []

    def refuse(request: ChatRequest) -> CallError:
        asked.append(request)
        return ConnectionRefused("nobody listens")

    with pytest.raises(ConnectionRefused):
        picky(refuse)
    assert len(asked) == 1


def test_calls_that_fail_now_and_then_are_counted_and_the_level_goes_on() -> None:
    def fails(number: int) -> CallError | None:
        return ServerFailed("now and then") if number > 10 and number % 9 == 0 else None

    report, _ = run(SweepOptions(levels=(4,), min_repeats=6), slots=4, fails=fails, **FLAT)
    row = report.levels[0]
    assert row.failures["server_failed"] >= 1
    assert row.output_tok_s.value is not None
    assert report.complete


def test_a_level_in_which_everything_fails_ends_early_and_is_shown() -> None:
    def fails(number: int) -> CallError | None:
        return ServerFailed("dead") if number >= 8 else None

    report, took_s = run(SweepOptions(levels=(1, 4)), slots=4, fails=fails, **FLAT)
    assert took_s < 30
    row = by_width(report)[4]
    assert row.failures["server_failed"] >= 3
    assert row.output_tok_s.value is None
    assert any("ended early" in note for note in report.notes)


# --- beside


def test_progress_tells_plain_values_that_only_grow() -> None:
    told: list[Progress] = []
    run(SweepOptions(levels=(1, 2, 4)), progress=told.append, slots=4, **FLAT)
    assert told[0].level == 0
    assert {each.level for each in told} == {0, 1, 2, 4}
    fractions = [each.fraction for each in told]
    assert fractions == sorted(fractions)
    assert all(0 <= each.fraction <= 1 and each.eta_s >= 0 for each in told)
    assert any(each.tok_s for each in told)


def test_the_report_says_what_replays_it() -> None:
    report, _ = run(SweepOptions(levels=(1,), seed=11), slots=4, **FLAT)
    assert report.made["option.levels"] == "[1]"
    assert report.made["option.seed"] == "11"
    assert {"widelane", "python", "platform", "began"} <= set(report.made)


def test_the_timeline_holds_each_levels_calls_in_their_lanes() -> None:
    report, _ = run(SweepOptions(levels=(2,)), slots=4, **FLAT)
    spans = report.timeline["2"]
    assert {span.lane for span in spans} == {0, 1}
    assert all(span.role == "measure" for span in spans)
