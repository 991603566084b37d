"""Attention of each layer: heads, cached rows, window and weights, from the keys of a config.

grouped-query   q: h x H k   (twice with an output gate)   k: h x G k   v: h x G v   o: H v x h
latent (MLA)    q: h x r, r x H (n + r')   kv: h x (c + r'), c x H (n + v)   o: H v x h;   cached: c + r'
lightning index (DeepSeek V3.2) q: r x I i   k: h x i   weights: h x I
"""

from __future__ import annotations

from widelane.errors import UnreadableModel
from widelane.facts.model import LayerKind
from widelane.facts.shapes.blocks import AttentionShape
from widelane.facts.shapes.config_keys import ConfigKeys
from widelane.facts.shapes.families import Family

_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_groups", "num_query_groups")
_HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels")
_WINDOW = (
    "sliding_window",
    "attention_window_size",
    "attention_chunk_size",
    "sliding_window_size",
    "local_attention_window",
)


class AttentionReader:
    """Gives the attention of any layer of one config."""

    def __init__(self, keys: ConfigKeys, family: Family, *, hidden: int, layers: int) -> None:
        self._keys = keys
        self._family = family
        self._hidden = hidden
        self._layers = layers
        self._heads = keys.per_layer(("num_attention_heads_per_layer", *_HEADS), layers)
        keys.acknowledge(*_HEADS, *_KV_HEADS, "word_embed_proj_dim")
        self._by_layer = keys.section("per_layer_config")
        self._kv_heads = self._read_kv_heads()
        self._other = keys.section("attention_other_setting")
        self._first_sharing = layers - (keys.maybe("num_kv_shared_layers") or 0)
        self._gate = self._read_gate()

    def shape(self, layer: int, *, sliding: bool) -> AttentionShape:
        """Attention of one layer. Raises UnreadableModel when the heads or the window are not stated."""
        if self._keys.maybe("kv_lora_rank"):
            return self._latent(layer)
        heads, kv_heads, key_dim, value_dim = self._sizes(layer, sliding=sliding)
        shares = layer >= self._first_sharing > 0
        value_is_key = not sliding and self._keys.flag("attention_k_eq_v") is True
        kept = 0 if shares else kv_heads * (key_dim + (0 if value_is_key else value_dim))
        queries = 2 if self._gate == "query" else 1
        gate = {"": 0, "query": 0, "head": heads, "wide": heads * key_dim}[self._gate]
        columns = queries * heads * key_dim + kept + heads * value_dim + gate
        window = self._window() if sliding else None
        return AttentionShape(
            kind=LayerKind.FULL if window is None else LayerKind.SLIDING,
            heads=heads,
            kv_heads=kv_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            score_key_dim=key_dim,
            score_value_dim=value_dim,
            window=window,
            shares=shares,
            matrices=self._hidden * columns,
        )

    def _sizes(self, layer: int, *, sliding: bool) -> tuple[int, int, int, int]:
        """Heads, KV heads, key and value dimension of a layer."""
        keys = self._keys
        heads = self._of(self._heads, layer)
        kv_heads = self._of(self._kv_heads, layer) if self._kv_heads else heads
        key_dim = keys.maybe(*_HEAD_DIM) or self._family.defaults.get("head_dim") or self._hidden // max(1, heads)
        value_dim = keys.maybe("v_head_dim") or key_dim
        if sliding:
            heads, kv_heads, key_dim, value_dim = self._sliding_sizes(heads, kv_heads, key_dim, value_dim)
        else:
            whole = keys.maybe("global_head_dim") or self._family.defaults.get("global_head_dim")
            key_dim, value_dim = (whole, whole) if whole else (key_dim, value_dim)
            if keys.flag("attention_k_eq_v"):
                kv_heads = keys.maybe("num_global_key_value_heads") or kv_heads
        own = self._by_layer.section(str(layer), f"{layer:02d}", f"{layer:03d}") if self._by_layer else None
        if own is not None:
            heads, kv_heads = own.maybe(*_HEADS) or heads, own.maybe(*_KV_HEADS) or kv_heads
            key_dim = value_dim = own.maybe(*_HEAD_DIM) or key_dim
        if not heads or not kv_heads or not key_dim:
            raise UnreadableModel(
                f"{keys.source}: layer {layer} attends with {heads} heads, {kv_heads} KV heads of {key_dim} elements."
            )
        return heads, kv_heads, key_dim, value_dim

    def _sliding_sizes(self, heads: int, kv_heads: int, key_dim: int, value_dim: int) -> tuple[int, int, int, int]:
        """MiMo (`swa_…`) and Step (`attention_other_setting`) give windowed layers their own heads."""
        keys, other = self._keys, self._other
        if other is not None:
            heads = other.maybe(*_HEADS) or heads
            kv_heads = other.maybe(*_KV_HEADS) or kv_heads
            key_dim = other.maybe(*_HEAD_DIM) or key_dim
        heads = keys.maybe("swa_num_attention_heads", "num_sliding_attention_heads") or heads
        kv_heads = keys.maybe("swa_num_key_value_heads") or kv_heads
        key_dim = keys.maybe("swa_head_dim") or key_dim
        return heads, kv_heads, key_dim, keys.maybe("swa_v_head_dim") or (key_dim if other else value_dim)

    def _latent(self, layer: int) -> AttentionShape:
        keys, hidden = self._keys, self._hidden
        keys.acknowledge("head_dim", "qk_head_dim")
        heads = self._of(self._heads, layer)
        latent, turned = keys.integer("kv_lora_rank"), keys.maybe("qk_rope_head_dim") or 0
        plain, value = keys.integer("qk_nope_head_dim"), keys.integer("v_head_dim")
        rank = keys.maybe("q_lora_rank")
        query = rank * (hidden + heads * (plain + turned)) if rank else hidden * heads * (plain + turned)
        index = self._index(rank or hidden)
        gate = hidden * heads if self._gate == "head" else 0
        return AttentionShape(
            kind=LayerKind.MLA,
            heads=heads,
            kv_heads=1,
            key_dim=latent + turned,
            value_dim=0,
            score_key_dim=plain + turned,
            score_value_dim=value,
            matrices=query
            + hidden * (latent + turned)
            + latent * heads * (plain + value)
            + heads * value * hidden
            + index
            + gate,
        )

    def _index(self, rank: int) -> int:
        """Weights of the indexer that picks the tokens to attend to."""
        heads, dim = self._keys.maybe("index_n_heads"), self._keys.maybe("index_head_dim")
        if not heads or not dim:
            return 0
        self._keys.assume(
            f"`index_head_dim`: the indexer keeps {dim} more elements a token and layer, in its own 8-bit cache; they "
            "are not in the KV figures."
        )
        return rank * heads * dim + self._hidden * (dim + heads)

    def _window(self) -> int | None:
        """The window, None when it is as long as the context (Phi-4-mini): such a layer forgets nothing."""
        keys = self._keys
        window = keys.maybe(*_WINDOW) or self._family.defaults.get("sliding_window") or keys.integer(*_WINDOW)
        context = keys.maybe("max_position_embeddings")
        return None if not window or (context and window >= context) else window

    def _read_kv_heads(self) -> tuple[int, ...] | None:
        keys, layers = self._keys, self._layers
        attention = keys.section("attn_config")
        shared = keys.flag("multi_query") and not keys.flag("new_decoder_architecture")
        if shared:
            return (1,) * layers
        if keys.flag("multi_query_attention"):
            return keys.per_layer(("multi_query_group_num",), layers)
        stated = keys.per_layer(_KV_HEADS, layers)
        if stated is None and attention is not None:
            stated = attention.per_layer(("kv_n_heads",), layers)
        default = self._family.defaults.get("num_key_value_heads")
        return (default,) * layers if stated is None and default else stated

    def _read_gate(self) -> str:
        """`query`: the query projection twice as wide; `wide`: a matrix of its own; `head`: one column a head."""
        keys, name = self._keys, self._family.name
        if keys.flag("attn_output_gate") or (self._family.gated_query and keys.flag("attn_output_gate") is not False):
            return "query"
        if name == "afmoe":
            return "wide"
        if keys.flag("gating", "use_head_wise_attn_gate") or (name == "bailing_hybrid" and keys.states("kv_lora_rank")):
            return "head"
        return ""

    def _of(self, values: tuple[int, ...] | None, layer: int) -> int:
        if values is None:
            default = self._family.defaults.get("num_attention_heads")
            return default or self._keys.integer(*_HEADS)
        return values[layer]
