"""One open-loop run on the simulated engine: calls arrive by the clock, whether or not earlier ones have ended."""

from __future__ import annotations

import math
import random
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from open_loop_rows import OpenLoop
from widelane.errors import UsageError
from widelane.facts.devices.device import DeviceKind
from widelane.plan.footprint import Footprint
from widelane.plan.memory import memory_budget
from widelane.plan.outlook import Outlook, as_stated
from widelane.plan.pool.make import pool_of
from widelane.plan.report import Use
from widelane.plan.request import PlanRequest
from widelane.sim.call import SimCall
from widelane.sim.config import EngineConfig
from widelane.sim.costs import PlanCosts, calibrated, plan_costs
from widelane.sim.engine import SimEngine
from widelane.sim.engine_defaults import planned_config
from widelane.sim.events import Failed, Finished
from widelane.sim.graph_sizes import vllm_graph_sizes
from widelane.sim.spec import PlannedServer, SimSpec

SPREAD = 0.4
"""Standard deviation over mean of prompt and output lengths, of which rows tell only the mean (assumed)."""
LONGEST = 32_768
"""Longest call allowed in the simulated server; no row tells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the simulated run gave; means over its calls, and medians."""

    output_tok_s: float
    tpot_s: float
    ttft_s: float
    tpot_p50_s: float
    ttft_p50_s: float
    preemptions: int


@dataclass(slots=True)
class _Call:
    """One call on its way."""

    prompt_tokens: int
    output_tokens: int
    sent_s: float = 0.0
    first_s: float = 0.0
    ended_s: float = 0.0


def run(row: OpenLoop, *, spread: float = SPREAD, seed: int = 0) -> Result:
    """The run of a row. Nothing of it is used but its arrivals, its lengths and the configuration's single request.

    Each row draws numbers of its own, so that one unlucky draw does not shift all rows alike.

    Raises:
        UsageError: the configuration cannot be, or not carry this load: the model does not fit, the pool overflows.
    """
    rng = random.Random(f"{row.id} {seed}")
    outlook = outlook_of(row)
    engine = SimEngine(config_of(row, outlook), costs_of(row, outlook), rng)
    arrivals = arrivals_of(row, rng)
    prompts, outputs = (lengths(mean, row.calls, spread, rng) for mean in (row.prompt_tokens, row.output_tokens))
    calls = [_Call(prompt, output) for prompt, output in zip(prompts, outputs, strict=True)]
    _drive(engine, calls, arrivals, row.in_flight or row.calls)
    return _result(calls, engine.gauges().preemptions)


def outlook_of(row: OpenLoop) -> Outlook:
    """The configuration as `plan/` sees it."""
    return as_stated(
        PlanRequest(
            model=row.model,
            device=row.device,
            engine=row.engine,
            engine_version=row.engine_version,
            use=Use.BATCH,
            typical=Footprint(mean_tokens=row.prompt_tokens + row.output_tokens, spread_tokens=0.0),
            max_tokens=min(LONGEST, row.model.context_tokens or LONGEST),
            kv_dtype=row.kv_dtype,
            slots=row.slots,
            draft_depth=row.draft_depth,
            acceptance=row.acceptance,
        )
    )


def costs_of(row: OpenLoop, outlook: Outlook) -> PlanCosts:
    """Step costs fed with the single request alone."""
    alone = row.alone
    return calibrated(
        plan_costs(outlook),
        step_s=alone.step_s,
        context_tokens=alone.context_tokens,
        prefill_tok_s=alone.prefill_tok_s,
        prompt_tokens=alone.prompt_tokens,
        draft_depth=row.draft_depth,
    )


def config_of(row: OpenLoop, outlook: Outlook) -> EngineConfig:
    """The engine's defaults with the flags that the row states."""
    settings = replace(outlook.settings, batched_tokens=row.step_tokens)
    budget = memory_budget(row.model, row.device, settings, utilization=row.utilization)
    pool = pool_of(row.model, settings, budget.pool_bytes)
    source = PlannedServer(device=row.device.name, model=row.model.name, engine=row.engine)
    config = planned_config(outlook, pool, SimSpec(source=source), row.acceptance)
    step_tokens = row.step_tokens or config.prefill_chunk_tokens
    graphs = config.graph_sizes
    if row.engine == "vllm" and row.device.kind is not DeviceKind.CPU:
        graphs = vllm_graph_sizes(config.slots, step_tokens, draft_depth=row.draft_depth, largest=row.largest_graph)
    return replace(config, prefill_chunk_tokens=step_tokens, graph_sizes=graphs)


def arrivals_of(row: OpenLoop, rng: random.Random) -> list[float]:
    """When each call comes, in seconds: gamma gaps scaled to end at calls / rate, as vLLM's own client does."""
    gaps = [rng.gammavariate(row.burstiness, 1.0) for _ in range(row.calls)]
    scale = row.calls / row.rate / sum(gaps)
    times, now_s = [], 0.0
    for gap in gaps:
        now_s += gap * scale
        times.append(now_s)
    return times


def lengths(mean: float, count: int, spread: float, rng: random.Random) -> list[int]:
    """Log-normal lengths with this mean, exactly but for rounding."""
    sigma = math.sqrt(math.log(1.0 + spread**2))
    drawn = [rng.lognormvariate(0.0, sigma) for _ in range(count)]
    scale = mean * count / sum(drawn)
    return [max(1, min(LONGEST // 2 - 1, round(one * scale))) for one in drawn]


def _drive(engine: SimEngine, calls: Sequence[_Call], arrivals: Sequence[float], in_flight: int) -> None:
    """Send each call when its time has come and the client may, until all have ended."""
    coming, held, flying = deque(range(len(calls))), deque[int](), 0
    while coming or held or flying:
        times = [time_s for time_s in (engine.next_s(), arrivals[coming[0]] if coming else None) if time_s is not None]
        now_s = min(times)
        for event in engine.advance(now_s):
            if isinstance(event, Failed):
                raise UsageError(f"a call failed in the simulator ({event.reason})")
            if isinstance(event, Finished):
                call = calls[int(event.call_id)]
                chunks = list(event.arrivals)
                call.first_s, call.ended_s = chunks[0].time_s, chunks[-1].time_s
                flying -= 1
        while coming and arrivals[coming[0]] <= now_s:
            held.append(coming.popleft())
        while held and flying < in_flight:
            number = held.popleft()
            call = calls[number]
            call.sent_s = now_s
            flying += 1
            engine.submit(
                now_s,
                SimCall(id=str(number), prompt_tokens=call.prompt_tokens, output_tokens=call.output_tokens),
            )


def _result(calls: Sequence[_Call], preemptions: int) -> Result:
    ttfts = [call.first_s - call.sent_s for call in calls]
    tpots = [(call.ended_s - call.first_s) / (call.output_tokens - 1) for call in calls if call.output_tokens > 1]
    length_s = max(call.ended_s for call in calls)
    return Result(
        output_tok_s=sum(call.output_tokens for call in calls) / length_s,
        tpot_s=statistics.fmean(tpots),
        ttft_s=statistics.fmean(ttfts),
        tpot_p50_s=statistics.median(tpots),
        ttft_p50_s=statistics.median(ttfts),
        preemptions=preemptions,
    )
