"""Too few slots: when it is said, what is predicted, and the one line that tells it."""

from __future__ import annotations

import pytest

from tests.measure.facts import facts, read
from tests.measure.levels import level, sweep_report
from widelane.figures import Figure, Origin, Severity
from widelane.measure.findings import slots
from widelane.measure.findings.needs import needs
from widelane.measure.findings.slot_gain import advised_slots, step_line
from widelane.measure.findings.verdict import ordinal, verdict
from widelane.measure.profile import Limit, SweepReport

CHAT, NOTHING = needs("chat", None), needs(None, None)
DEFAULT_START = facts(
    slots=4, context_per_slot=8192, context_trained=8192, pool_tokens=8192, unified_pool=True, version="b11549"
)


def gpu_sweep(places: int = 4) -> SweepReport:
    """A step of 100 ms plus 1 ms a call: 4 slots waste most of it."""
    rows = [level(n, n / (0.1 + 0.001 * n)) for n in (1, 2, places)]
    plateau = places / (0.1 + 0.001 * places)
    rows += [level(n * places, plateau, together=places, ttft_s=n * 3.0) for n in (2, 4)]
    return sweep_report(rows, Limit.SLOTS, knee=places, evidence="At most 4 calls decoded together.")


def cpu_sweep(places: int, limit: Limit) -> SweepReport:
    """A step of 2 ms plus 20 ms a call: arithmetic ends the growth at once."""
    rows = [level(n, n / (0.002 + 0.020 * n), tpot_s=0.002 + 0.020 * n) for n in (1, places // 2, places)]
    full = places / (0.002 + 0.020 * places)
    rows.append(level(places * 2, full, together=places, ttft_s=2.0, tpot_s=0.002 + 0.020 * places))
    return sweep_report(rows, limit, knee=places // 2, evidence="TPOT grew with the batch.")


def test_a_wasted_machine_is_an_error_whose_fix_names_the_slots_and_the_context_they_need() -> None:
    finding = slots.too_few_slots(DEFAULT_START, gpu_sweep(), CHAT)
    assert (finding.code, finding.severity) == ("too-few-slots", Severity.ERROR)
    assert finding.fix is not None
    # T(n) = 0.1 + 0.001 n: doubling still pays at 8 times the slots, the furthest; 32 x 4,096 tokens of a chat.
    assert finding.fix.flag == "-np 32 -c 131072"
    assert "from 8,192 to 131,072 tokens" in finding.evidence


def test_without_a_declared_use_each_slot_keeps_its_share_of_the_pool() -> None:
    finding = slots.too_few_slots(DEFAULT_START, gpu_sweep(), NOTHING)
    assert finding.fix is not None
    assert finding.fix.flag == "-np 32 -c 65536"


def test_the_gain_is_predicted_from_the_measured_steps_with_an_interval() -> None:
    finding = slots.too_few_slots(DEFAULT_START, gpu_sweep(), CHAT)
    gain = finding.gain
    assert gain is not None
    assert gain.origin is Origin.PREDICTED
    # 32 / (0.1 + 0.032) = 242.4
    assert gain.value == pytest.approx(242.4, abs=0.1)
    assert gain.low is not None
    assert gain.high is not None
    assert gain.low < 242 < gain.high
    assert gain.reason is not None
    assert "1, 2, 4 calls" in gain.reason


def test_few_slots_on_a_machine_that_is_full_anyway_are_reported_with_an_honest_gain() -> None:
    report = cpu_sweep(4, Limit.COMPUTE)
    limit, evidence = slots.limit_seen(DEFAULT_START, report)
    assert limit is Limit.SLOTS
    assert "the others waited" in evidence
    assert "TPOT grew with the batch." in evidence
    finding = slots.too_few_slots(DEFAULT_START, report, CHAT)
    assert finding.severity is Severity.WARNING
    assert "little speed is added" in finding.evidence
    assert finding.gain is not None
    # 8 / (0.002 + 0.16) = 49.4, against 48.8 now
    assert finding.gain.value == pytest.approx(49.4, abs=0.1)
    assert "add little speed: 49 tok/s predicted against 49" in verdict(DEFAULT_START, report, [finding])


@pytest.mark.parametrize("limit", [Limit.COMPUTE, Limit.SLOTS])
def test_many_slots_of_which_more_would_add_nothing_are_healthy(limit: Limit) -> None:
    plenty = facts(slots=16, context_per_slot=2048)
    report = cpu_sweep(16, limit)
    assert slots.limit_seen(plenty, report)[0] is Limit.COMPUTE
    finding = slots.too_few_slots(plenty, report, CHAT)
    assert (finding.code, finding.severity) == ("enough-slots", Severity.OK)
    assert "arithmetic ends the growth" in finding.title
    assert "more width does not pay" in verdict(plenty, report, [finding])


def test_many_slots_of_which_more_would_pay_are_too_few() -> None:
    finding = slots.too_few_slots(facts(slots=16), gpu_sweep(16), CHAT)
    assert finding.severity is Severity.ERROR


def test_slots_that_were_not_filled_are_healthy() -> None:
    report = sweep_report([level(1, 10), level(8, 78)], Limit.NOT_REACHED)
    finding = slots.too_few_slots(facts(slots=32), report, CHAT)
    assert finding.severity is Severity.OK
    assert "road is wider" in verdict(facts(slots=32), report, [finding])


@pytest.mark.parametrize("limit", [Limit.CLIENT, Limit.UNKNOWN])
def test_a_sweep_that_tells_nothing_leaves_it_unchecked(limit: Limit) -> None:
    report = sweep_report([level(1, 10), level(64, 40)], limit)
    assert slots.too_few_slots(facts(slots=32), report, CHAT).severity is Severity.NOT_CHECKED


def test_one_slot_has_no_line_to_follow_and_says_so() -> None:
    report = sweep_report([level(1, 10), level(2, 10, together=1), level(4, 10, together=1)], Limit.SLOTS)
    finding = slots.too_few_slots(facts(slots=1, context_per_slot=4096), report, CHAT)
    assert finding.severity is Severity.WARNING
    assert finding.gain is not None
    assert finding.gain.value is None
    assert finding.fix is not None
    assert finding.fix.flag == "-np 4 -c 16384"
    assert verdict(facts(slots=1), report, [finding]).startswith(
        "This server decodes one request at a time; your 2nd waits."
    )


def test_without_a_sweep_only_the_declared_width_can_say_that_slots_are_few() -> None:
    assert slots.too_few_slots(DEFAULT_START, None, CHAT).severity is Severity.NOT_CHECKED
    assert slots.too_few_slots(DEFAULT_START, None, needs("batch", None)).severity is Severity.WARNING
    assert slots.too_few_slots(facts(), None, needs("batch", None)).severity is Severity.NOT_CHECKED


def test_a_server_that_decodes_far_fewer_than_it_says_is_contradicted() -> None:
    rows = [level(1, 10), level(4, 40), level(32, 40, together=4)]
    report = sweep_report(rows, Limit.SLOTS)
    finding = slots.slots_disagree(facts(slots=16), report)
    assert finding is not None
    assert "16 slots and was seen to decode 4" in finding.title
    assert slots.slots_disagree(facts(slots=4), report) is None
    inferred = facts(slots=Figure(16, "slots", Origin.INFERRED))
    assert slots.slots_disagree(inferred, report) is None


def test_step_costs_leave_out_rows_beyond_the_slots_and_rows_the_client_spoiled() -> None:
    rows = [level(1, 10), level(2, 19), level(4, 35, spoiled=True), level(8, 19)]
    line = step_line(rows, 4)
    assert line is not None
    assert line.points == (1, 2)
    assert step_line(rows, 1) is None


def test_a_wide_interval_makes_a_wide_prediction() -> None:
    tight = step_line([level(1, 10, low=9.9, high=10.1), level(4, 36, low=35.8, high=36.2)], 4)
    loose = step_line([level(1, 10, low=8, high=12), level(4, 36, low=30, high=42)], 4)
    assert tight is not None
    assert loose is not None
    _, tight_low, tight_high = tight.tok_s(16)
    _, loose_low, loose_high = loose.tok_s(16)
    assert loose_low < tight_low < tight_high < loose_high


def test_noise_never_makes_a_step_negative() -> None:
    falling = step_line([level(1, 10), level(4, 50)], 4)  # four calls in less time than one: noise
    assert falling is not None
    value, low, high = falling.tok_s(8)
    assert 0 < low <= value <= high
    slowing = step_line([level(1, 40), level(4, 20)], 4)
    assert slowing is not None
    assert slowing.tok_s(64)[0] == pytest.approx(20)


def test_doubling_stops_where_it_no_longer_pays() -> None:
    # T(n) = 10 + 10 n ms: 4 → 80 tok/s, 8 → 88.9, 16 → 94.1: the step to 16 adds 6 %.
    line = step_line([level(n, n / (0.010 + 0.010 * n)) for n in (1, 2, 4)], 4)
    assert advised_slots(line, 4) == 8
    assert advised_slots(None, 4) == 16


def test_the_context_a_slot_should_get_is_that_of_the_use_but_never_beyond_the_training() -> None:
    split = facts(slots=4, context_per_slot=2048, context_trained=8192, unified_pool=False)
    assert slots.context_wanted(split, CHAT, 4) == 4096
    assert slots.context_wanted(split, needs("agents", None), 4) == 8192
    assert slots.context_wanted(split, needs("batch", None), 4) is None
    assert slots.context_wanted(split, NOTHING, 4) is None


@pytest.mark.parametrize(
    ("number", "word"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (5, "5th"), (11, "11th"), (17, "17th"), (22, "22nd"), (113, "113th")],
)
def test_ordinals(number: int, word: str) -> None:
    assert ordinal(number) == word


def test_the_verdict_tells_the_waiting_the_gain_and_what_to_mend_first() -> None:
    report = gpu_sweep()
    found = [slots.too_few_slots(DEFAULT_START, report, CHAT)]
    line = verdict(DEFAULT_START, report, found)
    assert line.startswith("This server decodes 4 requests at a time; your 5th waits. More slots are worth about 6.3×")
    assert "\n" not in line
    leak = slots.build.error("reasoning-leak", "Thinking is left in the answer.", "")
    assert verdict(DEFAULT_START, report, [*found, leak]).endswith("Mend first: reasoning-leak.")


def test_without_a_sweep_the_verdict_does_not_guess() -> None:
    assert verdict(DEFAULT_START, None, []) == (
        "This server decodes up to 4 requests at a time. What width is worth was not measured."
    )
    assert verdict(facts(), None, []).startswith("How many requests this server decodes at a time is not known.")


def test_a_spoiled_sweep_gives_no_verdict() -> None:
    report = sweep_report([level(1, 10, spoiled=True)], Limit.CLIENT)
    assert "no verdict" in verdict(facts(slots=read(4, "slots")), report, [])
