"""From the command line of `plan` and `launch` to one `PlanReport`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from widelane.cli.console import Terminal
from widelane.cli.footprints import read_footprints
from widelane.cli.plan_checks import check_drafts, check_memory, check_state_type, check_version, check_words
from widelane.cli.profile_steps import steps_of_profile
from widelane.cli.run_dirs import user_path
from widelane.clock import SystemClock
from widelane.engines.embedded_launch import default_threads
from widelane.engines.usable_cores import usable_cores
from widelane.errors import UsageError
from widelane.facts.devices.bandwidth import measure_bandwidth
from widelane.facts.devices.device import Device, DeviceKind
from widelane.facts.devices.local import local_device
from widelane.facts.devices.measured_bandwidth import MeasuredBandwidth
from widelane.facts.devices.table import find_device
from widelane.facts.files.gguf_header import gguf_to_load
from widelane.facts.files.hub_cache import hub_dirs
from widelane.facts.files.model_folder import look_into
from widelane.facts.find_model import find_model
from widelane.facts.model import ModelFacts
from widelane.plan.footprint import ASSUMED_SPREAD, Footprint, PastCall, footprint_of, parse_footprint
from widelane.plan.launch.choice import GGUF_DRAFT_PLACEHOLDER, HUB_DRAFT_PLACEHOLDER
from widelane.plan.launch.kv_types import kv_type
from widelane.plan.make import make_plan
from widelane.plan.measured_fit import fit_of
from widelane.plan.pool.dtypes import dtype_name
from widelane.plan.report import PlanReport, Use
from widelane.plan.request import MAX_TOKENS, TYPICAL_TOKENS, PlanRequest

GB = 1e9
MOST_TOKENS = 2**31
MOST_SLOTS = 65_536
MOST_DRAFTED = 64
HUB_ENGINES = ("vllm", "sglang")
"""Engines that load a checkpoint by its name on the hub."""
ENGINE_FORMATS = {
    (engine, word): made for engine in HUB_ENGINES for word, made in (("q4", "int4"), ("q8", "fp8"), ("4bit", "int4"))
}
"""What `q4` means on an engine that runs no GGUF files: a checkpoint of as many bits."""


def plan_of(args: argparse.Namespace, env: Mapping[str, str], terminal: Terminal) -> PlanReport:
    """The plan that a command line asks for.

    Raises:
        UsageError: an option's value cannot be used, or the model or device is not known.
    """
    return make_plan(request_of(args, env, terminal))


def request_of(args: argparse.Namespace, env: Mapping[str, str], terminal: Terminal) -> PlanRequest:
    """Everything the plan is made from, read and checked."""
    _check(args)
    acceptance = _acceptance(args.acceptance)
    steps = () if args.profile is None else steps_of_profile(user_path(args.profile))
    stated = None if args.typical_tokens is None else parse_footprint(args.typical_tokens)
    past = () if args.footprints is None else read_footprints(user_path(args.footprints), terminal)
    caches = hub_dirs(env, Path(env.get("HOME") or Path.home()))
    quant = ENGINE_FORMATS.get((args.engine, (args.quant or "").lower()), args.quant)
    model = find_model(args.model, quant=quant, weights_bytes=_bytes(args.weights_gb), hub_dirs=caches)
    device, how = _device(args.device)
    measured = _measured(terminal) if args.measure_bandwidth or device.memory_bandwidth_bytes_s is None else None
    if device.memory_bandwidth_bytes_s is None and measured is not None:
        device = replace(device, memory_bandwidth_bytes_s=measured.read_bytes_s)
        how += "; its makers' bandwidth is not known, so the measured one stands for it"
    use = Use(args.use)
    engine = args.engine or _usual_engine(model, device)
    check_version(engine, args.engine_version)
    check_memory(args.memory_gb, device)
    drafter = None if args.draft_model is None else find_model(args.draft_model, hub_dirs=caches)
    running = args.kv_pool_tokens is not None or args.kv_pool_gb is not None
    longest = _longest(args.max_tokens, model, use, running=running)
    request = PlanRequest(
        model=model,
        weights_at=_weights_at(args.model, model, engine, as_published=args.quant is None and args.weights_gb is None),
        device=device,
        device_how=how,
        engine=engine,
        engine_version=args.engine_version,
        use=use,
        typical=_typical(stated, past, longest, use),
        typical_stated=stated is not None or bool(past),
        max_tokens=longest,
        max_stated=args.max_tokens is not None,
        footprints=past,
        memory_bytes=_bytes(args.memory_gb),
        kv_dtype=None if args.kv_dtype is None else kv_type(engine, args.kv_dtype),
        state_dtype=args.state_dtype,
        slots=args.slots,
        draft_depth=args.draft_depth,
        draft_model=None if drafter is None else _drafts_at(args.draft_model, drafter, engine),
        drafter=drafter,
        acceptance=acceptance,
        served_tokens=args.max_model_len,
        pool_tokens=args.kv_pool_tokens,
        pool_bytes=_bytes(args.kv_pool_gb),
        measured=measured,
        threads=_threads(engine, device) if args.device == "auto" else None,
        tool_parser=args.tool_call_parser,
        reasoning_parser=args.reasoning_parser,
    )
    check_drafts(request)
    return replace(request, fit=fit_of(request, steps)) if steps else request


def _check(args: argparse.Namespace) -> None:
    check_words(args)
    check_state_type(args.state_dtype)
    for option, value, most in (
        ("--weights-gb", args.weights_gb, 1e6),
        ("--memory-gb", args.memory_gb, 1e6),
        ("--kv-pool-gb", args.kv_pool_gb, 1e6),
        ("--max-tokens", args.max_tokens, MOST_TOKENS),
        ("--kv-pool-tokens", args.kv_pool_tokens, MOST_TOKENS),
        ("--max-model-len", args.max_model_len, MOST_TOKENS),
        ("--slots", args.slots, MOST_SLOTS),
    ):
        if value is not None and not (math.isfinite(value) and 0 < value <= most):
            raise UsageError(f"{option} {value:g}: give a number above 0 and up to {most:,.0f}")
    if args.kv_dtype is not None:
        dtype_name(args.kv_dtype)
    if args.draft_depth is not None and not 0 <= args.draft_depth <= MOST_DRAFTED:
        raise UsageError(f"--draft-depth {args.draft_depth}: give 0 (no speculation) to {MOST_DRAFTED}")
    if args.kv_pool_tokens is not None and args.kv_pool_gb is not None:
        raise UsageError("--kv-pool-tokens and --kv-pool-gb say the same thing in two ways; give one of them")
    if args.typical_tokens is not None and args.footprints is not None:
        raise UsageError("--typical-tokens and --footprints both say what a usual request holds; give one of them")


def _acceptance(text: str | None) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        shares = tuple(float(part) for part in text.split(","))
    except ValueError:
        shares = (math.nan,)
    if len(shares) > MOST_DRAFTED:
        raise UsageError(f"--acceptance names {len(shares):,} positions; drafts go to {MOST_DRAFTED} tokens at most")
    if not all(0 <= share <= 1 for share in shares):
        raise UsageError(f"--acceptance {text}: give shares between 0 and 1 by position, such as 0.84,0.6,0.39")
    return shares


def _typical(stated: Footprint | None, past: Sequence[PastCall], longest: int, use: Use) -> Footprint:
    typical = footprint_of(past) if past else stated
    if typical is None:
        mean = float(min(TYPICAL_TOKENS[use], longest))
        return Footprint(mean_tokens=mean, spread_tokens=ASSUMED_SPREAD * mean, assumed=True)
    if typical.mean_tokens > longest:
        raise UsageError(
            f"a usual request of {typical.mean_tokens:,.0f} tokens is longer than the longest one, {longest:,}; "
            "raise --max-tokens, or lower --typical-tokens"
        )
    return typical


def _longest(stated: int | None, model: ModelFacts, use: Use, *, running: bool) -> int:
    context = model.context_tokens
    if stated is None:
        return min(MAX_TOKENS[use], context or MAX_TOKENS[use])
    if context is not None and stated > context and not running:
        raise UsageError(f"--max-tokens {stated:,}: {model.name} was made for at most {context:,} tokens")
    return stated


def _device(text: str) -> tuple[Device, str]:
    if text != "auto":
        return find_device(text), "--device"
    found = local_device()
    return found.device, found.how


def _threads(engine: str, device: Device) -> int | None:
    """llama.cpp's compute threads on this CPU: more than are free make all of them wait."""
    by_cpu = engine == "llama.cpp" and device.kind is DeviceKind.CPU
    return default_threads(usable_cores()) if by_cpu else None


