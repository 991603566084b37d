"""Which setup to recommend: the engine's defaults, changed where a change pays for the declared use.

What the user fixed stays; a server that runs already is described as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from widelane.facts.devices.device import DeviceKind
from widelane.plan.drafting import HEAD, MODEL, drafter_of
from widelane.plan.launch.changes import STATE_DTYPE_16
from widelane.plan.memory import default_sequences
from widelane.plan.outlook import Outlook, as_stated
from widelane.plan.pool.llama_cpp import AUTOMATIC_SLOTS, MOST_SLOTS
from widelane.plan.pool.ollama import DEFAULT_SLOTS, one_slot_only
from widelane.plan.report import Use
from widelane.plan.request import PlanRequest
from widelane.plan.width import doubling_batch

PAYS = 1.03
"""A change is recommended only from this gain on: below, it is within any prediction's error."""
SHARED = 0.8
"""What a rate in a shared pool of llama.cpp counts: when it is full every running call fails, so it must give more."""
SATURATED = 1.1
"""Twice the lanes must give this much more, or fewer lanes do as well."""
FILL_ROUNDS = 4
"""Slots and pool settle in two or three."""
WIDEST = 256
"""Lanes beyond this are not recommended: the default of most engines, and a full queue for any client."""
NARROW_KV = {"vllm": "fp8", "sglang": "fp8_e4m3", "llama.cpp": "q8_0", "ollama": "q8_0"}
NARROW_STATE = {"vllm": "float16", "sglang": "bfloat16"}
_SPLIT_ENGINES = ("llama.cpp", "ollama")
"""Engines that set memory aside for each slot at their start."""
_POWERS = tuple(2**exponent for exponent in range(MOST_SLOTS.bit_length()))


def default_slots(request: PlanRequest, outlook: Outlook) -> int:
    """Places that the engine starts with when it is not told."""
    if request.engine == "llama.cpp":
        return AUTOMATIC_SLOTS
    if request.engine == "ollama":
        return DEFAULT_SLOTS
    if request.engine == "vllm":
        return default_sequences(outlook.settings, request.memory_bytes or request.device.memory_bytes)
    return outlook.pool.max_sequences or WIDEST


def recommended_outlook(request: PlanRequest) -> Outlook:
    """The setup that serves the declared use best, by the predicted rate at the lanes one would run."""
    base = as_stated(request)
    if request.as_running:
        return base
    best = widened(base)
    for candidate in _narrowed(best):
        best = _better(best, widened(candidate))
    return widened(_drafting(best))


def lanes_to_run(outlook: Outlook, *, by_slots: bool = True) -> int:
    """Calls to keep in flight: what the pool surely holds, and no more than pays for the use; 0 where none fits.

    Args:
        by_slots: whether the setup's slots bound it too.
    """
    request = outlook.request
    held = min(outlook.lanes.lanes, WIDEST, (outlook.setup.slots if by_slots else None) or WIDEST)
    if request.engine == "ollama" and outlook.pool.longest_tokens < request.max_tokens and outlook.setup.slots != 1:
        return 0  # each slot would be too short for the longest call, and the slots share nothing
    if request.use is Use.INTERACTIVE:
        return min(1, held)
    return min(held, doubled_at(outlook) or held) if request.use is Use.AGENTS else _saturating(outlook, held)


def doubled_at(outlook: Outlook) -> int | None:
    """The batch at which a step takes twice as long as for one call, None where none does."""
    return doubling_batch(outlook.cost, outlook.expected.rates, context=outlook.request.typical_tokens)


def pays_beyond(outlook: Outlook, lanes: int) -> bool:
    """Whether more lanes than these would pay for the use, were there room for them."""
    if lanes >= WIDEST:
        return False
    if outlook.request.use is Use.AGENTS:
        return lanes < (doubled_at(outlook) or lanes + 1)
    return outlook.tok_s(2 * lanes) >= SATURATED * outlook.tok_s(lanes)


def most_held(outlook: Outlook) -> int:
    """Requests of the typical footprint that the memory can hold, with as many slots as that takes."""
    tokens, request = outlook.request.typical_tokens, outlook.request
    if request.as_running or request.slots is not None or request.engine not in _SPLIT_ENGINES:
        return outlook.pool.holds(tokens)
    return max(_split_if_whole(outlook.but(slots=slots)).pool.holds(tokens) for slots in _POWERS)


def value_of(outlook: Outlook) -> float:
    """Predicted tokens/s at the lanes that one would run; 0 where nothing fits."""
    lanes = lanes_to_run(outlook)
    return outlook.tok_s(lanes) if lanes else 0.0


