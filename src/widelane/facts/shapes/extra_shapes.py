"""Weights beside the ordinary blocks: per-layer embeddings, AltUp and Laurel (Gemma 3n), positions, drafts, towers."""

from __future__ import annotations

from typing import NamedTuple

from widelane.facts.shapes.config_keys import ConfigKeys


class Extras(NamedTuple):
    """Elements outside the ordinary blocks.

    Attributes:
        lookups: of tables of which a token reads one row.
        outside: of matrices outside the blocks.
        each_block: of matrices that every block has besides mixer and MLP.
    """

    lookups: int
    outside: int
    each_block: int


def extras(keys: ConfigKeys, *, hidden: int, layers: int, vocab: int) -> Extras:
    """What Gemma 3n and Gemma 4 E-series (per-layer embeddings) and GPT-2 (learned positions) have besides."""
    lookups = outside = each = 0
    per_layer = keys.maybe("hidden_size_per_layer_input")
    if per_layer:
        rows = keys.maybe("vocab_size_per_layer_input") or vocab
        lookups += rows * per_layer * layers
        outside += hidden * per_layer * layers
        each += 2 * hidden * per_layer
    inputs = keys.maybe("altup_num_inputs")
    if inputs:
        outside += 2 * (inputs - 1) * hidden * hidden
        each += inputs * hidden + inputs**3 + inputs**2
    each += 2 * hidden * (keys.maybe("laurel_rank") or 0)
    if keys.states("n_positions", "word_embed_proj_dim"):
        lookups += hidden * (keys.maybe("n_positions", "max_position_embeddings") or 0)
    return Extras(lookups, outside, each)


def draft_layers(keys: ConfigKeys) -> int:
    """Layers that draft (multi-token prediction)."""
    keys.acknowledge("num_mtp_modules", "mtp_transformer_layers")  # MiniMax-M2 names them and publishes none
    return keys.maybe("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "mtp_num_layers") or 0


def tower_elements(config: ConfigKeys) -> int:
    """Elements of a vision or audio tower, about: transformer layers of 4 h^2 + 2 h i. 0 without one."""
    total = 0
    for name in ("vision_config", "audio_config", "vit_config"):
        tower = config.section(name)
        if tower is None:
            continue
        hidden = tower.maybe("hidden_size", "embed_dim", "width") or 0
        depth = tower.maybe("num_hidden_layers", "depth", "layers", "conf_num_hidden_layers") or 0
        wide = tower.maybe("intermediate_size") or 4 * hidden
        total += depth * (4 * hidden * hidden + 2 * hidden * wide)
    return total
