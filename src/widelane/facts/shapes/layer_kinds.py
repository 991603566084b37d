"""Which layer does what: the many ways in which configs say which layers attend, which remember and which only compute.

Cases, in order: a pattern of letters (Nemotron-H), a list of words (`layer_types`, `layers_block_type`), a list of
numbers (MiniMax-01, MiMo), lists of indices (Kimi Linear, Bamba, LFM2), a period (Qwen3-Next, Jamba, Ling), a
repeated unit (RecurrentGemma), a sliding window with its own period; else every layer attends to everything.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from widelane.errors import UnreadableModel
from widelane.facts.shapes.config_keys import ConfigKeys
from widelane.facts.shapes.families import Family


class Mixer(StrEnum):
    """What mixes tokens in a layer, before its exact shape is known."""

    FULL = "full"
    SLIDING = "sliding"
    LINEAR = "linear"
    """Any recurrent mixer; which one, the keys tell (`recurrent_shapes`)."""
    BOTH = "both"
    """Attention and a recurrent mixer side by side (Falcon-H1)."""
    MLP = "mlp"
    """No mixer: the layer is a plain MLP."""
    MOE = "moe"
    """No mixer: the layer is a mixture of experts."""


_WORDS = {
    "full_attention": Mixer.FULL,
    "attention": Mixer.FULL,
    "global_attention": Mixer.FULL,
    "indexed_attention": Mixer.FULL,
    "sliding_attention": Mixer.SLIDING,
    "local_attention": Mixer.SLIDING,
    "chunked_attention": Mixer.SLIDING,
    "linear_attention": Mixer.LINEAR,
    "mamba": Mixer.LINEAR,
    "mamba2": Mixer.LINEAR,
    "conv": Mixer.LINEAR,
    "short_conv": Mixer.LINEAR,
    "recurrent": Mixer.LINEAR,
    "hybrid": Mixer.BOTH,
    "mlp": Mixer.MLP,
    "moe": Mixer.MOE,
}
_LETTERS = {"M": Mixer.LINEAR, "*": Mixer.FULL, "-": Mixer.MLP, "E": Mixer.MOE}


_OTHER_WAYS = (
    "full_attention_interval",
    "global_attn_every_n_layers",
    "layer_group_size",
    "layer_types",
    "sliding_window",
    "sliding_window_pattern",
    "sliding_window_size",
)
"""Ways of saying the same that configs state beside the one that is read."""


def mixers_of_letters(pattern: str, keys: ConfigKeys) -> tuple[Mixer, ...]:
    """Nemotron-H's notation: M Mamba-2, * attention, - MLP, E experts; `|` may separate stages."""
    letters = pattern.replace("|", "")
    unknown = sorted(set(letters) - set(_LETTERS))
    if unknown:
        raise UnreadableModel(
            f"{keys.source}: `hybrid_override_pattern` holds {unknown}; known are M (Mamba-2), * (attention), - (MLP) "
            "and E (experts)."
        )
    return tuple(_LETTERS[letter] for letter in letters)


def mixers_of_words(words: tuple[str, ...]) -> tuple[Mixer, ...]:
    """The kinds that words of `layer_types` or `mtp_layers_block_type` mean; attention for an unknown one."""
    return tuple(_WORDS.get(word, Mixer.FULL) for word in words)


def mixers(keys: ConfigKeys, family: Family, layers: int) -> tuple[Mixer, ...]:
    """The mixer of each layer."""
    keys.acknowledge(*_OTHER_WAYS)
    for reader in (_by_letters, _by_words, _by_numbers, _by_indices, _by_period, _side_by_side):
        found = reader(keys, family, layers)
        if found is not None:
            return _as_long_as(found, layers, keys)
    return _by_window(keys, family, layers)


def _as_long_as(found: tuple[Mixer, ...], layers: int, keys: ConfigKeys) -> tuple[Mixer, ...]:
    if len(found) < layers:
        raise UnreadableModel(f"{keys.source} states {layers} layers and the kinds of only {len(found)} of them.")
    return found[:layers]


def _by_letters(keys: ConfigKeys, _family: Family, _layers: int) -> tuple[Mixer, ...] | None:
    pattern = keys.text("hybrid_override_pattern")
    return mixers_of_letters(pattern, keys) if pattern else None


