"""Stacks found by architecture search (Nemotron-NAS, Llama-3.3-Nemotron-Super): each block states its own shape."""

from __future__ import annotations

from widelane.facts.model import LayerKind
from widelane.facts.shapes.blocks import AttentionShape, Block, FeedForwardShape
from widelane.facts.shapes.config_keys import ConfigKeys
from widelane.facts.shapes.families import Family

_ROUNDED_TO = 256
"""MLP widths are multiples of it (`_find_multiple` of the checkpoint's own code)."""


def deci_blocks(keys: ConfigKeys, family: Family, *, hidden: int, layers: int) -> tuple[Block, ...] | None:
    """The blocks of a config with `block_configs`, None for any other config."""
    stated = keys.sections("block_configs")
    if stated is None:
        return None
    heads = keys.integer("num_attention_heads")
    head_dim = keys.maybe("head_dim") or hidden // max(1, heads)
    return tuple(
        _block(config, hidden=hidden, heads=heads, head_dim=head_dim, gated=family.gated) for config in stated[:layers]
    )


def _block(config: ConfigKeys, *, hidden: int, heads: int, head_dim: int, gated: bool) -> Block:
    attention, forward = config.section("attention"), config.section("ffn")
    replaced = sum(part is not None and part.flag("replace_with_linear") is True for part in (attention, forward))
    return Block(
        attention=_attention(attention, hidden=hidden, heads=heads, head_dim=head_dim),
        feed_forward=_forward(forward, hidden=hidden, gated=gated),
        extra=replaced * hidden * hidden,
    )


def _absent(part: ConfigKeys | None) -> bool:
    return part is None or part.flag("no_op") is True or part.flag("replace_with_linear") is True


def _attention(part: ConfigKeys | None, *, hidden: int, heads: int, head_dim: int) -> AttentionShape | None:
    if part is None or _absent(part):
        return None
    kv_heads = part.maybe("num_key_value_heads") or heads // max(1, part.integer("n_heads_in_group"))
    return AttentionShape(
        kind=LayerKind.FULL,
        heads=heads,
        kv_heads=kv_heads,
        key_dim=head_dim,
        value_dim=head_dim,
        score_key_dim=head_dim,
        score_value_dim=head_dim,
        matrices=2 * hidden * head_dim * (heads + kv_heads),
    )


def _forward(part: ConfigKeys | None, *, hidden: int, gated: bool) -> FeedForwardShape | None:
    if part is None or _absent(part):
        return None
    wide = part.maybe("intermediate_size")
    if wide is None:
        factor = part.number("ffn_mult") or 0.0
        wide = _ROUNDED_TO * -(-int(2 * factor * hidden / 3) // _ROUNDED_TO)
    return FeedForwardShape(dense=(3 if gated else 2) * hidden * wide)
