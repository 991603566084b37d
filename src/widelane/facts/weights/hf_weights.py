"""The weights of a model with a config: which format, which size, and what the tensors say where they are at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from widelane.facts.files.tensor_types import TensorInfo
from widelane.facts.model import Parameters, Weights
from widelane.facts.shapes.blocks import Stack
from widelane.facts.shapes.config_keys import ConfigKeys
from widelane.facts.shapes.parameters import parameters_by_role, parameters_of
from widelane.facts.weights.quant import BF16, Format, format_of, format_of_bits
from widelane.facts.weights.quant_config import stated_format
from widelane.facts.weights.sizes import PartElements, parts_of, weights_from_counts, weights_from_tensors
from widelane.facts.weights.tensor_roles import Role, is_packed, main_type, matrix_elements, roles_of
from widelane.figures import Origin

_AGREE = 0.01
"""Shares by which counts from the config and from the tensors may differ before it is said."""

_PLAIN_TYPES = {"F32": "f32", "F16": "f16", "BF16": "bf16", "F8_E4M3": "fp8", "F8_E5M2": "fp8"}
"""Words for tensor types that are a format by themselves."""


class Weighed(NamedTuple):
    """Weights, and what the tensors told besides.

    Attributes:
        parameters: counts from the tensors where they are more trustworthy than the config's, else None.
        has_draft_head: whether the layers that draft are really there.
    """

    weights: Weights
    parameters: Parameters | None
    has_draft_head: bool


def weigh(
    config: Mapping[str, object],
    keys: ConfigKeys,
    stack: Stack,
    *,
    quant: str | None,
    weights_bytes: float | None,
    tensors: Sequence[TensorInfo] | None,
    known: bool,
) -> Weighed:
    """Weights by the caller's words first, then by the tensors, then by the config's own format."""
    stated = stated_format(config, keys)
    if tensors and quant is None and weights_bytes is None:
        return _from_tensors(tensors, stack, keys, stated, known=known)
    parts = parts_of(stack)
    made, origin = _chosen(keys, stated, parts, quant=quant, weights_bytes=weights_bytes)
    weights = weights_from_counts(parts, made, tied=stack.tied, origin=origin, total_bytes=weights_bytes)
    return Weighed(weights, None, bool(stack.draft))


def _chosen(
    keys: ConfigKeys, stated: Format | None, parts: PartElements, *, quant: str | None, weights_bytes: float | None
) -> tuple[Format, Origin]:
    if quant is not None:
        return format_of(quant), Origin.INFERRED
    if weights_bytes is not None:
        return _by_size(keys, stated, parts, weights_bytes), Origin.READ
    if stated is not None:
        return stated, Origin.INFERRED
    keys.assume(f"{keys.source} states no `dtype` and no `quantization_config`: bf16 weights assumed.")
    return format_of("bf16"), Origin.ASSUMED


def _by_size(keys: ConfigKeys, stated: Format | None, parts: PartElements, weights_bytes: float) -> Format:
    """The format for a size that came without a word: the config's own when it fits, else the nearest common one."""
    bits = 8 * weights_bytes / max(1, sum(parts))
    if stated is not None and abs(bits / stated.mlps - 1) < 0.15:
        return stated
    found = format_of_bits(bits)
    keys.assume(f"No weight format was named: {bits:.2f} bits a parameter were taken for {found.name}.")
    return found


def _from_tensors(
    tensors: Sequence[TensorInfo], stack: Stack, keys: ConfigKeys, stated: Format | None, *, known: bool
) -> Weighed:
    layers = len(stack.blocks)
    roles = roles_of(tensors, layers=layers)
    quant = _name_of_format(stated, main_type(roles))
    weights = weights_from_tensors(roles, quant=quant)
    has_draft_head = bool(stack.draft) and weights.draft_head_bytes > 0
    if stack.draft and not has_draft_head:
        keys.assume("The config names layers that draft, but the weights hold none: planned without them.")
    if any(is_packed(tensor, gguf=False) for tensor in tensors):
        return Weighed(weights, None, has_draft_head)
    return Weighed(weights, _counted(roles, stack, keys, known=known), has_draft_head)


def _name_of_format(stated: Format | None, stored: str | None) -> str:
    """The config's word for packed weights; else what the tensors are, whatever dtype the config states."""
    plain = _PLAIN_TYPES.get(stored or "")
    if stated is not None and (plain is None or min(stated.mlps, stated.experts) < BF16):
        return stated.name
    return plain or (stored or "unknown").lower()


def _counted(
    roles: Sequence[tuple[TensorInfo, Role]], stack: Stack, keys: ConfigKeys, *, known: bool
) -> Parameters | None:
    """Counts by the tensors, where the config's differ from them; None where both agree."""
    from_config = parameters_of(stack)
    counts = matrix_elements(roles)
    visited = sum(block.active - block.dense for block in stack.blocks)
    found = parameters_by_role(counts, visited=visited, of=sum(block.routed for block in stack.blocks))
    if not from_config.total or abs(found.total / from_config.total - 1) < _AGREE:
        return None
    keys.assume(
        f"The tensors hold {found.total:,} parameters and the config's keys give {from_config.total:,}: "
        f"the tensors were believed{'' if known else ', as the architecture is not known here'}."
    )
    return found
