"""From a measured profile back to the steps that gave it."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass, replace

import pytest

from tests.measure.facts import facts
from tests.measure.levels import level
from widelane.errors import UsageError
from widelane.measure.profile import Level, Limit, Server, SweepReport, Workload, load_profile, save_profile
from widelane.sim.call import SimCall
from widelane.sim.cost_model import PromptChunk
from widelane.sim.engine import SimEngine
from widelane.sim.engine_defaults import measured_config, measured_slots
from widelane.sim.events import Finished
from widelane.sim.measured_costs import MeasuredCosts, measured_costs
from widelane.sim.simulated import simulated
from widelane.sim.spec import ProfiledServer, SimSpec, parse_sim

SPEC = SimSpec(source=parse_sim("sim:sweep.json").source)
PROMPT, OUTPUT = 20, 100


def profile(levels: list[Level], *, limit: Limit = Limit.NOT_REACHED, prompt: int = PROMPT, **known) -> SweepReport:
    return SweepReport(
        server=Server(url="http://localhost:8080", facts=facts(**known)),
        workload=Workload(prompt_tokens=prompt, output_tokens=OUTPUT, endpoint="completions", seed=1),
        levels=levels,
        knee=None,
        limit=limit,
        limit_evidence="by hand",
    )


def test_a_call_alone_tells_its_step_and_its_prompt() -> None:
    """20 ms a token; the first came after 50 ms: 30 ms for the prompt, 1.5 ms a token of it."""
    costs = measured_costs(profile([level(1, 49.26, ttft_s=0.05, tpot_s=0.02)]), slots=4)
    assert costs.decode_line(1, 70, 0).seconds(70) == pytest.approx(0.02)
    assert costs.mixed_s([PromptChunk(20, 0)], 0, 0.0, 0) == pytest.approx(0.05)
    assert costs.mixed_s([PromptChunk(40, 0)], 0, 0.0, 0) == pytest.approx(0.08)


def test_a_prompts_token_costs_at_most_what_a_further_token_costs_a_batch() -> None:
    """From 1 to 8 sequences a step grows by 1 ms a sequence: so do 20 tokens of a prompt, and 10 ms are its own."""
    levels = [level(1, 49.26, ttft_s=0.05, tpot_s=0.02), level(8, 8 / 0.0294, tpot_s=0.03)]
    costs = measured_costs(profile(levels), slots=None)
    # 8 / throughput is 29.4 ms a token and lane, of which 8 * 30 ms / 100 tokens were other calls' prompts.
    assert costs.step_at(8) == pytest.approx(0.0270)
    assert costs.prompt_token_s == pytest.approx(0.001)
    assert costs.prompt_s == pytest.approx(0.010)


def test_beyond_the_slots_every_level_tells_of_the_same_batch() -> None:
    """16 and 32 calls on 4 slots: three levels, one batch, the median of what they say."""
    levels = [level(1, 50.0, ttft_s=0.02, tpot_s=0.02)]
    levels += [level(width, 4 / step, tpot_s=step) for width, step in ((4, 0.025), (16, 0.026), (32, 0.030))]
    costs = measured_costs(profile(levels), slots=4)
    assert costs.widths == (1, 4)
    assert costs.step_at(4) == pytest.approx(0.026)


def test_between_levels_steps_lie_on_a_line_and_beyond_them_they_go_on_rising() -> None:
    costs = MeasuredCosts(
        widths=(1, 8, 10),
        step_s=(0.02, 0.03, 0.05),
        context_tokens=70,
        per_token_s=0.0,
        prompt_token_s=0.0,
        prompt_s=0.0,
    )
    assert costs.step_at(1) == 0.02
    assert costs.step_at(2) == pytest.approx(0.02 + 0.01 / 7)
    assert costs.step_at(9) == pytest.approx(0.04)  # a dip in throughput from 8 to 10 is kept as it was measured
    assert costs.step_at(12) == pytest.approx(0.07)
    falling = replace(costs, step_s=(0.02, 0.05, 0.03))
    assert falling.step_at(100) == 0.03


def test_a_token_of_context_costs_its_share_of_the_bytes_read() -> None:
    """10 GB of weights and 20 cached tokens of 50 MB are read in 22 ms: 0.1 ms for each further token."""
    known = {"weights_bytes": 10e9, "extra": {"kv_bytes_per_token": facts(slots=50e6).slots}}
    costs = measured_costs(profile([level(1, 45.0, ttft_s=0.022, tpot_s=0.022)], **known), slots=4)
    assert costs.per_token_s == pytest.approx(0.1e-3)
    line = costs.decode_line(1, 70, 0)
    assert line.seconds(70) == pytest.approx(0.022)
    assert line.seconds(1070) == pytest.approx(0.122)


def test_levels_that_failed_or_were_the_clients_own_tell_nothing() -> None:
    failed = replace(level(4, 300.0), failures={"pool_overflow": 6})
    good = level(1, 50.0, ttft_s=0.02, tpot_s=0.02)
    costs = measured_costs(profile([good, level(2, 1000.0, spoiled=True), failed, level(8, None)]), slots=None)
    assert costs.widths == (1,)
    with pytest.raises(UsageError, match="no level that can be used"):
        measured_costs(profile([failed]), slots=None)


@pytest.mark.parametrize(
    ("known", "limit", "slots"),
    [({"slots": 6}, Limit.UNKNOWN, 6), ({}, Limit.SLOTS, 4), ({}, Limit.NOT_REACHED, None)],
)
def test_slots_are_told_or_shown_or_not_known(known, limit, slots) -> None:
    report = profile([level(1, 50.0), level(16, 100.0, together=4)], limit=limit, **known)
    assert measured_slots(report) == slots
    assert measured_config(report, SPEC).slots == (slots or 256)
    assert measured_config(report, replace(SPEC, slots=9)).slots == 9


def test_a_shared_pool_of_llama_cpp_fails_everybody_and_a_split_one_reserves() -> None:
    shared = measured_config(profile([], engine="llama.cpp", pool_tokens=4096, unified_pool=True), SPEC)
    split = measured_config(profile([], engine="llama.cpp", pool_tokens=4096, unified_pool=False), SPEC)
    assert (shared.policy, shared.pool and shared.pool.capacity) == ("fail-all", 4096)
    assert (split.policy, split.pool) == ("reserve", None)


# --- the round trip: a server with known steps, swept on the engine, read back


@dataclass(frozen=True)
class Known:
    """20 ms and 0.5 ms a sequence; a prompt's token 0.4 ms, a prompt 3 ms."""

    def costs(self) -> MeasuredCosts:
        widths = tuple(range(1, 65))
        return MeasuredCosts(
            widths=widths,
            step_s=tuple(0.02 + 0.0005 * batch for batch in widths),
            context_tokens=70,
            per_token_s=0.0,
            prompt_token_s=0.0004,
            prompt_s=0.003,
        )


