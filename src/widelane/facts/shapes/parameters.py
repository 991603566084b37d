"""From a stack of blocks to the facts of a model: layers grouped by kind, routing, and parameter counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from widelane.facts.model import AttentionLayers, Experts, Parameters, RecurrentLayers
from widelane.facts.shapes.blocks import AttentionShape, Block, RecurrentShape, Stack
from widelane.facts.weights.tensor_roles import Role


def attention_groups(blocks: tuple[Block, ...]) -> tuple[AttentionLayers, ...]:
    """Attention layers grouped by kind and shape, in the order in which they first appear."""
    counts: Counter[AttentionShape] = Counter()
    sharing: Counter[AttentionShape] = Counter()
    for block in blocks:
        if block.attention is not None:
            shape = replace(block.attention, shares=False, matrices=0)
            counts[shape] += 1
            sharing[shape] += block.attention.shares
    return tuple(
        AttentionLayers(
            kind=shape.kind,
            count=count,
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            key_dim=shape.key_dim,
            value_dim=shape.value_dim,
            score_key_dim=shape.score_key_dim,
            score_value_dim=shape.score_value_dim,
            window=shape.window,
            sharing=sharing[shape],
        )
        for shape, count in counts.items()
    )


def recurrent_groups(blocks: tuple[Block, ...], state_dtype: str | None) -> tuple[RecurrentLayers, ...]:
    """Recurrent layers grouped by kind and shape."""
    counts: Counter[RecurrentShape] = Counter(
        replace(block.recurrent, matrices=0) for block in blocks if block.recurrent is not None
    )
    return tuple(
        RecurrentLayers(
            kind=shape.kind,
            count=count,
            conv_dim=shape.conv_dim,
            conv_kernel=shape.conv_kernel,
            state_elements=shape.state_elements,
            state_dtype=state_dtype,
        )
        for shape, count in counts.items()
    )


def experts_of(blocks: tuple[Block, ...]) -> Experts | None:
    """The routing, None in a dense model. Where layers differ, that of most layers."""
    routings = Counter(
        (forward.experts, forward.top_k, forward.shared)
        for block in blocks
        if (forward := block.feed_forward) is not None and forward.routed
    )
    if not routings:
        return None
    (count, top_k, shared), _ = routings.most_common(1)[0]
    return Experts(count=count, top_k=top_k, shared=shared, layers=routings.total())


def parameters_of(stack: Stack) -> Parameters:
    """Parameter counts of a stack."""
    output = stack.embedding
    untied = 0 if stack.tied else output
    blocks = stack.blocks
    return Parameters(
        total=(
            stack.embedding
            + untied
            + stack.lookups
            + stack.extra
            + sum(block.dense for block in blocks)
            + sum(block.routed for block in blocks)
        ),
        active=output + stack.extra + sum(block.active for block in blocks),
        routed_experts=sum(block.routed for block in blocks),
        embedding=stack.embedding + stack.lookups,
        output=output,
        draft_head=stack.draft_extra + sum(block.dense + block.routed for block in stack.draft),
    )


def parameters_by_role(counts: Mapping[Role, int], *, visited: int, of: int) -> Parameters:
    """Parameter counts from elements of tensors by role.

    Args:
        visited, of: a token computes with `visited` of `of` parts of the routed experts; 0 of 0 without any.
    """
    routed = counts.get(Role.ROUTED, 0)
    embedding, stated_output = counts.get(Role.EMBEDDING, 0), counts.get(Role.OUTPUT, 0)
    output = stated_output or embedding
    read, lookups = counts.get(Role.READ, 0), counts.get(Role.LOOKUP, 0)
    return Parameters(
        total=embedding + stated_output + lookups + read + routed,
        active=output + read + (routed * visited // of if of else 0),
        routed_experts=routed,
        embedding=embedding + lookups,
        output=output,
        draft_head=counts.get(Role.DRAFT, 0),
    )