def _by_words(keys: ConfigKeys, _family: Family, layers: int) -> tuple[Mixer, ...] | None:
    words = keys.words("layer_types", "layers_block_type", "block_types", "mixer_types")
    if not words:
        return None
    unit = words if len(words) >= layers else words * (layers // len(words) + 1)
    strange = sorted(set(unit) - set(_WORDS))
    for word in strange:
        keys.assume(f"The layer type `{word}` of `layer_types` is not known here: taken for full attention.")
    found = mixers_of_words(unit)
    local = _local_kind(keys)
    return tuple(
        local if mixer is Mixer.FULL and word == "attention" else mixer for mixer, word in zip(found, unit, strict=True)
    )


def _local_kind(keys: ConfigKeys) -> Mixer:
    """What the word "attention" means: RecurrentGemma's is local."""
    return Mixer.SLIDING if keys.states("attention_window_size") else Mixer.FULL


def _by_numbers(keys: ConfigKeys, _family: Family, _layers: int) -> tuple[Mixer, ...] | None:
    kinds = keys.integers("attn_type_list")
    if kinds is not None:
        return tuple(Mixer.FULL if kind else Mixer.LINEAR for kind in kinds)
    windowed = keys.integers("hybrid_layer_pattern")
    if windowed is not None:
        return tuple(Mixer.SLIDING if kind else Mixer.FULL for kind in windowed)
    return None


def _by_indices(keys: ConfigKeys, _family: Family, layers: int) -> tuple[Mixer, ...] | None:
    linear = keys.section("linear_attn_config")
    if linear is not None:
        full = linear.integers("full_attn_layers") or ()
        counted_from_one = set(full)
        return _where(lambda i: i + 1 in counted_from_one, layers, Mixer.LINEAR)
    indices = keys.integers("attn_layer_indices", "full_attn_idxs")
    if indices is not None:
        attends = set(indices)
        return _where(lambda i: i in attends, layers, Mixer.LINEAR)
    return None


def _by_period(keys: ConfigKeys, family: Family, layers: int) -> tuple[Mixer, ...] | None:
    group = keys.maybe("layer_group_size")
    if group:  # Ling: the layers of an unfinished last group attend as well
        return _where(lambda i: (i + 1) % group == 0 or i >= layers // group * group, layers, Mixer.LINEAR)
    interval = keys.maybe("full_attention_interval") or family.defaults.get("full_attention_interval")
    if interval:
        return _where(lambda i: (i + 1) % interval == 0, layers, Mixer.LINEAR)
    period = keys.maybe("attn_layer_period")
    if period:
        offset = keys.maybe("attn_layer_offset") or 0
        return _where(lambda i: i % period == offset % period, layers, Mixer.LINEAR)
    return None


def _side_by_side(keys: ConfigKeys, family: Family, layers: int) -> tuple[Mixer, ...] | None:
    if family.name == "falcon_h1" or keys.states("mamba_d_ssm"):
        return (Mixer.BOTH,) * layers
    attends = keys.states("num_attention_heads", "n_head", "n_heads")
    remembers = keys.states("state_size", "ssm_state_size", "attention_hidden_size", "mamba_d_state")
    if family.name.startswith("rwkv") or (remembers and not attends):
        return (Mixer.LINEAR,) * layers
    return None


def _by_window(keys: ConfigKeys, family: Family, layers: int) -> tuple[Mixer, ...]:
    everything = (Mixer.FULL,) * layers
    if not keys.states("sliding_window", "attention_chunk_size") and "sliding_window" not in family.defaults:
        return everything
    switch = keys.flag("use_sliding_window")
    if switch is False or (switch is None and family.window_needs_switch):
        return everything
    chunked = keys.integers("no_rope_layers")
    if keys.states("attention_chunk_size"):
        with_rope = chunked or tuple(int((i + 1) % 4 != 0) for i in range(layers))
        return tuple(Mixer.SLIDING if rope else Mixer.FULL for rope in with_rope)
    letters = keys.text("sliding_window_pattern")
    if letters:
        return tuple(Mixer.SLIDING if letters[i % len(letters)] == "L" else Mixer.FULL for i in range(layers))
    every = keys.maybe("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers")
    period = family.window_period if every is None else every
    if period:
        return _where(lambda i: (i + 1) % period == 0, layers, Mixer.SLIDING)
    first = keys.maybe("max_window_layers")
    if first is not None:
        return _where(lambda i: i < first, layers, Mixer.SLIDING)
    return (Mixer.SLIDING,) * layers


def _where(attends_to_all: Callable[[int], bool], layers: int, otherwise: Mixer) -> tuple[Mixer, ...]:
    return tuple(Mixer.FULL if attends_to_all(i) else otherwise for i in range(layers))
