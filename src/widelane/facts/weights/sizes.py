"""Bytes of the weights by what a decode step does with them: from parameter counts and a format, or from tensors.

From counts: each part in the bits of its format. A stated total (a file's size) scales the parts whose bits a mix
makes uncertain and leaves those that stay in their own type, the bf16 embedding of an fp8 checkpoint say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from widelane.errors import UsageError
from widelane.facts.files.tensor_types import TensorInfo
from widelane.facts.model import Weights
from widelane.facts.shapes.blocks import Stack
from widelane.facts.weights.quant import BF16, Format
from widelane.facts.weights.tensor_roles import Role
from widelane.figures import Origin

_LEAST_BITS, _MOST_BITS = 0.5, 40.0
"""Averages outside are a slip (gigabits for gigabytes, another model's size)."""
_LEAST_PACKED = 0.93
"""Below this share of their format's size, packed parts would need fewer bits than the format has."""
_LEAST_KEPT = 0.3
"""Below this share of bf16 (under five bits), the rest would be packed tighter than any mix does it."""


class PartElements(NamedTuple):
    """Elements of each part of a model. A tied embedding counts as output, and `embedding` is then its lookups only."""

    mixers: int
    mlps: int
    experts: int
    embedding: int
    output: int
    draft: int
    tower: int


class _PartBytes(NamedTuple):
    mixers: float
    mlps: float
    experts: float
    embedding: float
    output: float
    draft: float
    tower: float


def parts_of(stack: Stack) -> PartElements:
    """Elements by part."""
    mixers = sum(block.mixer_matrices for block in stack.blocks) + stack.extra
    dense = sum(block.dense for block in stack.blocks)
    return PartElements(
        mixers=mixers,
        mlps=dense + stack.extra - mixers,
        experts=sum(block.routed for block in stack.blocks),
        embedding=stack.lookups + (0 if stack.tied else stack.embedding),
        output=stack.embedding,
        draft=stack.draft_extra + sum(block.dense + block.routed for block in stack.draft),
        tower=stack.tower,
    )


def weights_from_counts(
    parts: PartElements, made: Format, *, tied: bool, origin: Origin, total_bytes: float | None = None
) -> Weights:
    """Weights of a model that is known by its parameter counts.

    Args:
        tied: the output layer is the embedding; then it is stored in the wider of the two formats.
        total_bytes: the whole checkpoint where its size is stated. Raises UsageError for a size no format makes.
    """
    sizes = _sized(parts, made, tied=tied)
    if total_bytes is not None:
        sizes = _scaled(sizes, parts, made, total_bytes, tied=tied)
        origin = Origin.READ
    whole = [round(size) for size in sizes]
    total = round(total_bytes) if total_bytes is not None else sum(whole)
    rest = total - sum(whole[2:])
    mixers, mlps, experts, embedding, output, draft, tower = whole
    read = rest + output if total_bytes is not None else mixers + mlps + output
    return Weights(
        total_bytes=total,
        read_bytes=read,
        routed_expert_bytes=experts,
        embedding_bytes=embedding,
        draft_head_bytes=draft,
        other_bytes=tower,
        output_bytes=output,
        quant=made.name,
        origin=origin,
    )


def _sized(parts: PartElements, made: Format, *, tied: bool) -> _PartBytes:
    return _PartBytes(*(n * width / 8 for n, width in zip(parts, _bits(made, tied=tied), strict=True)))


def _bits(made: Format, *, tied: bool) -> tuple[float, ...]:
    output = max(made.output, made.embedding) if tied else made.output
    return made.mixers, made.mlps, made.experts, made.embedding, output, made.draft, made.tower


def _scaled(sizes: _PartBytes, parts: PartElements, made: Format, total_bytes: float, *, tied: bool) -> _PartBytes:
    """The parts, so that they add up to the stated total."""
    average = 8 * total_bytes / max(1, sum(parts))
    if not _LEAST_BITS <= average <= _MOST_BITS:
        raise UsageError(
            f"Weights of {total_bytes / 1e9:.6g} GB would be {average:.3g} bits for each of {sum(parts):,} parameters; "
            "state the size of the whole checkpoint in gigabytes (10^9 bytes)."
        )
    in_bf16 = [width >= BF16 for width in _bits(made, tied=tied)]
    kept = sum(size for size, whole in zip(sizes, in_bf16, strict=True) if whole)
    packed = sum(sizes) - kept
    factors = _factors(kept, packed, total_bytes)
    return _PartBytes(*(size * factors[whole] for size, whole in zip(sizes, in_bf16, strict=True)))


def _factors(kept: float, packed: float, total_bytes: float) -> dict[bool, float]:
    """By how much to scale what stays in bf16 (True) and what is packed (False), to reach a stated total.

    Cases: the packed parts take up the difference; or they would come out below their format, so that the rest cannot
    be in bf16 (gpt-oss as GGUF) and shrinks instead; or neither fits, and everything shrinks or grows alike.
    """
    if packed > 0 and (total_bytes - kept) / packed >= _LEAST_PACKED:
        return {True: 1.0, False: (total_bytes - kept) / packed}
    if kept > 0 and (total_bytes - packed) / kept >= _LEAST_KEPT:
        return {True: (total_bytes - packed) / kept, False: 1.0}
    alike = total_bytes / (kept + packed)
    return {True: alike, False: alike}


def weights_from_tensors(roles: Iterable[tuple[TensorInfo, Role]], *, quant: str) -> Weights:
    """Weights as a file's header lists them. Without an output tensor the embedding is the output layer."""
    by_role: Counter[Role] = Counter()
    by_type: Counter[str] = Counter()
    for tensor, role in roles:
        by_role[role] += tensor.bytes
        by_type[tensor.type] += tensor.bytes
    tied = by_role[Role.OUTPUT] == 0
    output = by_role[Role.EMBEDDING] if tied else by_role[Role.OUTPUT]
    return Weights(
        total_bytes=by_role.total(),
        read_bytes=by_role[Role.READ] + output,
        routed_expert_bytes=by_role[Role.ROUTED],
        embedding_bytes=by_role[Role.LOOKUP] + (0 if tied else by_role[Role.EMBEDDING]),
        draft_head_bytes=by_role[Role.DRAFT],
        other_bytes=by_role[Role.OTHER],
        output_bytes=output,
        by_type=dict(sorted(by_type.items(), key=lambda item: -item[1])),
        quant=quant,
        origin=Origin.READ,
    )
