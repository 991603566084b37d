"""The plan: one request in, one document out."""

from __future__ import annotations

from dataclasses import replace

from widelane.errors import UsageError
from widelane.facts.devices.device import DeviceKind
from widelane.figures import Figure, Origin, unknown
from widelane.plan import sections
from widelane.plan.choose import lanes_to_run, recommended_outlook
from widelane.plan.drafting import drafter_of
from widelane.plan.launch.choice import LaunchChoice, accelerator_of
from widelane.plan.launch.command import launch_plan
from widelane.plan.launch.llama_cpp import with_threads
from widelane.plan.levers import levers
from widelane.plan.memory_bar import memory_bar, missing_bytes
from widelane.plan.outlook import Outlook, as_stated
from widelane.plan.pool.summary import pool_summary
from widelane.plan.predicted import rate
from widelane.plan.recommend import recommendation
from widelane.plan.report import KvPoolPlan, LaunchPlan, MemoryPart, PlanReport
from widelane.plan.request import PlanRequest


def make_plan(request: PlanRequest) -> PlanReport:
    """What this machine could do with this model.

    Raises:
        UsageError: the engine, a type or a size that was asked for cannot be.
    """
    if not request.model.attention and not request.model.recurrent:
        raise UsageError(f"{request.model.name} has neither attention nor recurrent layers; there is nothing to plan")
    base = as_stated(request)
    chosen = recommended_outlook(request)
    plain = chosen.but(draft_depth=0)
    width = sections.width_plan(chosen)
    lanes = lanes_to_run(chosen)
    further = [int(width.doubling_batch.number or 0), lanes]
    return PlanReport(
        model=sections.model_summary(chosen),
        device=sections.device_summary(request),
        engine=request.engine,
        engine_version=request.engine_version,
        use=request.use,
        ceiling_tok_s=sections.ceiling(chosen),
        ceiling_read_tok_s=sections.ceiling_read(chosen),
        expected_tok_s=rate(plain.tok_s(1), plain.expected),
        drafting_tok_s=_drafting(chosen),
        draft_depth=Figure(chosen.setup.draft_depth, "tokens", Origin.PREDICTED),
        steps=sections.steps(chosen, further),
        width=width,
        prefill=sections.prefill(chosen),
        memory=_memory(chosen),
        kv_pool=_kv_pool(chosen),
        sequences_that_fit=sections.fitting(chosen),
        levers=levers(base, chosen),
        recommendation=recommendation(chosen),
        launch=launch_of(chosen),
        notes=_notes(chosen),
    )


def launch_of(outlook: Outlook) -> LaunchPlan:
    """The command that starts the server as planned."""
    request, setup, model = outlook.request, outlook.setup, outlook.setup.model
    device = request.device
    choice = LaunchChoice(
        engine=request.engine,
        version=request.engine_version,
        model=request.weights_at,
        use=request.use,
        slots=setup.slots or max(1, lanes_to_run(outlook)),
        context_tokens=longest_to_allow(outlook),
        typical_tokens=request.typical_tokens,
        pool_tokens=outlook.pool.tokens,
        pool_bytes=outlook.pool.bytes,
        kv_dtype=setup.kv_dtype,
        state_dtype=setup.state_dtype,
        draft_depth=setup.draft_depth,
        draft_model=request.draft_model,
        memory_utilization=_utilization(request),
        tool_parser=request.tool_parser,
        reasoning_parser=request.reasoning_parser,
        accelerator=accelerator_of(device),
        unified_memory=device.kind is DeviceKind.UNIFIED,
        device_count=device.count,
    )
    launch = launch_plan(model, choice)
    if request.threads is not None:
        launch = with_threads(launch, request.threads)
    missing = 0 if request.as_running else missing_bytes(outlook.budget, outlook.pool)
    if missing or outlook.pool.holds(1) < 1:
        short = f" by about {missing / 1e9:.1f} GB" if missing else ""
        doubt = f"By this plan the model does not fit on {device.name}{short}: the server will fail while it loads."
        launch = replace(launch, notes=(doubt, *launch.notes))
    return launch


