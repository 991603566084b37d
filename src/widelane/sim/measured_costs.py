"""Step times from a measured profile: what a sweep saw of a server, turned back into the steps it must have run.

A sweep keeps B calls in flight, each of L output tokens, spread over their course. In the time that one lane takes for
a call, E = B L / throughput, it sees L steps and, as every lane does the same, B prompts read:

    E = L step(B) + B q        step(B) = E / L - B q / L        q = TTFT - TPOT of a call alone

q is what one prompt costs: a part for each of its tokens and a part for the prompt. One prompt length cannot tell the
two apart; a prompt's token costs at most what a further token costs a wide batch (the same arithmetic, the weights are
read either way), so as much is taken for the tokens and the rest for the prompt.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from widelane.errors import UsageError
from widelane.sim.cost_model import PromptChunk, StepLine
from widelane.sim.measured_profile import MeasuredLevel, MeasuredProfile

LEAST_SHARE = 0.25
"""A step is at least this share of the TPOT measured with it: prompts take the rest, and no noise takes more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCosts:
    """The cost model of a server that was measured.

    Attributes:
        widths: batches measured, rising.
        step_s: length of a step at each, with `context_tokens` a sequence.
        context_tokens: mean tokens that a sequence held while it was measured.
        per_token_s: further seconds for each token of context.
        prompt_token_s, prompt_s: seconds for each token of a prompt, and for each step that reads any.
    """

    widths: tuple[int, ...]
    step_s: tuple[float, ...]
    context_tokens: float
    per_token_s: float
    prompt_token_s: float
    prompt_s: float

    def decode_line(self, batch: int, context_tokens: float, draft_depth: int) -> StepLine:
        """Drafts are in the figures already: `draft_depth` changes nothing."""
        measured_s = self.step_at(batch)
        base_s = max(0.0, measured_s - self.per_token_s * batch * self.context_tokens)
        return StepLine(base_s, self.per_token_s)

    def mixed_s(self, chunks: Sequence[PromptChunk], batch: int, context_tokens: float, draft_depth: int) -> float:
        decoding_s = self.decode_line(max(1, batch), context_tokens, draft_depth).seconds(context_tokens)
        return decoding_s + self.prompt_token_s * sum(chunk.tokens for chunk in chunks) + self.prompt_s

    def step_at(self, batch: int) -> float:
        """Seconds of a step of `batch` sequences: between measured batches in a straight line, beyond the widest with
        the slope of the last two, and never less than at the nearest measured one."""
        widths, steps = self.widths, self.step_s
        index = bisect_left(widths, batch)
        if index < len(widths) and widths[index] == batch:
            return steps[index]
        if index == 0 or len(widths) == 1:
            return steps[0]
        low = min(index, len(widths) - 1) - 1
        slope = (steps[low + 1] - steps[low]) / (widths[low + 1] - widths[low])
        if index == len(widths):
            return steps[-1] + max(0.0, slope) * (batch - widths[-1])
        return steps[low] + slope * (batch - widths[low])


def measured_costs(profile: MeasuredProfile, *, slots: int | None) -> MeasuredCosts:
    """The costs of the server behind a profile.

    Args:
        slots: its places, which limit the batch of wide levels; None where the profile does not tell.

    Raises:
        UsageError: no level of the profile can be used.
    """
    levels = [level for level in profile.levels if _usable(level)]
    if not levels:
        raise UsageError(
            "The profile has no level that can be used: each failed, or its figures are doubtful or the client's own."
            " Run `widelane sweep` again."
        )
    prompt, output = profile.workload.prompt_tokens, profile.workload.output_tokens
    each_prompt_s = _each_prompt_s(levels[0])
    steps = _steps(levels, slots, output, each_prompt_s)
    widths = tuple(steps)
    step_s = tuple(steps.values())
    token_s = each_prompt_s / prompt
    if len(widths) > 1:
        token_s = min(token_s, max(0.0, (step_s[-1] - step_s[0]) / (widths[-1] - widths[0])))
    return MeasuredCosts(
        widths=widths,
        step_s=step_s,
        context_tokens=prompt + output / 2,
        per_token_s=_per_token_s(profile, step_s[0], widths[0]),
        prompt_token_s=token_s,
        prompt_s=each_prompt_s - token_s * prompt,
    )


def _usable(level: MeasuredLevel) -> bool:
    failed = sum(level.failures.values())
    rate, tpot = level.output_tok_s.number, level.tpot_s.p50.number
    return bool(rate and tpot) and not level.client.spoiled and failed * 20 <= level.requests


def _each_prompt_s(narrowest: MeasuredLevel) -> float:
    """What a prompt adds to the step in which it is read; with several in flight half of them wait for one another."""
    ttft, tpot = narrowest.ttft_s.p50.number, narrowest.tpot_s.p50.number
    if ttft is None or tpot is None:
        return 0.0
    return max(0.0, ttft - tpot) / max(1.0, (narrowest.concurrency + 1) / 2)


def _steps(
    levels: Sequence[MeasuredLevel], slots: int | None, output_tokens: int, each_prompt_s: float
) -> dict[int, float]:
    """Batch -> seconds of its step: the median where several levels ran at one batch, as beyond the slots."""
    seen: dict[int, list[float]] = defaultdict(list)
    for level in levels:
        batch = min(level.concurrency, slots or _together(level))
        tpot_s, tok_s = level.tpot_s.p50.number or 0.0, level.output_tok_s.number or 0.0
        if batch == 1 and level.concurrency == 1:
            seen[batch].append(tpot_s)
            continue
        step_s = batch / tok_s - batch * each_prompt_s / output_tokens
        seen[batch].append(min(tpot_s, max(LEAST_SHARE * tpot_s, step_s)))
    return {batch: statistics.median(seen[batch]) for batch in sorted(seen)}


def _together(level: MeasuredLevel) -> int:
    seen = level.decoding_together.number
    return max(1, int(seen)) if seen else level.concurrency


def _per_token_s(profile: MeasuredProfile, step_s: float, batch: int) -> float:
    """Reading a token's cache, at the speed at which the weights are read; 0 where their sizes are not told."""
    facts = profile.server.facts
    kv_bytes = facts.extra.get("kv_bytes_per_token")
    weights = facts.weights_bytes.number
    if kv_bytes is None or kv_bytes.number is None or not weights:
        return 0.0
    return kv_bytes.number * step_s / (weights + batch * kv_bytes.number * profile.workload.prompt_tokens)
