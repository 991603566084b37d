"""Everything that is left to chance in one run, drawn from its seed: the server, the job, the limits, the mishaps."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tests.chaos.items import MAX_TOKENS, Item
from widelane.lanes.budget import Budget
from widelane.lanes.retry import RetryPolicy
from widelane.sim.config import BlockPool, EngineConfig, PoolPolicy, PrefixCache
from widelane.sim.faults.catalogue import FAULTS, QUEUE
from widelane.sim.settings import Habits, Thoughts

REQUEST_FAULTS = tuple(sorted(name for name, fault in FAULTS.items() if not fault.ours and name != QUEUE))
"""Every fault of the catalogue that one request can meet."""
CONTEXT = 1024
BLOCK = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run.

    Attributes:
        featured: (request number, fault) of the first session, so that a round of seeds meets every fault; None: none.
        faults, fault_share: which faults there are, and the share of requests that meet one.
        mishaps: how often in a session something happens from outside: a call cancelled, the width changed, the server
            killed.
        fickle_share: chance, whenever a request is answered, that some call is cancelled in that very moment: perhaps
            the one that gets the lane.
        stop_share: chance that somebody stops a session by hand.
        full_share: chance that the disk is full at some write of a session.
        writes_in_thread: the store's writer has a thread of its own.
        cut: (which of the run's sessions is killed, how far in it, at a write, what is left of that write) as shares.
    """

    seed: int
    engine: str
    config: EngineConfig
    habits: Habits
    unified: bool
    items: tuple[Item, ...]
    width: int
    budget: Budget | None
    retry: RetryPolicy
    pool_tokens: int | None
    featured: tuple[int, str] | None
    faults: tuple[str, ...]
    fault_share: float
    mishaps: int
    fickle_share: float
    stop_share: float
    full_share: float
    writes_in_thread: bool
    cut: tuple[float, float, bool, float]


def draw_plan(seed: int) -> Plan:
    """The plan of a seed, the same in any process."""
    rng = random.Random(f"chaos/{seed}")
    engine = rng.choice(["vllm", "llama.cpp"])
    unified = engine == "llama.cpp" and rng.random() < 0.5
    config = _config(rng, engine, unified=unified)
    width = rng.choice([1, 2, 3, 5, 8, 12, 16])
    several = rng.choice([1, 1, 2]) if config.slots > 1 else 1
    items = _items(rng, several)
    faulty = seed % 10 != 9
    featured = REQUEST_FAULTS[(seed // 10 * 9 + seed % 10) % len(REQUEST_FAULTS)]
    return Plan(
        seed=seed, engine=engine, config=config, unified=unified, items=items, width=width,
        habits=rng.choice([Habits()] * 5 + [Habits(always_thinks=True), Habits(buffers=True),
                                            Habits(frees_on_cancel=False), Habits(thoughts=Thoughts.IN_TEXT)]),
        budget=_budget(rng, items),
        retry=_retry(rng),
        pool_tokens=rng.choice([None, None, config.slots * 300]),
        featured=(rng.randrange(3), featured) if faulty else None,
        faults=tuple(rng.sample(REQUEST_FAULTS, rng.choice([1, 3, 10, len(REQUEST_FAULTS)]))) if faulty else (),
        fault_share=rng.choice([0.05, 0.2, 0.5]) if faulty else 0.0,
        mishaps=rng.choice([0, 0, 3, 12]),
        fickle_share=rng.choice([0.0, 0.0, 0.15]),
        stop_share=rng.choice([0.0, 0.0, 0.5]),
        full_share=rng.choice([0.0, 0.0, 0.3]),
        writes_in_thread=rng.random() < 0.3,
        cut=(rng.random(), rng.random(), rng.random() < 0.7, rng.choice([0.0, rng.random(), rng.random(), 1.0])),
    )  # fmt: skip


def _config(rng: random.Random, engine: str, *, unified: bool) -> EngineConfig:
    slots = rng.choice([1, 2, 4, 8])
    depth = rng.choice([0, 0, 0, 2])
    speculation: Any = {"draft_depth": depth, "acceptance": (0.8, 0.5)[:depth]}
    max_queue = rng.choice([None, None, None, 2])
    if engine == "vllm":
        return EngineConfig(
            slots=slots, longest_tokens=CONTEXT,
            pool=rng.choice([None, BlockPool(rng.randint(24, 80), BLOCK)]),
            policy=PoolPolicy.RECOMPUTE,
            prefix_cache=rng.choice([PrefixCache.NONE, PrefixCache.BLOCKS]), prefix_block_tokens=BLOCK,
            prefill_chunk_tokens=rng.choice([64, 256, 2048]), noise=rng.choice([0.0, 0.1]),
            max_queue=max_queue, **speculation,
        )  # fmt: skip
    return EngineConfig(
        slots=slots, longest_tokens=CONTEXT,
        pool=BlockPool(rng.randint(400, 1200), 1) if unified else None,
        policy=PoolPolicy.FAIL_ALL if unified else PoolPolicy.RESERVE,
        prefix_cache=rng.choice([PrefixCache.NONE, PrefixCache.SLOTS]), prefix_block_tokens=1,
        max_queue=max_queue, **speculation,
    )  # fmt: skip


def _items(rng: random.Random, several: int) -> tuple[Item, ...]:
    """Chains of one to three questions; a fifth of the questions wants a tool called."""
    items: list[Item] = []
    for chain in range(rng.choice([2, 5, 9])):
        before = None
        for place in range(rng.choice([1, 1, 2, 3])):
            chat = rng.random() < 0.6
            tool = chat and rng.random() < 0.35
            item = Item(
                key=f"item-{chain}-{place}", after=before, priority=rng.choice([0, 0, 1, -1]), chat=chat, tool=tool,
                stream=rng.random() < 0.8, choices=1 if tool else several, padding_words=rng.choice([0, 20, 150]),
            )  # fmt: skip
            items.append(item)
            before = item.key
    return tuple(items)


def _budget(rng: random.Random, items: tuple[Item, ...]) -> Budget | None:
    """None for half of the runs; else limits near what the job needs, so that some are met and some are not."""
    if rng.random() < 0.5:
        return None
    needs = [(item.request().prompt_tokens_estimate or 0) + MAX_TOKENS * item.choices for item in items]
    limits: dict[str, Any] = {
        "tokens": int(sum(needs) * rng.uniform(0.2, 1.2)) + max(needs),
        "seconds": rng.uniform(2.0, 60.0),
        "call_tokens": int(max(needs) * rng.uniform(1.0, 2.5)),
        "call_seconds": rng.uniform(3.0, 60.0),
    }
    chosen = rng.sample(sorted(limits), rng.choice([1, 1, 2, 4]))
    return Budget(**{name: limits[name] for name in chosen})


def _retry(rng: random.Random) -> RetryPolicy:
    return rng.choice([
        RetryPolicy(), RetryPolicy(), RetryPolicy.none(),
        RetryPolicy(max_attempts=3, down_limit_s=rng.choice([10.0, 60.0]), loading_limit_s=30.0),
        RetryPolicy(adaptive_width=False, retry_floor=2),
    ])  # fmt: skip
