"""Which layers route to experts: each way in which configs say it."""

from __future__ import annotations

from collections.abc import Callable

from widelane.facts.shapes.config_keys import ConfigKeys

_DENSE_WORDS = frozenset(("dense", "mlp"))


def sparse_layers(keys: ConfigKeys, layers: int, *, has_experts: bool) -> tuple[bool, ...]:
    """For each layer, whether it routes. All do when experts are stated and nothing else is."""
    keys.acknowledge("interleave_moe_layer_step", "decoder_sparse_step", "first_k_dense_replace", "moe_layer_freq")
    if not has_experts:
        return (False,) * layers
    for reader in (_by_words, _by_indices, _by_period, _by_first):
        rule = reader(keys, layers)
        if rule is not None:
            return tuple(rule(i) for i in range(layers))
    return (True,) * layers


Rule = Callable[[int], bool]


def _by_words(keys: ConfigKeys, layers: int) -> Rule | None:
    words = keys.words("mlp_layer_types")
    if not words or len(words) < layers:
        return None
    return lambda i: words[i] not in _DENSE_WORDS


def _by_indices(keys: ConfigKeys, _layers: int) -> Rule | None:
    listed = keys.integers("moe_layers", "moe_layer_indices") if not keys.text("moe_layers") else None
    named = keys.text("moe_layers_enum")
    if named:
        listed = tuple(int(word) for word in named.split(",") if word.strip().isdigit())
    if listed is None:
        return None
    chosen = set(listed)
    return lambda i: i in chosen


def _by_period(keys: ConfigKeys, layers: int) -> Rule | None:
    period = keys.maybe("expert_layer_period")
    if period:
        offset = keys.maybe("expert_layer_offset") or 0
        return lambda i: i % period == offset % period
    step = keys.maybe("interleave_moe_layer_step", "decoder_sparse_step")
    if step is not None:
        plain = set(keys.integers("mlp_only_layers") or ())
        return lambda i: step > 0 and (i + 1) % step == 0 and i not in plain
    plain_only = keys.integers("mlp_only_layers")
    if plain_only:
        listed = set(plain_only)
        return lambda i: i not in listed
    return _by_range(keys, layers)


def _by_range(keys: ConfigKeys, layers: int) -> Rule | None:
    """ERNIE: from one layer to another, every so many; an end of -1 means the last layer."""
    starts = keys.integers("moe_layer_start_index")
    if not starts:
        return None
    every = max(1, keys.maybe("moe_layer_interval") or 1)
    ends = keys.integers("moe_layer_end_index") if keys.number("moe_layer_end_index") != -1 else None
    last = max(ends) if ends else layers - 1
    first = min(starts)
    return lambda i: first <= i <= last and (i + 1) % every == 0


def _by_first(keys: ConfigKeys, layers: int) -> Rule | None:
    first = keys.maybe("first_k_dense_replace", "num_dense_layers", "moe_layer_num_skipped")
    every = keys.per_layer(("moe_layer_freq",), layers) if keys.states("moe_layer_freq") else None
    if first is None and every is None:
        return None
    skipped = first or 0
    if every is not None and len(set(every)) > 1:
        return lambda i: i >= skipped and every[i] > 0
    period = max(1, every[0]) if every else 1
    return lambda i: i >= skipped and i % period == 0
