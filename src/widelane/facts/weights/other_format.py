"""The same model in another weight format: what each part would take, from what it takes now."""

from __future__ import annotations

from dataclasses import replace

from widelane.facts.model import ModelFacts, Weights
from widelane.facts.weights.quant import Format, find_format, format_of, format_of_bits
from widelane.figures import Origin


def in_format(model: ModelFacts, word: str) -> ModelFacts:
    """The model with its weights in the format that `word` names; sizes are inferred from the two formats' bits.

    Raises:
        UsageError: the format is not known.
    """
    return replace(model, weights=_weights_in(model.weights, now=format_now(model), then=format_of(word)))


def format_now(model: ModelFacts) -> Format:
    """The format the weights are in; where its word means nothing here, the common one of that many bits."""
    weights, parameters = model.weights, model.parameters
    count = max(1, parameters.total + parameters.draft_head)
    return find_format(weights.quant) or format_of_bits(8.0 * (weights.total_bytes - weights.other_bytes) / count)


def _weights_in(weights: Weights, *, now: Format, then: Format) -> Weights:
    tied = weights.embedding_bytes == 0
    output = round(weights.output_bytes * _output_bits(then, tied=tied) / _output_bits(now, tied=tied))
    # Mixers and MLPs are not told apart in bytes: formats that treat them apart are taken at their middle.
    rest = round((weights.read_bytes - weights.output_bytes) * _middle(then) / _middle(now))
    routed = round(weights.routed_expert_bytes * then.experts / now.experts)
    embedding = round(weights.embedding_bytes * then.embedding / now.embedding)
    draft = round(weights.draft_head_bytes * then.draft / now.draft)
    return Weights(
        total_bytes=rest + output + routed + embedding + draft + weights.other_bytes,
        read_bytes=rest + output,
        routed_expert_bytes=routed,
        embedding_bytes=embedding,
        draft_head_bytes=draft,
        other_bytes=weights.other_bytes,
        output_bytes=output,
        quant=then.name,
        origin=Origin.INFERRED,
    )


def _output_bits(made: Format, *, tied: bool) -> float:
    return max(made.output, made.embedding) if tied else made.output


def _middle(made: Format) -> float:
    return (made.mixers + made.mlps) / 2
