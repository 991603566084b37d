"""One random run a seed, as text; `python -m tests.sim.traces COUNT` prints a digest of the first COUNT seeds.

Run in two processes with different PYTHONHASHSEED, the digests must be the same.
"""

from __future__ import annotations

import hashlib
import sys
from random import Random

from tests.sim.hand_cost import HandCost
from widelane.sim.call import SimCall
from widelane.sim.config import BlockPool, EngineConfig, PoolPolicy, PrefixCache
from widelane.sim.engine import SimEngine
from widelane.sim.events import Decoded, Event, Failed, Finished, Started

_CACHES = {
    PoolPolicy.RECOMPUTE: (PrefixCache.BLOCKS,),
    PoolPolicy.FAIL_ALL: (PrefixCache.SLOTS,),
    PoolPolicy.RESERVE: (PrefixCache.BLOCKS, PrefixCache.SLOTS),
}


def trace(seed: int) -> str:
    """Everything that happens in a run whose settings, calls and cancellations are drawn from the seed."""
    rng = Random(seed)
    engine = SimEngine(_config(rng), HandCost(context_token_s=1e-4, sequence_s=0.01), Random(seed))
    lines, now_s, offered = [], 0.0, []
    for number in range(rng.randint(5, 40)):
        now_s += rng.choice((0.0, 0.0, rng.expovariate(0.5)))
        call = _call(rng, f"call {number}")
        engine.submit(now_s, call)
        offered.append(call.id)
        if rng.random() < 0.3:
            lines += [_line(event) for event in engine.advance(now_s)]
        if rng.random() < 0.1:
            now_s += rng.random()
            engine.cancel(now_s, rng.choice(offered))
    while (time_s := engine.next_s()) is not None:
        lines += [_line(event) for event in engine.advance(time_s)]
    return "\n".join([*lines, str(engine.gauges())])


def _config(rng: Random) -> EngineConfig:
    depth = rng.choice((0, 0, 2))
    policy = rng.choice(list(PoolPolicy))
    return EngineConfig(
        slots=rng.randint(1, 8),
        longest_tokens=400,
        pool=rng.choice((None, BlockPool(rng.randint(20, 120), 8))),
        policy=policy,
        prefill_chunk_tokens=rng.choice((32, 256)),
        prefix_cache=rng.choice((PrefixCache.NONE, *_CACHES[policy])),
        prefix_block_tokens=8,
        draft_depth=depth,
        acceptance=(0.8, 0.5)[:depth],
        noise=rng.choice((0.0, 0.1)),
    )


def _call(rng: Random, name: str) -> SimCall:
    pieces = tuple((f"piece {rng.randrange(3)}", 16) for _ in range(rng.randrange(4)))
    return SimCall(
        id=name,
        prompt_tokens=48 + rng.randrange(100),
        output_tokens=rng.randint(1, 80),
        prefix=pieces,
        priority=rng.choice((0, 0, 1)),
    )


def _line(event: Event) -> str:
    detail = ""
    if isinstance(event, Decoded):
        detail = str([(tokens.call_id, tokens.count) for tokens in event.each()])
    elif isinstance(event, Finished | Failed):
        detail = str([(chunk.time_s.hex(), chunk.tokens) for chunk in event.arrivals])
    elif isinstance(event, Started):
        detail = f"{event.slot} {event.cached_tokens}"
    return f"{event.time_s.hex()} {event.sequence} {type(event).__name__} {getattr(event, 'call_id', '')} {detail}"


if __name__ == "__main__":
    digest = hashlib.sha256()
    for one in range(int(sys.argv[1])):
        digest.update(trace(one).encode())
    print(digest.hexdigest())
