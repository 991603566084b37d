"""What the server's memory holds: context a call, KV and state types, the shared pool, layers left on the CPU.

Facts in, findings out: nothing is asked of the server here.
"""

from __future__ import annotations

import re

from widelane.engines.advice import fix_for
from widelane.engines.server_facts import ServerFacts
from widelane.facts.model_family import has_float32_state
from widelane.figures import Figure, Finding, Origin, unknown
from widelane.measure.findings import build
from widelane.measure.findings.needs import Needs

NARROW_TYPES = re.compile(r"q8|q6|q5|q4|iq4|fp8|int8|int4|nvfp4|mxfp4|f8_|e4m3|e5m2", re.IGNORECASE)
WIDE_TYPES = re.compile(r"f32|float32|f16|float16|bf16|bfloat16|auto", re.IGNORECASE)
FLOAT32 = re.compile(r"f32|float32", re.IGNORECASE)


def small_context(facts: ServerFacts, needs: Needs) -> Finding:
    """`small-context`: one call cannot hold what the declared use needs."""
    code = "small-context"
    if needs.context_tokens is None:
        return build.not_checked(code, "no use was declared (--use, or --context N)")
    context = facts.context_per_slot.number
    if context is None:
        return build.not_checked(code, f"the context of one call is unknown: {facts.context_per_slot.reason}")
    trained = facts.context_trained.number
    evidence = f"{context:,.0f} tokens a call ({facts.context_per_slot.origin}); {needs.said}."
    if context >= needs.context_tokens:
        return build.healthy(code, f"One call may hold {context:,.0f} tokens.", evidence)
    if trained is not None and trained < needs.context_tokens:
        evidence += f" The model itself was trained for {trained:,.0f}: no flag makes it longer without loss."
    slots = int(facts.slots.number or 1)
    wanted = int(min(needs.context_tokens, trained) if trained else needs.context_tokens)
    fix = fix_for(code, facts, context=wanted, slots=slots) if wanted > context else None
    return build.warning(code, f"One call may hold {context:,.0f} tokens: too few for this use.", evidence, fix)


def kv_wider_than_needed(facts: ServerFacts, *, memory_is_short: bool) -> Finding:
    """`kv-wider-than-needed`: the KV cache could hold about twice the tokens in the same memory.

    Args:
        memory_is_short: the context, the slots or the pool is already a limit: then it is a warning.
    """
    code = "kv-wider-than-needed"
    kind = facts.kv_dtype.value
    if not isinstance(kind, str) or not kind:
        return build.not_checked(code, facts.kv_dtype.reason or "the server does not say its KV type")
    said = f"KV cache in {kind} ({facts.kv_dtype.origin})"
    if all(NARROW_TYPES.search(part) for part in kind.split("/")):
        return build.healthy(code, f"The KV cache is already narrow: {kind}.", f"{said}.")
    if not WIDE_TYPES.search(kind):
        return build.not_checked(code, f"the KV type {kind!r} is not known to this version")
    report = build.warning if memory_is_short else build.info
    return report(
        code,
        f"The KV cache takes about twice the memory it needs ({kind}).",
        f"{said}. Eight bits keep nearly the same answers in most models: compare yours before you keep it.",
        fix_for(code, facts),
        _kv_gain(facts.engine, kind),
    )


def _kv_gain(engine: str, kind: str) -> Figure:
    """Tokens in the same memory, as a factor: bytes an element now over bytes an element in eight bits."""
    now = 4.0 if FLOAT32.search(kind) else 2.0
    narrow = 34 / 32 if engine == "llama.cpp" else 1.0
    factor = now / narrow
    reason = "tokens in the same memory; less on a hybrid model, whose state blocks do not shrink with it"
    return Figure(round(factor, 2), "times the tokens", Origin.PREDICTED, 1.0, round(factor, 2), reason)


