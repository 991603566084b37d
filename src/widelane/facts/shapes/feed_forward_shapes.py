"""What follows the mixer in each layer: a plain MLP, or routed experts with shared ones and a router.

MLP       2 or 3 matrices (a gated one has three) of hidden x intermediate
experts   count x 2 or 3 matrices of (hidden or a latent width) x expert width, a router of hidden x count
"""

from __future__ import annotations

from typing import NamedTuple

from widelane.errors import UnreadableModel
from widelane.facts.shapes.blocks import FeedForwardShape
from widelane.facts.shapes.config_keys import ConfigKeys
from widelane.facts.shapes.expert_layers import sparse_layers
from widelane.facts.shapes.families import Family
from widelane.facts.shapes.rwkv_shapes import channel_mixing

_WIDTH = ("block_ff_dim", "intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner")
_COUNT = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "num_routed_experts")
_TOP_K = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "moe_topk",
    "moe_top_k",
    "moe_k",
    "top_k_experts",
    "num_selected_experts",
)
_EXPERT_WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size")
_SHARED_COUNT = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
_SHARED_WIDTH = (
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "shared_intermediate_size",
    "share_expert_dim",
    "moe_shared_expert_intermediate_dim",
)
_PLAIN_ACTIVATIONS = frozenset(("relu2", "xielu", "squared_relu"))


class _Routing(NamedTuple):
    """Experts of one layer; widths in elements."""

    experts: int
    top_k: int
    width: int
    shared: int
    shared_width: int
    latent: int


class FeedForwardReader:
    """Gives what follows the mixer in any layer of one config."""

    def __init__(self, keys: ConfigKeys, family: Family, *, hidden: int, layers: int) -> None:
        self._keys = keys
        self._family = family
        self._hidden = hidden
        self._layers = layers
        activation = keys.text("hidden_act", "hidden_activation", "mlp_hidden_act", "activation_function")
        plain = activation in _PLAIN_ACTIVATIONS and not family.known
        self._matrices = 3 if family.gated and not plain else 2
        self._widths = None if family.name == "rwkv" else keys.per_layer(_WIDTH, layers)
        self._first_sharing = layers - (keys.maybe("num_kv_shared_layers") or 0)
        self._double_after_sharing = keys.flag("use_double_wide_mlp") is True
        self._counts = keys.per_layer(_COUNT, layers, first_will_do=True)
        self._sparse = sparse_layers(keys, layers, has_experts=self._has_experts())

    def shape(self, layer: int) -> FeedForwardShape:
        """The MLP or the experts of one layer, whichever it has."""
        if self._family.name.startswith("rwkv"):
            return FeedForwardShape(dense=channel_mixing(self._keys, self._family, self._hidden))
        return self.experts(layer) if self._sparse[layer] else self.mlp(layer)

    def mlp(self, layer: int) -> FeedForwardShape:
        """A plain MLP."""
        return FeedForwardShape(dense=self._matrices * self._hidden * self._dense_width(layer))

    def experts(self, layer: int) -> FeedForwardShape:
        """Routed experts, with what every token computes besides them."""
        routing = self._routing(layer)
        hidden, matrices = self._hidden, self._matrices
        inner = routing.latent or hidden
        zero = self._keys.maybe("zero_expert_num") or 0
        dense = hidden * (routing.experts + zero) + matrices * hidden * routing.shared_width
        dense += 2 * hidden * routing.latent
        if self._beside_an_mlp():
            dense += self.mlp(layer).dense
        return FeedForwardShape(
            dense=dense,
            routed=routing.experts * matrices * inner * routing.width,
            experts=routing.experts,
            top_k=routing.top_k,
            shared=routing.shared,
        )

    def _beside_an_mlp(self) -> bool:
        """Gemma 4 runs a plain MLP beside its experts."""
        return self._family.name == "gemma4"

    def _has_experts(self) -> bool:
        if self._keys.flag("enable_moe_block") is False and self._family.name == "gemma4":
            return False
        return self._counts is not None and max(self._counts, default=0) > 1

    def _routing(self, layer: int) -> _Routing:
        keys = self._keys
        count = (self._counts or ())[layer] if self._counts else keys.integer(*_COUNT)
        chosen = keys.per_layer(_TOP_K, self._layers, first_will_do=True)
        top_k = chosen[layer] if chosen else keys.integer(*_TOP_K)
        widths = keys.per_layer(_EXPERT_WIDTH, self._layers, first_will_do=True)
        width = widths[layer] if widths else self._stated_width(layer)
        shared, shared_width = self._shared(layer, width)
        if not 0 < top_k <= count:
            raise UnreadableModel(f"{keys.source}: a token visits {top_k} of {count} experts, which cannot be.")
        return _Routing(count, top_k, width, shared, shared_width, keys.maybe("moe_latent_size") or 0)

    def _shared(self, layer: int, width: int) -> tuple[int, int]:
        """How many experts every token visits, and their width together."""
        keys = self._keys
        counts = keys.per_layer(_SHARED_COUNT, self._layers, first_will_do=True)
        stated = keys.maybe(*_SHARED_WIDTH)
        if stated is None:
            stated = self._family.defaults.get("shared_expert_intermediate_size")
        if self._family.name == "llama4":
            return 1, self._stated_width(layer)
        if self._family.name in {"hunyuan", "hunyuan_v1_moe"}:
            count = counts[layer] if counts else 1
            return count, count * self._stated_width(layer)
        if stated is not None:
            return (counts[layer] if counts else 1 if stated else 0), stated
        count = counts[layer] if counts else 0
        return count, count * width

    def _dense_width(self, layer: int) -> int:
        keys = self._keys
        if self._family.name == "llama4" and keys.states("intermediate_size_mlp"):
            return keys.integer("intermediate_size_mlp")
        if self._family.name == "granitemoehybrid":
            return keys.integer("shared_intermediate_size")
        width = self._stated_width(layer)
        if self._family.name == "recurrent_gemma":
            return width // 2
        if self._family.name == "lfm2" and keys.flag("block_auto_adjust_ff_dim") is not False:
            return self._adjusted(width)
        if self._double_after_sharing and layer >= self._first_sharing > 0:
            return 2 * width
        return width

    def _stated_width(self, layer: int) -> int:
        if self._widths is not None:
            return self._widths[layer]
        four_wide = self._family.name in {"gpt2", "gpt_bigcode", "gptj", "gpt_neo", "bloom", "falcon", "mpt", "codegen"}
        return 4 * self._hidden if four_wide else self._keys.integer(*_WIDTH)

    def _adjusted(self, width: int) -> int:
        """LFM2 states the width of a plain MLP; its gated one takes two thirds, rounded up."""
        factor = self._keys.number("block_ffn_dim_multiplier")
        multiple = self._keys.maybe("block_multiple_of") or 256
        narrowed = int((1.0 if factor is None else factor) * int(2 * width / 3))
        return multiple * -(-narrowed // multiple)
