"""What one simulated server is and tells, and its habits: the faultless ones by default.

A habit is something that a configuration gets right or wrong and that a client can see. `misconfigurations` names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from widelane.sim.chat_template import ChatTemplate


class Thoughts(StrEnum):
    """Where the server leaves what the model thought."""

    APART = "apart"
    IN_TEXT = "in-text"
    """No reasoning parser: `<think>…</think>` stands in the answer."""
    SWALLOW = "swallow"
    """A reasoning parser for a model that did not think: the whole answer stands in the reasoning."""


class Calls(StrEnum):
    """What the server makes of the model's tool calls."""

    PARSED = "parsed"
    IN_TEXT = "in-text"
    """No parser, or the wrong one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How the server behaves towards clients.

    Attributes:
        always_thinks: thinks a little before every answer, also where that was switched off.
        enforces_schemas: structured output is constrained; else ignored.
        truncates: a prompt beyond the context is cut without a word, not refused.
        keeps_max_tokens: False writes on past the limit.
        default_max_tokens: limit of a request that states none; None: the context.
        honours_n: several choices where `n` asks for them; False gives one.
        samples: what states no temperature is sampled; False answers it as at temperature 0.
        frees_on_cancel: a call whose client is gone ends; False goes on with it.
        buffers: streams are held back to their end, as by a proxy.
        stops: the model's end mark ends the answer; False shows it and goes on for a while.
        fails_in_streams: after this many tokens every stream gets an error event; None: none does.
    """

    thoughts: Thoughts = Thoughts.APART
    calls: Calls = Calls.PARSED
    always_thinks: bool = False
    enforces_schemas: bool = True
    truncates: bool = False
    keeps_max_tokens: bool = True
    default_max_tokens: int | None = None
    honours_n: bool = True
    samples: bool = True
    frees_on_cancel: bool = True
    buffers: bool = False
    stops: bool = True
    fails_in_streams: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """One server as it was started.

    Attributes:
        engine: `llama.cpp` or `vllm`; another name is served as plain OpenAI-compatible, without facts.
        slots: sequences that decode together, as the server tells it.
        context_tokens: of one sequence.
        trained_tokens: context that the model was trained for, None when not known.
        pool_tokens: what the whole KV pool holds, as the engine shows it; None without a pool.
        pool_blocks, block_tokens: of vLLM's pool, None for others.
        unified: slots share one pool (llama.cpp).
        kv_dtype: of the cache, in the engine's own words; `auto` for the model's type.
        state_dtype: of the recurrent state; None for a model that has none.
        draft_depth: drafted tokens a step, 0 without speculation.
        prefix_cache: whether prompts are looked up in it.
        weights_bytes, parameters, layers: of the model, None when not known.
        weights_type: format of the weights.
        layers_on_gpu: of `layers`; None: all of them.
    """

    engine: str
    model: str
    template: ChatTemplate
    slots: int
    context_tokens: int
    trained_tokens: int | None = None
    pool_tokens: int | None = None
    pool_blocks: int | None = None
    block_tokens: int | None = None
    unified: bool = False
    kv_dtype: str = "auto"
    state_dtype: str | None = None
    draft_depth: int = 0
    prefix_cache: bool = True
    weights_bytes: int | None = None
    weights_type: str = ""
    parameters: int | None = None
    layers: int | None = None
    layers_on_gpu: int | None = None
    habits: Habits = Habits()