def _usual_engine(model: ModelFacts, device: Device) -> str:
    """llama.cpp for a GGUF file and where vLLM has no GPU to run on, else vLLM."""
    if gguf_to_load(Path(model.source)) is not None or device.kind is DeviceKind.CPU or device.name.startswith("apple"):
        return "llama.cpp"
    return "vllm"


def _weights_at(text: str, model: ModelFacts, engine: str, *, as_published: bool) -> str | None:
    """What the engine is to load: the file or folder as typed, or the name on the hub; None for a shape alone.

    Args:
        text: as typed, for the model that it names.
        as_published: whether the weights are meant as their makers publish them, in that format.
    """
    if (file := gguf_to_load(Path(model.source))) is not None:  # also the one that a folder holds
        return _as_path(file)
    if engine == "llama.cpp":
        return None  # it reads no other form
    path = Path(text)
    if path.is_dir():
        return _as_path(path)
    if path.is_file():
        folder = look_into(path.parent)
        return _as_path(path.parent) if folder.index or folder.weights else None
    return model.name if as_published and engine in HUB_ENGINES and model.name.count("/") == 1 else None


def _drafts_at(text: str, drafter: ModelFacts, engine: str) -> str:
    """The same for the model that drafts, with a placeholder for a shape alone."""
    found = _weights_at(text, drafter, engine, as_published=True)
    return found or (HUB_DRAFT_PLACEHOLDER if engine in HUB_ENGINES else GGUF_DRAFT_PLACEHOLDER)


def _as_path(path: Path) -> str:
    """As every engine takes it for a path, and none for a flag, a name on the hub or another's home."""
    return str(path) if path.is_absolute() or str(path).startswith("..") else f"./{path}"


def _measured(terminal: Terminal) -> MeasuredBandwidth:
    with terminal.progress("measuring memory bandwidth") as step:
        return measure_bandwidth(clock=SystemClock(), progress=lambda fraction: step.update(fraction))


def _bytes(gigabytes: float | None) -> int | None:
    return None if gigabytes is None else round(gigabytes * GB)
