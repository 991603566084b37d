"""Which limit made the plateau: slots, bandwidth, compute, the KV pool, or the client itself. Pure.

The order of the questions matters: first what makes the figures worthless (the client), then what makes them another
thing than they seem (a full pool looks like a lack of slots), then the plateau itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from widelane.engines.server_facts import ServerFacts
from widelane.figures import Origin
from widelane.measure.decoding_cap import DecodingCap, find_cap, gain_per_doubling
from widelane.measure.knee import points, still_rising
from widelane.measure.profile import Level, Limit
from widelane.measure.step_cost import GREW, name_cost, step_cost

POOL_FULL = 0.95
"""Share of the KV pool in use from which calls wait for memory rather than for a slot."""
WORTHLESS_DOUBLING = 1.08
"""A doubling of the slots that brought less than this says that they were not what was missing."""
_OPTIMISTIC_DOUBLING = 1.15
_TELLING_SLOTS = 8
"""Three doublings: with fewer slots a flat start may as well be the kernels of small batches, and slots are named."""
# Engines that let calls wait while the pool is full; llama.cpp fails them instead.
_WAIT_FOR_POOL = frozenset({"vllm", "sglang", "tensorrt-llm"})


class Verdict(NamedTuple):
    """What limits the throughput.

    Attributes:
        evidence: why, with figures, in sentences.
        slots: calls decoded together at most, where that shows; None where it does not.
    """

    limit: Limit
    evidence: str
    slots: int | None = None


def judge(
    levels: Sequence[Level],
    *,
    output_tokens: float,
    context_tokens: float,
    facts: ServerFacts | None = None,
) -> Verdict:
    """The limit, from the levels that the client did not spoil.

    `output_tokens` and `context_tokens` are those of one call (context: prompt plus half the output).
    """
    clean = [level for level in levels if not level.client.spoiled]
    spoiled = [level for level in levels if level.client.spoiled]
    verdict = _judge_server(clean, output_tokens, context_tokens, facts) if clean else None
    if not spoiled:
        return verdict or Verdict(Limit.UNKNOWN, "No level was measured.")
    if verdict is None or verdict.limit in {Limit.NOT_REACHED, Limit.UNKNOWN}:
        return Verdict(Limit.CLIENT, _client_words(spoiled))
    beside = f"Not counted, because the client could not keep up there: {_names(spoiled)}."
    return verdict._replace(evidence=f"{verdict.evidence} {beside}")


def _judge_server(
    levels: Sequence[Level], output_tokens: float, context_tokens: float, facts: ServerFacts | None
) -> Verdict | None:
    known = points(levels)
    cap = find_cap(levels, output_tokens)
    pool = _pool(levels, cap, rising=still_rising(known))
    if pool is not None:
        return pool
    if not known:
        return None
    if cap is not None:
        return _capped(levels, cap, context_tokens, facts)
    if still_rising(known):
        return Verdict(Limit.NOT_REACHED, _rising_words(levels, facts))
    return _plateau(levels, context_tokens, facts)


def _pool(levels: Sequence[Level], cap: DecodingCap | None, *, rising: bool) -> Verdict | None:
    """The KV pool: calls failed on it, were preempted by it, or waited for it."""
    slots = cap.slots if cap else None
    overflowed = [level for level in levels if level.failures.get("pool_overflow")]
    if overflowed:
        first = overflowed[0]
        return Verdict(
            Limit.KV_POOL,
            f"From {first.concurrency} calls on the shared KV pool overflowed and failed calls "
            f"({_counts(overflowed, 'pool_overflow')}): they need more tokens together than it holds.",
            slots,
        )
    preempted = [level for level in levels if level.preemptions and (level.preemptions.number or 0) > 0]
    if preempted and (cap is not None or not rising):
        counts = ", ".join(
            f"{level.preemptions.number:.0f} at {level.concurrency}" for level in preempted if level.preemptions
        )
        return Verdict(
            Limit.KV_POOL, f"The server preempted running calls for want of KV memory ({counts} calls).", slots
        )
    full = [level for level in levels if level.kv_usage and (level.kv_usage.number or 0) >= POOL_FULL]
    if full and cap is not None:
        return Verdict(
            Limit.KV_POOL,
            f"At most {_calls(cap.slots)} decoded together while {cap.offered} were offered, and the KV pool was "
            f"{full[-1].kv_usage.number:.0%} full: calls wait for memory, not for a slot.",  # type: ignore[union-attr]
            slots,
        )
    return None


def _capped(levels: Sequence[Level], cap: DecodingCap, context_tokens: float, facts: ServerFacts | None) -> Verdict:
    """More calls than decode together: slots, unless the plateau was there before they ran out."""
    gain = gain_per_doubling(levels, cap.slots)
    cost = step_cost(levels)
    worthless = gain is not None and gain[0] < WORTHLESS_DOUBLING and gain[1] < _OPTIMISTIC_DOUBLING
    if gain and worthless and cap.slots >= _TELLING_SLOTS and cost and cost.growth >= GREW:
        limit, words = name_cost(cost, context_tokens, facts)
        return Verdict(
            limit,
            f"{words} At most {_calls(cap.slots)} decode together, but the plateau was there before: the last "
            f"doublings up to {cap.slots} brought {gain[0] - 1:+.0%} each.",
            cap.slots,
        )
    return _slots(levels, cap, gain, facts)


def _tells_pool(levels: Sequence[Level]) -> bool:
    """Whether the server said how full its pool was: a full one has been noticed before, so it was not."""
    return any(level.kv_usage is not None and level.kv_usage.number is not None for level in levels)


def _slots(
    levels: Sequence[Level], cap: DecodingCap, gain: tuple[float, float] | None, facts: ServerFacts | None
) -> Verdict:
    words = [f"At most {_calls(cap.slots)} decoded together while up to {cap.offered} were offered."]
    words += _wave_words(levels, cap)
    if gain:
        words.append(f"Up to {cap.slots}, each doubling brought {gain[0] - 1:+.0%}.")
        if gain[0] < WORTHLESS_DOUBLING:
            words.append("That is little: each call slows the others, so more slots may bring little, too.")
    read = _read_slots(facts)
    if read is None:
        return Verdict(Limit.SLOTS, " ".join(words), cap.slots)
    if read == cap.slots:
        words.append(f"The server says that it has {read}.")
    elif read > cap.slots and facts is not None and facts.engine in _WAIT_FOR_POOL and not _tells_pool(levels):
        words.append(f"The server allows {read}, so calls most likely wait for room in the KV pool (usage not told).")
        return Verdict(Limit.KV_POOL, " ".join(words), cap.slots)
    elif read > cap.slots:
        words.append(
            f"The server says that it has {read}: something before it (a proxy, a router, its HTTP threads) "
            f"lets only {cap.slots} through."
        )
    else:
        words.append(f"The server says that it has {read}, fewer than were seen: more than one server may answer.")
    return Verdict(Limit.SLOTS, " ".join(words), cap.slots)


def _wave_words(levels: Sequence[Level], cap: DecodingCap) -> list[str]:
    """The two curves of waiting: TTFT beyond the slots grows, TPOT does not."""
    full = [level for level in levels if level.concurrency >= cap.slots]
    ttft = [(level.concurrency, value) for level in full if (value := level.ttft_s.p50.number) is not None]
    tpot = [(level.concurrency, value) for level in full if (value := level.tpot_s.p50.number) is not None]
    if len(ttft) < 2 or len(tpot) < 2:
        return []
    return [
        f"Beyond {cap.slots}, calls wait: TTFT went from {ttft[0][1]:.3g} s at {ttft[0][0]} to {ttft[-1][1]:.3g} s at "
        f"{ttft[-1][0]}, TPOT from {tpot[0][1] * 1e3:.3g} to {tpot[-1][1] * 1e3:.3g} ms."
    ]


def _plateau(levels: Sequence[Level], context_tokens: float, facts: ServerFacts | None) -> Verdict:
    """A plateau while all calls decode together: each step got slower, or the calls never got to decoding."""
    cost = step_cost(levels)
    if cost is not None and cost.growth >= GREW:
        return Verdict(*name_cost(cost, context_tokens, facts))
    ttft = [value for level in levels if (value := level.ttft_s.p50.number) is not None]
    if len(ttft) >= 2 and ttft[-1] > 2 * ttft[0]:
        return Verdict(
            Limit.COMPUTE,
            f"TTFT grew from {ttft[0]:.3g} s to {ttft[-1]:.3g} s while TPOT did not, and no fixed number of calls "
            "decodes together: reading prompts (prefill, which is arithmetic) takes the time.",
        )
    if any("buffering-proxy" in level.codes for level in levels):
        return Verdict(
            Limit.UNKNOWN,
            "There is a plateau, but streams are buffered on the way: TTFT and TPOT cannot be told apart.",
        )
    return Verdict(Limit.UNKNOWN, "There is a plateau, but neither TTFT nor TPOT grew enough to tell its cause.")


def _rising_words(levels: Sequence[Level], facts: ServerFacts | None) -> str:
    known = points(levels)
    widest = known[-1]
    if len(known) == 1:
        return f"Only one level, {widest.concurrency}, gave a throughput: a limit shows between levels."
    before = known[-2]
    words = (
        f"Throughput still rose at the widest level: {before.value:.4g} tok/s at {before.concurrency}, "
        f"{widest.value:.4g} at {widest.concurrency}."
    )
    read = _read_slots(facts)
    if read is not None and widest.concurrency <= read:
        words += f" The server has {read} slots, so no call had to wait: offer more than {read} to see what they limit."
    return words


def _read_slots(facts: ServerFacts | None) -> int | None:
    if facts is None or facts.slots.number is None or facts.slots.origin is not Origin.READ:
        return None
    return int(facts.slots.number)


def _client_words(spoiled: Sequence[Level]) -> str:
    worst = max(spoiled, key=lambda level: level.client.cpu_share.number or 0.0)
    return (
        f"The client could not keep up at {_names(spoiled)} (CPU {worst.client.cpu_share.number or 0:.0%} of a core, "
        f"event-loop lag p99 {(worst.client.lag_p99_s.number or 0) * 1e3:.3g} ms): the figures would be its own, not "
        "the server's. Run it on another machine or on a free core."
    )


def _calls(number: int) -> str:
    return f"{number} call" if number == 1 else f"{number} calls"


def _names(levels: Sequence[Level]) -> str:
    numbers = ", ".join(str(level.concurrency) for level in levels)
    return f"level {numbers}" if len(levels) == 1 else f"levels {numbers}"


def _counts(levels: Sequence[Level], code: str) -> str:
    return ", ".join(f"{level.failures[code]} at {level.concurrency}" for level in levels)
