"""Several samples of one prompt: by `n`, and without a stated temperature."""

from __future__ import annotations

from collections.abc import Sequence

from widelane.engines.advice import fix_for
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Finding
from widelane.measure.findings import build
from widelane.measure.probes.answer import Answer
from widelane.measure.probes.probe import ProbeContext

IGNORED, TEMPERATURE = "n-ignored", "temperature-default"
ASK = "Write the first line of a story about the sea."
CHOICES, SAMPLES, SAMPLE_TOKENS = 2, 3, 12


class Samples:
    """`n` that gives one choice, and samples that are all the same."""

    name = "samples"
    codes = (IGNORED, TEMPERATURE)
    seconds = 20.0

    def applies(self, context: ProbeContext) -> str | None:
        return None

    async def run(self, context: ProbeContext) -> list[Finding]:
        off = dict(context.engine.thinking_off())
        several = await context.chat(ASK, max_tokens=2, n=CHOICES, temperature=0.8, **off)
        samples = [await context.chat(ASK, max_tokens=SAMPLE_TOKENS, temperature=None, **off) for _ in range(SAMPLES)]
        return [judge_n(several, CHOICES, context.facts), judge_temperature(samples, context.facts)]


def judge_n(answer: Answer, asked: int, facts: ServerFacts) -> Finding:
    """`n-ignored`, from one request for several choices."""
    if answer.error is not None and answer.refused:
        said = f"n = {asked}: HTTP {answer.status}, {answer.error}"
        return build.info(IGNORED, f"{asked} choices in one request are refused; plain parallel requests work.", said)
    if answer.error is not None:
        return build.not_checked(IGNORED, f"the request failed: {answer.error}")
    if answer.choices >= asked:
        return build.healthy(IGNORED, "Several choices can be asked for with `n` (probed).", f"{answer.choices} came.")
    return build.warning(
        IGNORED,
        "`n` is ignored without a word: send parallel requests instead.",
        f"{asked} choices were asked for, {answer.choices} came, with HTTP 200.",
        fix_for(IGNORED, facts),
    )


def judge_temperature(samples: Sequence[Answer], facts: ServerFacts) -> Finding:
    """`temperature-default`, from the same request sent several times without a temperature."""
    failed = next((sample.error for sample in samples if sample.error is not None), None)
    if failed is not None:
        return build.not_checked(TEMPERATURE, f"a request failed: {failed}")
    texts = {sample.text for sample in samples}
    if not any(texts):
        return build.not_checked(TEMPERATURE, "the replies were empty")
    if len(texts) > 1:
        said = f"{len(texts)} different beginnings in {len(samples)} samples."
        return build.healthy(TEMPERATURE, "Samples differ when no temperature is stated (probed).", said)
    return build.info(
        TEMPERATURE,
        "Samples are identical when no temperature is stated (inferred).",
        f"{len(samples)} samples began alike: {samples[0].text[:60]!r}. State one: best-of-N needs differences.",
        fix_for(TEMPERATURE, facts),
    )
