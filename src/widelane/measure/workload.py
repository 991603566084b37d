"""The calls of a sweep: prompts that no cache has seen, outputs of one length.

Same seed, same prompts, whatever order they are asked for in: a prompt depends on (seed, group, number) alone.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from widelane.records import ChatRequest

# Common English words, each one token (with the space before it) in the vocabularies of GPT-2, Llama, Qwen and
# SmolLM2. 100 of them: four make 26 bits, so that hardly two prompts of a run share even their head.
_TEXT = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work government number night point home water room mother "
    "area money story fact month lot right study book eye job word business issue side kind head house service friend "
    "father power hour game line end member law car city community name president team minute idea kid body "
    "information back parent face others level office door health person art war history party result change morning "
    "reason"
)
_WORDS = tuple(_TEXT.split())
_LEAST_WORDS = 4
# A list to go on with, where the engine cannot be told to go on after the end-of-text token.
_TAIL = "Go on to 1000 without a word: 1, 2, 3, 4,"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMaker:
    """Makes the requests of a run.

    Attributes:
        endpoint: `completions` or `chat`.
        prompt_tokens: words of a prompt, nearly its tokens (a chat template adds its own).
        forced: whether the engine can be made to write on; without it the prompt asks for a long list.
        extra: further body fields for every call (no prefix cache, no thinking).
    """

    seed: int
    endpoint: str
    prompt_tokens: int
    forced: bool
    model: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def request(self, group: str, number: int, output_tokens: int, length_fields: Mapping[str, Any]) -> ChatRequest:
        """Call `number` of a group (a level, the warm-up). `length_fields` are the body fields that fix its length."""
        text = self.prompt(group, number)
        on_chat = self.endpoint == "chat"
        return ChatRequest(
            prompt=None if on_chat else text,
            messages=({"role": "user", "content": text},) if on_chat else (),
            model=self.model,
            max_tokens=output_tokens,
            temperature=0.0,
            extra={**self.extra, **length_fields},
            raw=True,
            prompt_tokens_estimate=self.prompt_tokens,
        )

    def prompt(self, group: str, number: int) -> str:
        """The prompt: its first words are its own, so no cached prefix fits."""
        rng = random.Random(f"{self.seed}/{group}/{number}")
        words = " ".join(rng.choice(_WORDS) for _ in range(max(_LEAST_WORDS, self.prompt_tokens)))
        return words if self.forced else f"{words}. {_TAIL}"