def swept(costs: MeasuredCosts, config, width: int, seed: int) -> Level:
    """A level of a sweep: `width` calls in flight, spread over their course, in a steady window."""
    rng = random.Random(seed)
    engine = SimEngine(config, costs, rng)
    sent, ttfts, tpots = {}, [], []

    def send(now_s: float, tokens: int) -> None:
        call_id = str(len(sent))
        sent[call_id] = now_s
        engine.submit(now_s, SimCall(id=call_id, prompt_tokens=PROMPT, output_tokens=tokens))

    for _ in range(width):
        send(0.0, rng.randint(1, OUTPUT))
    tokens_at: list[float] = []
    while len(ttfts) < 12 * width:
        now_s = engine.next_s()
        assert now_s is not None
        for event in engine.advance(now_s):
            if isinstance(event, Finished):
                times = [chunk.time_s for chunk in event.arrivals]
                tokens_at += times
                if len(times) == OUTPUT:
                    ttfts.append(times[0] - sent[event.call_id])
                    tpots.append((times[-1] - times[0]) / (OUTPUT - 1))
                send(now_s, OUTPUT)
    start_s, end_s = 0.3 * now_s, 0.8 * now_s
    rate = sum(start_s <= time_s < end_s for time_s in tokens_at) / (end_s - start_s)
    return level(width, rate, ttft_s=statistics.median(ttfts), tpot_s=statistics.median(tpots))


@pytest.mark.parametrize("slots", [4, 64])
def test_a_sweep_of_a_known_server_gives_its_steps_back(slots: int) -> None:
    known = Known().costs()
    config = measured_config(profile([], slots=slots, context_per_slot=4096), SPEC)
    levels = [swept(known, config, width, width) for width in (1, 2, 4, 8, 16, 32)]
    found = measured_costs(profile(levels, slots=slots), slots=slots)
    assert found.widths == ((1, 2, 4) if slots == 4 else (1, 2, 4, 8, 16, 32))
    for batch, step_s in zip(found.widths, found.step_s, strict=True):
        assert step_s == pytest.approx(known.step_at(batch), rel=0.03)
    assert found.prompt_token_s == pytest.approx(known.prompt_token_s, rel=0.35)
    again = [swept(found, config, width, 7 * width) for width in (4, 16)]
    for width, one in zip((4, 16), again, strict=True):
        measured = next(each for each in levels if each.concurrency == width)
        assert one.output_tok_s.number == pytest.approx(measured.output_tok_s.number, rel=0.03)


def test_a_saved_profile_is_a_server(tmp_path) -> None:
    path = tmp_path / "sweep.json"
    levels = [level(1, 49.26, ttft_s=0.05, tpot_s=0.02)]
    save_profile(profile(levels, slots=4, context_per_slot=2048, model="m", engine="llama.cpp"), path)
    server = simulated(parse_sim(f"sim:{path}?noise=0.1"), load_profile=load_profile)
    assert isinstance(server.spec.source, ProfiledServer)
    assert (server.engine, server.model_name, server.planned) == ("llama.cpp", "m", None)
    assert (server.config.slots, server.config.longest_tokens, server.config.noise) == (4, 2048, 0.1)
    assert server.cost.decode_line(1, 70, 0).seconds(70) == pytest.approx(0.02)
    with pytest.raises(UsageError, match=r"no\.json cannot be read"):
        simulated(parse_sim(f"sim:{tmp_path}/no.json"), load_profile=load_profile)
