"""The recommendation in words: what to run, what it gives, and why; also when width does not pay."""

from __future__ import annotations

from dataclasses import replace

from widelane.facts.devices.device import DeviceKind
from widelane.facts.weights.other_format import format_now, in_format
from widelane.figures import Figure, Origin, plural, unknown
from widelane.plan.choose import PAYS, WIDEST, lanes_to_run, most_held, pays_beyond
from widelane.plan.drafting import HEAD, NONE_NAMED, drafter_of
from widelane.plan.memory_bar import missing_bytes
from widelane.plan.outlook import Outlook
from widelane.plan.pool.ollama import one_slot_only
from widelane.plan.predicted import rate
from widelane.plan.report import Recommendation, Use

NARROWEST = 1.2
"""A gain of all lanes over one request below this is not worth the trouble."""
_SMALL_BITS = 5.5
HUB_FORMATS = ("fp8", "nvfp4", "int4")
GGML_FORMATS = ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m")
"""Weight formats from the widest to the narrowest that are in use."""


def recommendation(outlook: Outlook) -> Recommendation:
    """What to do with this model on this machine for the declared use."""
    lanes = lanes_to_run(outlook)
    if lanes == 0:
        return _does_not_fit(outlook)
    return _single(outlook) if outlook.request.use is Use.INTERACTIVE else _wide(outlook, lanes)


def smallest(outlook: Outlook) -> Outlook:
    """One session as fast as this machine can: four-bit weights and the drafts that pay, on the engine that suits."""
    request = outlook.request
    ggml = request.engine == "ollama" or request.device.kind is not DeviceKind.GPU or request.engine == "llama.cpp"
    engine = "llama.cpp" if ggml else request.engine
    word = "q4_k_m" if ggml else "nvfp4" if request.device.fp4_flops else "int4"
    model = outlook.setup.model
    bits = format_now(model).experts if model.experts else format_now(model).mlps
    small = model if bits <= _SMALL_BITS else in_format(model, word)
    version = request.engine_version if engine == request.engine else None
    asked = replace(request, engine=engine, engine_version=version, model=small, kv_dtype=None, state_dtype=None)
    plain = Outlook(request=asked, setup=replace(outlook.setup, model=small, kv_dtype="auto", state_dtype="auto"))
    depths = range(len(drafter_of(asked).acceptance) + 1)
    return max((plain.but(draft_depth=depth) for depth in depths), key=lambda one: one.tok_s(1))


def _single(outlook: Outlook) -> Recommendation:
    best = smallest(outlook)
    drafter = drafter_of(best.request)
    here, there = outlook.tok_s(1), best.tok_s(1)
    # What rests on an assumed acceptance is told beside the figure, never as the figure.
    shown_as = outlook if outlook.request.acceptance else outlook.but(draft_depth=0)
    shown = rate(shown_as.tok_s(1), outlook.expected)
    drafted = rate(here, outlook.expected) if shown_as is not outlook else None
    weights = best.setup.model.weights
    how = f"{weights.quant} weights ({weights.total_bytes / 1e9:.1f} GB) on {best.request.engine}"
    if best.setup.draft_depth:
        how += f" with {plural(best.setup.draft_depth, 'token')} a step drafted by {drafter.words}"
    if there < PAYS * here:
        sentence = f"One session: run it as planned, {_with_drafts(shown, drafted)} predicted."
    else:
        sentence = (
            f"One session: the smallest weights with drafts, {how}: {rate(there, best.expected).value} tok/s "
            f"predicted, against {_with_drafts(shown, drafted)} as asked."
        )
    why = ["One request reads all its weights for every token: smaller weights and drafts are all that shorten it."]
    if best.setup.draft_depth:
        why.append(f"{drafter.acceptance_words[0].upper()}{drafter.acceptance_words[1:]}.")
    if drafter.kind == NONE_NAMED and best.setup.draft_depth:
        why.append("Name a small model of the same family with --draft-model to have its size reckoned with.")
    lanes = Figure(1, "lanes", Origin.PREDICTED, reason="one session")
    return Recommendation(sentence=sentence, lanes=lanes, expected_tok_s=shown, drafting_tok_s=drafted, why=why)


def _with_drafts(shown: Figure, drafted: Figure | None) -> str:
    return f"{shown.value} tok/s" if drafted is None else f"{shown.value} tok/s ({drafted.value} with drafts)"