def state_float32(facts: ServerFacts) -> Finding:
    """`state-float32`: the recurrent state of a hybrid model is kept in twice the memory it needs."""
    code = "state-float32"
    kind, model = facts.state_dtype.value, str(facts.model.value or "")
    if not isinstance(kind, str) or not kind or kind == "none":
        why = facts.state_dtype.reason or "the server does not say whether the model has a recurrent state"
        return build.not_checked(code, why)
    said = f"recurrent state in {kind} ({facts.state_dtype.origin})"
    by_checkpoint = kind == "auto" and has_float32_state(model)
    if by_checkpoint:
        said = f'recurrent state "auto" (read), which for {model} means the checkpoint\'s float32 (inferred)'
    elif kind == "auto":
        return build.not_checked(code, 'the state type is "auto": what it means is in the model\'s config, not here')
    elif not FLOAT32.search(kind):
        return build.healthy(code, f"The recurrent state is in {kind}.", f"{said}.")
    if facts.engine == "llama.cpp":
        return build.info(
            code, "The recurrent state is in float32.", f"{said}; llama.cpp keeps it so and has no flag for it."
        )
    return build.warning(
        code,
        "The recurrent state is kept in float32: half the memory would do.",
        f"{said}{_conv_words(facts)}. --mamba-cache-dtype alone does not change it: it sets the small convolution "
        "part only; the large "
        "part follows --mamba-ssm-cache-dtype, whose `auto` takes the checkpoint's float32.",
        fix_for(code, facts),
        Figure(
            1.5,
            "times the tokens",
            Origin.PREDICTED,
            1.0,
            2.0,
            "KV pool in tokens; 1.51 was measured on vLLM 0.32.0 with 9 recurrent and 3 attention layers, and 2.0 "
            "is the bound when every byte of the pool is halved",
        ),
    )


def _conv_words(facts: ServerFacts) -> str:
    conv = facts.extra.get("mamba_cache_dtype")
    return f", convolution part in {conv.value}" if conv is not None and conv.value is not None else ""


def shared_pool_overflow(facts: ServerFacts) -> Finding:
    """`shared-pool-overflow`: slots that share one pool and fail together when it is full (llama.cpp's default)."""
    code = "shared-pool-overflow"
    if facts.unified_pool.value is None:
        return build.not_checked(code, facts.unified_pool.reason or "whether the slots share one pool is unknown")
    if facts.unified_pool.value is not True:
        return build.healthy(code, "A full pool does not fail running calls.", _pool_words(facts))
    slots, context = facts.slots.number, facts.context_per_slot.number
    if slots is None or context is None:
        return build.not_checked(code, "the pool is shared, but slots or context are unknown")
    pool = facts.pool_tokens.number or context
    if slots <= 1 or slots * context <= pool:
        return build.healthy(code, "The shared pool holds every slot's full context.", _pool_words(facts))
    share = int(pool // slots)
    return build.warning(
        code,
        f"{slots:.0f} slots share one pool of {pool:,.0f} tokens: when it is full, every running call fails.",
        f"{_pool_words(facts)} Each slot may grow to {context:,.0f} tokens, and there is neither queueing nor "
        f"preemption: keep calls below {share:,} tokens each, or give every slot its own part.",
        fix_for(code, facts, slots=int(slots), context=int(context)),
        unknown("tok/s", "it is worth calls that do not fail, not speed", Origin.PREDICTED),
    )


def _pool_words(facts: ServerFacts) -> str:
    kind = "shared by all slots, without preemption" if facts.unified_pool.value is True else "not shared in that way"
    return f"The KV pool is {kind} ({facts.unified_pool.origin}{_why(facts.unified_pool)})."


def _why(figure: Figure) -> str:
    return f": {figure.reason}" if figure.reason else ""


def partial_offload(facts: ServerFacts) -> Finding:
    """`partial-offload`: part of the model runs on the CPU though there is a graphics processor."""
    code = "partial-offload"
    share = offloaded_share(facts)
    if share.number is None:
        return build.not_checked(code, share.reason or "the server does not say where its layers are")
    said = f"{share.number:.0%} of the model is in the graphics processor's memory ({share.origin}{_why(share)})."
    if share.number >= 0.999:
        return build.healthy(code, "The whole model is in the graphics processor's memory.", said)
    if share.number == 0:
        return build.info(code, "The model runs on the CPU.", said)
    return build.warning(
        code,
        "Part of the model runs on the CPU: every step waits for it.",
        said,
        fix_for(code, facts),
        unknown("tok/s", "it depends on the CPU's memory bandwidth, which was not measured", Origin.PREDICTED),
    )


def offloaded_share(facts: ServerFacts) -> Figure:
    """The share of the model in the graphics processor's memory, by bytes or by layers; unknown if not told."""
    share = facts.extra.get("share_on_gpu")
    if share is not None:
        return share
    held, total = facts.extra.get("layers_on_gpu"), facts.extra.get("layers")
    if held is not None and held.number is not None and total is not None and total.number:
        reason = f"{held.number:.0f} of {total.number:.0f} layers"
        return Figure(min(1.0, held.number / total.number), "", held.origin, reason=reason)
    return unknown("", "the server does not say where its layers are")
