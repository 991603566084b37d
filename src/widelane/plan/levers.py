"""What each change would buy on this machine, one at a time from the engine's defaults, in order of gain."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from widelane.facts.weights.other_format import format_now, in_format
from widelane.figures import Figure, Origin, plural
from widelane.plan.choose import (
    PAYS,
    default_slots,
    lanes_to_run,
    most_held,
    narrow_kv,
    narrow_state,
    widened,
)
from widelane.plan.drafting import HEAD, MODEL, NONE_NAMED, drafter_of
from widelane.plan.launch.changes import draft_spellings, flash_attention_words
from widelane.plan.launch.choice import GGUF_DRAFT_PLACEHOLDER
from widelane.plan.outlook import Outlook
from widelane.plan.pool.dtypes import AUTO
from widelane.plan.predicted import factor, rate
from widelane.plan.report import Buys, Lever
from widelane.plan.speculation import losing_batch

BITS_16, BITS_8, BITS_5 = 15.0, 7.0, 5.5


def levers(base: Outlook, chosen: Outlook) -> list[Lever]:
    """Every lever that this model and engine have, the largest gain first.

    Args:
        base: the engine's defaults; chosen: what is recommended.
    """
    found = [*_weights(base), *_kv(base, chosen), *_state(base, chosen), *_slots(base, chosen), *_drafts(base, chosen)]
    return sorted(found, key=lambda lever: -(lever.gain.number or 0.0))


def smaller_format(outlook: Outlook) -> str | None:
    """The next smaller weight format that the engine runs well, None below five bits."""
    bits = format_now(outlook.setup.model).mlps if not outlook.setup.model.experts else _expert_bits(outlook)
    ggml = outlook.request.engine in ("llama.cpp", "ollama")
    if bits >= BITS_16:
        return "q8_0" if ggml else "fp8"
    if bits >= BITS_8:
        return "q4_k_m" if ggml else "nvfp4" if outlook.request.device.fp4_flops else "int4"
    return "q4_k_m" if ggml and bits > BITS_5 else None


def _expert_bits(outlook: Outlook) -> float:
    return format_now(outlook.setup.model).experts


def _weights(base: Outlook) -> Iterator[Lever]:
    word = smaller_format(base)
    if word is None:
        return
    smaller = base.but(model=in_format(base.setup.model, word))
    now, then = base.tok_s(1), smaller.tok_s(1)
    size = smaller.setup.model.weights.total_bytes / 1e9
    yield Lever(
        code="smaller-weights",
        title=f"Smaller weights: {word}, about {size:.1f} GB instead of {_gigabytes(base):.1f}",
        buys=Buys.LATENCY,
        flag=None,
        now=rate(now, base.expected),
        then=rate(then, smaller.expected),
        gain=factor(then, now, "one request, by the bytes of a step"),
        price="Another file, and some quality: compare yours before you keep it. It also leaves memory for the pool.",
        taken=False,
    )


def _kv(base: Outlook, chosen: Outlook) -> Iterator[Lever]:
    request = base.request
    if base.setup.kv_dtype != AUTO or not request.model.attention:
        return
    word = narrow_kv(request)
    narrow = base.but(kv_dtype=word or "fp8")
    yield Lever(
        code="kv-dtype",
        title="KV cache in eight bits",
        buys=Buys.CAPACITY,
        flag=_kv_flag(request.engine, word, request.engine_version),
        now=_fitting(base),
        then=_fitting(narrow),
        gain=_capacity(base, narrow),
        price=(
            "Half the bytes of each token; nearly the same answers in most models, so compare yours. Each step reads "
            f"less too: {_faster(base, narrow)}."
            if word is not None
            else f"{request.device.name} has no arithmetic for eight-bit floats: attention would have to convert, and "
            "not every kernel does."
        ),
        taken=word is not None and chosen.setup.kv_dtype == word,
    )


def _state(base: Outlook, chosen: Outlook) -> Iterator[Lever]:
    request = base.request
    if base.setup.state_dtype != AUTO or not request.model.recurrent:
        return
    word = narrow_state(request)
    if word is None:
        return
    narrow = base.but(state_dtype=word)
    flag = {"vllm": "--mamba-ssm-cache-dtype", "sglang": "--mamba-ssm-dtype"}[request.engine]
    yield Lever(
        code="state-dtype",
        title="Recurrent state in 16 bits instead of the checkpoint's float32",
        buys=Buys.CAPACITY,
        flag=f"{flag} {word}",
        now=_fitting(base),
        then=_fitting(narrow),
        gain=_capacity(base, narrow),
        price=(
            "Each request pays its state before its first token, so short requests gain most. Rounding in the state "
            f"adds up over long texts: compare yours. Each step moves less: {_faster(base, narrow)}."
        ),
        taken=chosen.setup.state_dtype == word,
    )


def _slots(base: Outlook, chosen: Outlook) -> Iterator[Lever]:
    request = base.request
    if request.slots is not None or request.as_running:
        return
    wide = widened(base)
    now, then = min(default_slots(request, base), max(1, base.lanes.lanes)), lanes_to_run(wide)
    if not now < then or wide.tok_s(then) < PAYS * base.tok_s(now):
        return
    yield Lever(
        code="slots",
        title=f"{then} requests at once instead of {now}",
        buys=Buys.THROUGHPUT,
        flag=_slots_flag(chosen),
        now=rate(base.tok_s(now), base.expected, f"{now} at once, the engine's default"),
        then=rate(wide.tok_s(then), wide.expected, f"{then} at once"),
        gain=factor(wide.tok_s(then), base.tok_s(now), "all requests together"),
        price=f"Each request then gets {wide.tok_s(then) / then:.1f} tok/s instead of {base.tok_s(1):.1f}.",
        taken=True,
    )


def _drafts(base: Outlook, chosen: Outlook) -> Iterator[Lever]:
    request = base.request
    if request.engine == "ollama" or request.draft_depth == 0:
        return
    drafter = drafter_of(request)
    depths = (
        [request.draft_depth or chosen.setup.draft_depth]
        if request.draft_depth or chosen.setup.draft_depth
        else range(1, len(drafter.acceptance) + 1)
    )
    plain = base.but(draft_depth=0)
    best = max((base.but(draft_depth=depth) for depth in depths), key=lambda one: one.tok_s(1))
    depth = best.setup.draft_depth
    loses = losing_batch(
        plain.cost, plain.expected.rates, drafter.acceptance, context=request.typical_tokens, depth=depth
    )
    until = "" if loses is None else f" From {loses} requests at once it is slower than no drafts."
    yield Lever(
        code="speculation",
        title=f"Speculation: {plural(depth, 'token')} a step by {drafter.words}",
        buys=Buys.LATENCY,
        flag=_draft_flag(base, drafter.kind, depth),
        now=rate(plain.tok_s(1), plain.expected),
        then=rate(best.tok_s(1), best.expected, drafter.acceptance_words),
        gain=factor(best.tok_s(1), plain.tok_s(1), drafter.acceptance_words),
        price=f"{drafter.acceptance_words[0].upper()}{drafter.acceptance_words[1:]}.{until}",
        taken=drafter.kind in (HEAD, MODEL) and chosen.setup.draft_depth > 0,
    )


def _fitting(outlook: Outlook) -> Figure:
    tokens = outlook.request.typical_tokens
    return Figure(
        most_held(outlook), "sequences", Origin.PREDICTED, reason=f"of {tokens:,} tokens, the typical footprint"
    )


def _capacity(base: Outlook, then: Outlook) -> Figure:
    tokens = base.request.typical_tokens
    return factor(most_held(then), most_held(base), f"sequences of {tokens:,} tokens that fit")


def _faster(base: Outlook, then: Outlook) -> str:
    lanes = max(1, min(lanes_to_run(base), lanes_to_run(then)))
    gain = then.tok_s(lanes) / base.tok_s(lanes)
    return f"{(gain - 1) * 100:.0f} % more tokens/s at {lanes} at once" if gain >= 1.005 else "next to nothing here"


def _gigabytes(outlook: Outlook) -> float:
    return outlook.setup.model.weights.total_bytes / 1e9


def _kv_flag(engine: str, word: str | None, version: str | None) -> str | None:
    if word is None:
        return None
    if engine == "llama.cpp":
        return f"-ctk {word} -ctv {word} {' '.join(flash_attention_words(version))}"
    return f"OLLAMA_KV_CACHE_TYPE={word}" if engine == "ollama" else f"--kv-cache-dtype {word}"


def _slots_flag(chosen: Outlook) -> str:
    slots, engine = chosen.setup.slots or 1, chosen.request.engine
    if engine == "llama.cpp":
        return f"-np {slots} -c {chosen.pool.tokens}"
    names = {"vllm": f"--max-num-seqs {slots}", "sglang": f"--max-running-requests {slots}"}
    return names.get(engine, f"OLLAMA_NUM_PARALLEL={slots}")


def _draft_flag(base: Outlook, kind: str, depth: int) -> str | None:
    request = base.request
    if request.engine == "llama.cpp":
        names = draft_spellings(request.engine_version)
        if kind == HEAD:
            return f"--spec-type draft-mtp {names['draft_max']} {depth}"
        drafter = shlex.quote(request.draft_model or GGUF_DRAFT_PLACEHOLDER)
        return f"{names['draft_model']} {drafter} {names['draft_max']} {depth}"
    if kind == NONE_NAMED:
        return None
    if request.engine == "vllm":
        how = {"method": "mtp"} if kind == HEAD else {"method": "draft_model", "model": request.draft_model}
        config = json.dumps({**how, "num_speculative_tokens": depth}, separators=(",", ":"))
        return f"--speculative-config {shlex.quote(config)}"
    return f"--speculative-num-steps {depth}"
