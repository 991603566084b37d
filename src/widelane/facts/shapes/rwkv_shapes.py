"""RWKV: time mixing without attention, from version 4 to 7.

State of a layer: the token before (once for time mixing, once for the channel mixing, kept as one column each), and in
version 4 three numbers a channel, later one `head x head` matrix a head.
"""

from __future__ import annotations

from widelane.facts.model import LayerKind
from widelane.facts.shapes.blocks import RecurrentShape
from widelane.facts.shapes.config_keys import ConfigKeys
from widelane.facts.shapes.families import Family

_LORA_RANKS = ("decay_low_rank_dim", "a_low_rank_dim", "v_low_rank_dim", "gate_low_rank_dim")


def rwkv(keys: ConfigKeys, family: Family, hidden: int) -> RecurrentShape:
    """Time mixing of one layer."""
    if family.name == "rwkv":
        wide = keys.maybe("attention_hidden_size") or hidden
        return _shape(hidden, state=3 * wide, matrices=4 * hidden * wide)
    head = keys.maybe("head_dim", "head_size") or 64
    ranks = [keys.maybe(name) or 0 for name in _LORA_RANKS]
    square = 4 if family.name.startswith("rwkv7") else 5
    if family.name.startswith("rwkv7"):
        low_rank = 2 * hidden * sum(ranks)
    else:
        mixing = keys.maybe("proj_low_rank_dim") or 32
        low_rank = 10 * hidden * mixing + 2 * hidden * (ranks[-1] or 64)
    return _shape(hidden, state=hidden * head, matrices=square * hidden * hidden + low_rank)


def channel_mixing(keys: ConfigKeys, family: Family, hidden: int) -> int:
    """Weights of the channel mixing that follows: key and value, and before version 7 a receptance."""
    wide = keys.maybe("intermediate_size")
    if wide is None:
        ratio = keys.number("hidden_ratio")
        wide = int(hidden * ratio) if ratio else (4 * hidden if family.name in {"rwkv", "rwkv7"} else hidden * 7 // 2)
    return 2 * hidden * wide + (0 if family.name.startswith("rwkv7") else hidden * hidden)


def _shape(hidden: int, *, state: int, matrices: int) -> RecurrentShape:
    return RecurrentShape(
        kind=LayerKind.LINEAR, conv_dim=2 * hidden, conv_kernel=2, state_elements=state, matrices=matrices
    )
