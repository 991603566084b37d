"""Which limit made the plateau: every recorded sweep, and servers computed from first principles."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.measure import recordings
from tests.measure.facts import facts
from tests.measure.levels import level
from tests.measure.synthetic import OUTPUT_TOKENS, served, with_failures, with_pool
from widelane.figures import Figure, Origin
from widelane.measure.decoding_cap import find_cap, gain_per_doubling
from widelane.measure.knee import find_knee
from widelane.measure.limit import Verdict, judge
from widelane.measure.profile import Level, Limit

WIDTHS = (1, 2, 4, 8, 16, 32)


def verdict(levels: list[Level], context_tokens: float = 48.0, **known: object) -> Verdict:
    known_facts = facts(**known) if known else None  # type: ignore[arg-type]
    return judge(levels, output_tokens=OUTPUT_TOKENS, context_tokens=context_tokens, facts=known_facts)


# --- recorded sweeps


def test_every_recorded_sweep_shows_the_slots_that_its_server_was_started_with(data_dir: Path) -> None:
    paths = sorted((data_dir / "fixtures" / "sweeps").glob("*.json"))
    if not paths:
        pytest.skip("no recorded sweeps in the data folder")
    for path in paths:
        recording = recordings.load(path)
        rows = recordings.rows(recording)
        stated = recordings.stated_sequences(recording)
        found = judge(rows, output_tokens=recording["max_tokens"], context_tokens=60)
        widest = max(row.concurrency for row in rows)
        if widest >= 2 * stated:
            assert (found.limit, found.slots) == (Limit.SLOTS, stated), (path.name, found)
            knee = find_knee(rows, found.slots)
            assert knee is not None
            assert knee.concurrency.value == stated, path.name
        elif widest <= stated:
            assert found.slots is None, (path.name, found)
            assert found.limit in {Limit.COMPUTE, Limit.NOT_REACHED}, (path.name, found)


def test_every_recorded_burst_decodes_as_many_together_as_there_are_places(data_dir: Path) -> None:
    for path in sorted((data_dir / "fixtures" / "sweeps").glob("*.json")):
        recording = recordings.load(path)
        stated = recordings.stated_sequences(recording)
        for row in recordings.rows(recording):
            assert row.decoding_together.value == min(row.concurrency, stated), (path.name, row.concurrency)


def test_nothing_about_a_recorded_row_is_called_impossible(data_dir: Path) -> None:
    for path in sorted((data_dir / "fixtures" / "sweeps").glob("*.json")):
        for row in recordings.rows(recordings.load(path)):
            assert row.codes == (), (path.name, row.concurrency, row.flags)


# --- slots


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 6, 8, 11])
def test_slots_are_named_when_waiting_grows_and_decoding_does_not(slots: int) -> None:
    found = verdict(served(WIDTHS, lambda batch: 0.02 + 0.0002 * batch, slots=slots))
    assert (found.limit, found.slots) == (Limit.SLOTS, slots)


def test_the_evidence_gives_the_figures() -> None:
    found = verdict(served(WIDTHS, lambda _: 0.02, slots=4), slots=4)
    assert "At most 4 calls decoded together while up to 32 were offered" in found.evidence
    assert "The server says that it has 4" in found.evidence


def test_one_wide_level_shows_slots_by_littles_law() -> None:
    # Four calls of 0.05 + 63 * 0.02 = 1.31 s: 4 / 1.31 * 1.31 = 4 hold a slot, 16 were offered.
    alone = served((1,), lambda _: 0.02)
    found = verdict([*alone, *served((16,), lambda _: 0.02, slots=4)])
    assert (found.limit, found.slots) == (Limit.SLOTS, 4)


def test_a_server_busy_with_prompts_is_no_server_with_few_slots() -> None:
    # One prompt after another, 1 s each; each call then decodes for 63 x 10 ms beside the next one's prompt. At most
    # one call decodes at a time, yet 1 call/s x (1 s + 0.63 s) = 1.63 hold a slot.
    rows = [level(1, 64 / 1.63, ttft_s=1.0, tpot_s=0.01, together=1)]
    rows += [level(width, 64.0, ttft_s=float(width), tpot_s=0.01, together=1) for width in (2, 4, 8)]
    assert find_cap(rows, OUTPUT_TOKENS) is None
    assert verdict(rows).limit is Limit.COMPUTE


def test_more_slots_read_than_seen_points_to_something_before_the_server() -> None:
    found = verdict(served(WIDTHS, lambda _: 0.02, slots=8), slots=32)
    assert (found.limit, found.slots) == (Limit.SLOTS, 8)
    assert "something before it" in found.evidence


def test_an_engine_that_waits_for_its_pool_is_suspected_of_that() -> None:
    found = verdict(served(WIDTHS, lambda _: 0.02, slots=8), slots=256, engine="vllm")
    assert found.limit is Limit.KV_POOL


def test_an_engine_whose_pool_is_read_to_be_half_empty_does_not_wait_for_it() -> None:
    rows = [with_pool(row, kv_usage=0.2) for row in served(WIDTHS, lambda _: 0.02, slots=8)]
    found = verdict(rows, slots=256, engine="vllm")
    assert (found.limit, found.slots) == (Limit.SLOTS, 8)
    assert "something before it" in found.evidence


def test_an_inferred_number_of_slots_confirms_nothing() -> None:
    inferred = facts(slots=Figure(8, "slots", Origin.INFERRED))
    found = judge(served(WIDTHS, lambda _: 0.02, slots=8), output_tokens=64, context_tokens=48, facts=inferred)
    assert "The server says" not in found.evidence


# --- compute and bandwidth


def test_a_step_that_grows_with_the_batch_is_compute_at_a_short_context() -> None:
    found = verdict(served(WIDTHS, lambda batch: 0.005 + 0.010 * batch))
    assert found.limit is Limit.COMPUTE
    assert "TPOT grew from 15 ms" in found.evidence
    assert "5 ms plus 10 ms for each sequence" in found.evidence


def test_slots_beyond_the_plateau_are_not_the_limit() -> None:
    # 16 slots, but from 4 to 16 calls each doubling brings under 5 %.
    found = verdict(served(WIDTHS, lambda batch: 0.005 + 0.010 * batch, slots=16))
    assert (found.limit, found.slots) == (Limit.COMPUTE, 16)
    assert "the plateau was there before" in found.evidence


def test_few_slots_on_a_server_that_soon_computes_at_its_limit_are_still_the_limit() -> None:
    # A small CPU model, measured: 61.5 tok/s alone, 81.4 at 4 slots. Every doubling up to there brought 15 %.
    found = verdict(served(WIDTHS, lambda batch: 0.0118 + 0.0093 * batch, slots=4))
    assert (found.limit, found.slots) == (Limit.SLOTS, 4)


def test_long_contexts_that_a_sequence_must_read_are_bandwidth() -> None:
    # 8B, 16 GB of weights read in 73 ms; 131 kB of KV a token at 32k tokens are 4.3 GB: 20 ms a sequence.
    found = verdict(
        served((*WIDTHS, 64, 128), lambda batch: 0.073 + 0.020 * batch),
        context_tokens=32_000,
        weights_bytes=16_000_000_000,
        parameters=8_000_000_000,
    )
    assert found.limit is Limit.BANDWIDTH
    assert "arithmetic is not excluded" in found.evidence


def test_known_kv_bytes_decide_it() -> None:
    rows = served((*WIDTHS, 64, 128), lambda batch: 0.010 + 0.004 * batch)
    # 1 GB of weights in 10 ms; a sequence costs 4 ms = 0.4 GB. 2000 tokens x 100 kB = 0.2 GB: not enough.
    small = {"kv_bytes_per_token": Figure(100_000, "bytes", Origin.READ)}
    assert verdict(rows, 2000, weights_bytes=1_000_000_000, extra=small).limit is Limit.COMPUTE
    # At 400 kB a token it is 0.8 GB: enough.
    large = {"kv_bytes_per_token": Figure(400_000, "bytes", Origin.READ)}
    assert verdict(rows, 2000, weights_bytes=1_000_000_000, extra=large).limit is Limit.BANDWIDTH


def test_throughput_that_still_rises_has_no_limit_yet() -> None:
    found = verdict(served(WIDTHS, lambda batch: 0.05 + 0.0005 * batch))
    assert found.limit is Limit.NOT_REACHED
    assert "at 32" in found.evidence


def test_levels_within_the_slots_ask_for_wider_ones() -> None:
    found = verdict(served((1, 2, 4), lambda _: 0.02), slots=4)
    assert found.limit is Limit.NOT_REACHED
    assert "offer more than 4" in found.evidence


def test_falling_throughput_is_a_plateau() -> None:
    # Non-monotone widths are real: 149 -> 99 tok/s from 8 to 16 slots on one build.
    rows = served((1, 2, 4, 8), lambda batch: 0.02 + 0.002 * batch)
    rows += served((16, 32), lambda batch: 0.02 + 0.010 * batch)
    assert verdict(rows).limit is Limit.COMPUTE


def test_a_flat_start_with_few_slots_does_not_acquit_them() -> None:
    # Two doublings that bring nothing may be the kernels of small batches: slots, and what was seen is said.
    found = verdict(served(WIDTHS, lambda batch: 0.0005 + 0.016 * batch, slots=4))
    assert found.limit is Limit.SLOTS
    assert "more slots may bring little" in found.evidence


def test_a_step_that_is_all_arithmetic_is_put_into_words() -> None:
    assert "as fast as the batch or faster" in verdict(served(WIDTHS, lambda batch: 0.016 * batch)).evidence


# --- the KV pool


def test_preemptions_name_the_pool() -> None:
    rows = served(WIDTHS, lambda _: 0.02, slots=8)
    rows[-1] = with_pool(rows[-1], preemptions=6)
    found = verdict(rows)
    assert found.limit is Limit.KV_POOL
    assert "6 at 32" in found.evidence


def test_no_preemption_is_no_sign() -> None:
    rows = [with_pool(row, preemptions=0, kv_usage=0.2) for row in served(WIDTHS, lambda _: 0.02, slots=8)]
    assert verdict(rows).limit is Limit.SLOTS


def test_a_full_pool_looks_like_slots_and_is_not() -> None:
    rows = [with_pool(row, kv_usage=min(1.0, row.concurrency / 8)) for row in served(WIDTHS, lambda _: 0.02, slots=8)]
    found = verdict(rows)
    assert (found.limit, found.slots) == (Limit.KV_POOL, 8)


def test_calls_failed_by_a_shared_pool_name_it() -> None:
    rows = served((1, 2, 4), lambda _: 0.02)
    rows += [with_failures(row, pool_overflow=8) for row in served((8,), lambda _: 0.02)]
    found = verdict(rows)
    assert found.limit is Limit.KV_POOL
    assert "8 at 8" in found.evidence


# --- the client, and what cannot be said


def spoiled(row: Level) -> Level:
    worn = replace(row.client, spoiled=True, cpu_share=Figure(0.8, "", Origin.MEASURED))
    return replace(row, client=worn)


def test_a_client_that_spoils_the_wide_levels_leaves_no_verdict() -> None:
    rows = served(WIDTHS, lambda _: 0.02)
    found = verdict([*rows[:4], *map(spoiled, rows[4:])])
    assert found.limit is Limit.CLIENT
    assert "levels 16, 32" in found.evidence
    assert "80% of a core" in found.evidence


def test_a_limit_that_clean_levels_show_stands() -> None:
    rows = served(WIDTHS, lambda _: 0.02, slots=4)
    found = verdict([*rows[:5], spoiled(rows[5])])
    assert (found.limit, found.slots) == (Limit.SLOTS, 4)
    assert "level 32" in found.evidence


def test_all_spoiled_is_the_client() -> None:
    assert verdict([spoiled(row) for row in served((1, 2), lambda _: 0.02)]).limit is Limit.CLIENT


def test_nothing_measured_is_unknown() -> None:
    assert verdict([]).limit is Limit.UNKNOWN


def test_a_narrow_level_that_was_as_fast_counts_against_the_slots() -> None:
    rows = [level(1, 63.0), level(4, 54.0), level(16, 66.0, together=16), level(32, 66.0, together=16)]
    gain = gain_per_doubling(rows, 16)
    assert gain is not None
    assert gain[0] == pytest.approx((66 / 63) ** 0.25)


def test_what_the_last_doublings_to_the_slots_brought() -> None:
    # Step 20 ms whatever the batch: every doubling brings nearly all of itself.
    gain = gain_per_doubling(served(WIDTHS, lambda _: 0.02, slots=8), 8)
    assert gain is not None
    assert gain[0] == pytest.approx(2.0, abs=0.01)
    assert gain_per_doubling(served((8, 16), lambda _: 0.02, slots=8), 8) is None