def longest_to_allow(outlook: Outlook) -> int:
    """The longest request that the server is started for: as asked, or what the pool holds of it."""
    asked = outlook.request.max_tokens
    if outlook.pool.holds(asked) >= 1:
        return asked
    low, high = 0, asked
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if outlook.pool.holds(middle) >= 1 else (low, middle - 1)
    return low or asked


def _utilization(request: PlanRequest) -> float | None:
    """The share that a stated memory is of the device's, None where the engine's default is planned with."""
    if request.memory_bytes is None or request.engine not in ("vllm", "sglang"):
        return None
    return min(0.99, request.memory_bytes / request.device.memory_bytes)


def _assumed_settings(chosen: Outlook) -> str:
    """What the pool of a running server was reckoned with: another type or depth gives another number of lanes."""
    request, setup = chosen.request, chosen.setup
    said = [f"KV cache {setup.kv_dtype}{'' if request.kv_dtype else ' (assumed; --kv-dtype)'}"]
    if setup.model.is_hybrid:
        said.append(f"state {setup.state_dtype}{'' if request.state_dtype else ' (assumed; --state-dtype)'}")
    drafts = f"{setup.draft_depth} drafted tokens" if setup.draft_depth else "no drafts"
    said.append(f"{drafts}{'' if request.draft_depth is not None else ' (assumed; --draft-depth)'}")
    if request.engine == "vllm":
        served = request.served_tokens or request.max_tokens
        said.append(f"--max-model-len {served:,}{'' if request.served_tokens else ' (taken from --max-tokens)'}")
    return f"The lanes depend on what its pool is made of: {', '.join(said)}."


def _kv_pool(chosen: Outlook) -> KvPoolPlan:
    """The pool; of a running server the figure that was typed, not what the blocks come to."""
    request = chosen.request
    plan = pool_summary(chosen.pool, origin=Origin.INFERRED if request.as_running else Origin.PREDICTED)
    if request.pool_tokens is None:
        return plan
    typed = Figure(request.pool_tokens, "tokens", Origin.READ, reason="as its start log tells it")
    return replace(plan, tokens=typed, log_line_tokens=typed)


def _drafting(chosen: Outlook) -> Figure:
    request, depth = chosen.request, chosen.setup.draft_depth
    if depth:
        return rate(chosen.tok_s(1), chosen.expected, drafter_of(request).acceptance_words)
    if request.engine == "ollama":
        return unknown("tok/s", "Ollama decides by itself whether to draft", Origin.PREDICTED)
    return unknown(
        "tok/s", "planned without drafts; the lever `speculation` says what they would give", Origin.PREDICTED
    )


def _memory(chosen: Outlook) -> list[MemoryPart]:
    if chosen.request.as_running:
        return []
    return list(memory_bar(chosen.budget, chosen.pool))


def _notes(chosen: Outlook) -> list[str]:
    request, expected = chosen.request, chosen.expected
    notes = [f"Step times: {expected.words}; in nine of ten cases {expected.low:g} to {expected.high:g} times these."]
    if request.measured is not None and request.measured.doubt is not None:
        notes.append(f"Measured bandwidth: {request.measured.doubt}.")
    if request.pool_tokens is not None and request.engine == "vllm" and request.engine_version is None:
        notes.append(
            "The pool's tokens are read as the newest vLLM's log line tells them; before 0.20.1 the same line meant "
            "something else: name yours with --engine-version."
        )
    if request.as_running:
        notes.append(
            "Planned for a server that runs: its pool is as stated, and nothing of its settings is changed. "
            f"{_assumed_settings(chosen)}"
        )
    else:
        notes.append(
            "The memory that steps need is estimated; published start logs scatter by half around such figures."
        )
    longest = longest_to_allow(chosen)
    if longest < request.max_tokens:
        notes.append(
            f"The longest request that fits is {longest:,} tokens, not the {request.max_tokens:,} asked for; the "
            "command says so."
        )
    return [*notes, *chosen.lanes.notes]