def narrow_kv(request: PlanRequest) -> str | None:
    """The cache type of about eight bits, None where the device has no arithmetic for it."""
    device = request.device
    floats = request.engine in ("vllm", "sglang")
    # On a CPU vLLM takes it only with AVX-512, and dies while it loads without.
    if floats and (device.kind is DeviceKind.CPU or (device.fp8_flops is None and device.bf16_flops is not None)):
        return None
    return NARROW_KV[request.engine]


def narrow_state(request: PlanRequest) -> str | None:
    """The 16-bit type of a recurrent state that this engine and version takes, None where there is none."""
    wide = any(group.state_dtype == "float32" for group in request.model.recurrent)
    if not wide or (request.engine == "vllm" and not STATE_DTYPE_16.is_in(request.engine_version)):
        return None
    return NARROW_STATE.get(request.engine)


def _narrowed(best: Outlook) -> Iterator[Outlook]:
    """The same with a narrower state, a narrower cache, and both."""
    request = best.request
    state = narrow_state(request) if request.state_dtype is None else None
    kv = narrow_kv(request) if request.kv_dtype is None else None
    if state is not None:
        yield best.but(state_dtype=state)
    if kv is not None:
        yield best.but(kv_dtype=kv)
    if kv is not None and state is not None:
        yield best.but(kv_dtype=kv, state_dtype=state)


def _better(now: Outlook, then: Outlook) -> Outlook:
    """`then` where it pays, or where it lets the longest call in at all."""
    longest = now.request.max_tokens
    if then.pool.holds(longest) >= 1 > now.pool.holds(longest):
        return then
    if now.request.use is Use.INTERACTIVE:
        return now
    return then if value_of(then) > PAYS * value_of(now) else now


def widened(outlook: Outlook) -> Outlook:
    """The same with the slots that suit the use."""
    request = outlook.request
    if request.engine == "ollama" and one_slot_only(request.model):
        return outlook.but(slots=1)
    if request.slots is not None:
        return _split_if_whole(outlook.but(slots=request.slots))
    if request.use is Use.INTERACTIVE:
        return _split_if_whole(outlook.but(slots=1))
    if request.engine not in _SPLIT_ENGINES:
        return _filled(outlook)
    found = [_split_if_whole(outlook.but(slots=slots)) for slots in _slot_numbers(outlook)]
    # The fewest slots among those that are as good: each takes memory whether it is used or not.
    values = [value_of(one) * (SHARED if one.setup.unified else 1.0) for one in found]
    enough = max(values) / PAYS
    if enough == 0:
        return _split_if_whole(outlook.but(slots=1))
    return next(one for one, value in zip(found, values, strict=True) if value >= enough)


def _filled(outlook: Outlook) -> Outlook:
    """vLLM and SGLang with as many slots as the pool keeps busy: fewer slots need less memory beside the pool."""
    slots = max(1, lanes_to_run(outlook.but(slots=None)))
    for _ in range(FILL_ROUNDS):
        held = max(1, lanes_to_run(outlook.but(slots=slots), by_slots=False))
        if held <= slots:
            return outlook.but(slots=held)
        slots = held
    return outlook.but(slots=max(1, lanes_to_run(outlook.but(slots=slots))))


def _slot_numbers(outlook: Outlook) -> Sequence[int]:
    """Powers of two, as many slots as hold the longest call each, and as many as a shared pool really keeps busy."""
    shaped = [_split_if_whole(outlook.but(slots=slots)) for slots in _POWERS]
    whole = [one.pool.capacity // one.pool.need(one.request.max_tokens) for one in shaped]
    return sorted({number for number in (*_POWERS, *whole, *map(lanes_to_run, shaped)) if 1 <= number <= MOST_SLOTS})


def _split_if_whole(outlook: Outlook) -> Outlook:
    """llama.cpp with a context of its own for each slot where the longest call fits in it, else one shared pool."""
    if outlook.request.engine != "llama.cpp":
        return outlook
    split = outlook.but(unified=False)
    return split if split.pool.longest_tokens >= outlook.request.max_tokens else outlook.but(unified=True)


def _drafting(best: Outlook) -> Outlook:
    """The same with the depth of drafts that gives most, none where it does not pay or nothing drafts."""
    request = best.request
    if request.draft_depth is not None or request.engine == "ollama":
        return best
    drafter = drafter_of(request)
    if drafter.kind not in (HEAD, MODEL):
        return best
    found = [best.but(draft_depth=depth) for depth in range(1, len(drafter.acceptance) + 1)]
    chosen = max(found, key=value_of, default=best)
    return chosen if value_of(chosen) >= PAYS * value_of(best) else best


def _saturating(outlook: Outlook, held: int) -> int:
    """The fewest lanes from which twice as many give less than a tenth more; all that are held where none is."""
    lanes = 1
    while lanes * 2 <= held:
        if outlook.tok_s(lanes * 2) < SATURATED * outlook.tok_s(lanes):
            return lanes
        lanes *= 2
    return held