def _wide(outlook: Outlook, lanes: int) -> Recommendation:
    request, plan = outlook.request, outlook.lanes
    # What rests on an assumed acceptance is told beside the figure, never as the figure.
    shown_as = outlook if request.acceptance else outlook.but(draft_depth=0)
    together, alone = shown_as.tok_s(lanes), shown_as.tok_s(1)
    gain = together / alone
    shown = rate(together, outlook.expected)
    undrafted = " without drafts" if shown_as is not outlook else ""
    if lanes == 1:
        sentence = f"One lane: width buys nothing here; {shown.value} tok/s{undrafted}."
    elif gain < NARROWEST:
        sentence = (
            f"Width does not pay here: {lanes} lanes together get {shown.value} tok/s, one alone "
            f"{rate(alone, outlook.expected).value}."
        )
    else:
        sentence = (
            f"Run {lanes} lanes: {shown.value} tok/s together{undrafted}, {gain:.1f} times one request's "
            f"{rate(alone, outlook.expected).value}; each gets {rate(together / lanes, outlook.expected).value}."
        )
    why = [_pool_words(outlook, lanes)]
    if plan.if_worst_case is not None and plan.if_worst_case < plan.lanes:
        slower = "" if plan.slower is None else f" and taken {plan.slower:.1f} times as long for the same work"
        why.append(
            f"Planned by the longest request ({request.max_tokens:,} tokens) it would have been "
            f"{plan.if_worst_case}{slower}: the limit is a fuse, not a reservation."
        )
    if outlook.setup.draft_depth:
        drafter = drafter_of(request)
        ahead = plural(outlook.setup.draft_depth, "token")
        drafted = rate(outlook.tok_s(lanes), outlook.expected).value
        why.append(
            f"With {ahead} drafted a step about {drafted} tok/s together: drafts still pay at {lanes} lanes. "
            f"{drafter.acceptance_words[0].upper()}{drafter.acceptance_words[1:]}."
        )
        if drafter.kind == HEAD and request.model.experts is not None:
            why.append("In a mixture of experts each drafted token visits further experts: measure before you keep it.")
    return Recommendation(
        sentence=sentence,
        lanes=Figure(
            lanes, "lanes", Origin.PREDICTED, low=_low(outlook, lanes), high=_high(outlook, lanes), reason=why[0]
        ),
        expected_tok_s=shown,
        drafting_tok_s=rate(outlook.tok_s(lanes), outlook.expected) if undrafted else None,
        why=why,
    )


def _pool_words(outlook: Outlook, lanes: int) -> str:
    """What the number of lanes comes from: the pool, the use, or the slots that were fixed."""
    request, plan, engine = outlook.request, outlook.lanes, outlook.request.engine
    held = outlook.pool.holds(request.typical_tokens)
    text = f"The pool holds {plural(held, 'request')} of the typical {request.typical_tokens:,} tokens"
    if engine == "ollama" and one_slot_only(request.model):
        return f"Ollama runs {request.model.architecture} one request at a time, whatever is set; llama.cpp does not."
    if request.slots is not None and lanes == request.slots:
        return f"{text}; {lanes} are run because that many slots were asked for."
    if lanes < min(plan.lanes, held) and not pays_beyond(outlook, lanes):
        limit = "a step takes twice as long there" if request.use is Use.AGENTS else "more lanes give little more"
        if lanes == WIDEST:
            limit = "engines are seldom run wider"
        return f"{text}; {lanes} are run because {limit}."
    if engine in ("llama.cpp", "ollama") and lanes == outlook.setup.slots and lanes < most_held(outlook):
        each = rate(outlook.but(draft_depth=0).tok_s(lanes) / lanes, outlook.expected).value
        return (
            f"{lanes} slots, though memory would hold more: more would hardly raise the total, and slow each request "
            f"below {each} tok/s."
        )
    if plan.lanes < held:
        return f"{text}; {min(lanes, plan.lanes)} keep the chance of a full pool below {plan.risk * 100:g} %."
    return f"{text}."


def _smaller_that_fits(outlook: Outlook) -> str:
    """The widest format of the weights with which at least one typical request fits."""
    ggml = outlook.request.engine in ("llama.cpp", "ollama")
    model = outlook.setup.model
    for word in GGML_FORMATS if ggml else HUB_FORMATS:
        small = outlook.but(model=in_format(model, word), slots=1)
        size = small.setup.model.weights.total_bytes
        if size < model.weights.total_bytes and small.pool.holds(outlook.request.typical_tokens) >= 1:
            return f"take smaller weights: --quant {word} (about {size / 1e9:.1f} GB) is the widest format that fits"
    return "more memory is needed: not even four-bit weights leave room for one request"


def _low(outlook: Outlook, lanes: int) -> float | None:
    return min(lanes, outlook.lanes.in_step, outlook.lanes.out_of_step) if lanes == outlook.lanes.lanes else None


def _high(outlook: Outlook, lanes: int) -> float | None:
    return max(outlook.lanes.in_step, outlook.lanes.out_of_step) if lanes == outlook.lanes.lanes else None


def _does_not_fit(outlook: Outlook) -> Recommendation:
    request = outlook.request
    missing = missing_bytes(outlook.budget, outlook.pool)
    size = outlook.setup.model.weights.total_bytes / 1e9
    if missing and not request.as_running:
        what = f"the weights ({size:.1f} GB) and what a step needs exceed the memory by {missing / 1e9:.1f} GB"
        todo = _smaller_that_fits(outlook)
    else:
        what = f"the pool does not hold one request of the typical {request.typical_tokens:,} tokens"
        todo = "shorten requests, narrow the cache (--kv-dtype), or take smaller weights"
    reason = f"it does not fit: {what}"
    return Recommendation(
        sentence=f"It does not fit on {request.device.name}: {what}.",
        lanes=unknown("lanes", reason, Origin.PREDICTED),
        expected_tok_s=unknown("tok/s", reason, Origin.PREDICTED),
        why=[f"To run it: {todo}."],
    )
