"""The layers of a GGUF model: what each block is, its tensors tell; how large, the metadata.

Keys as in gguf-py `constants.py`, their meaning as in llama.cpp `llama-hparams.cpp` and `llama-model.cpp`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from widelane.errors import UnreadableModel
from widelane.facts.files.tensor_types import TensorInfo
from widelane.facts.model import LayerKind
from widelane.facts.shapes.blocks import AttentionShape, Block, FeedForwardShape, RecurrentShape
from widelane.facts.shapes.config_keys import MAX_LAYERS, ConfigKeys
from widelane.facts.shapes.families import Family

_BLOCK = re.compile(r"^blk\.(\d+)\.([a-z0-9_]+)")
_WINDOW_PERIOD = {"llama4": 4, "olmo2": 4, "smallthinker": 4, "gemma_embedding": 6}
"""Periods that llama.cpp sets itself, beside those of `families`."""
_NO_WINDOW = frozenset(("phi3", "phimoe", "qwen2", "qwen3", "llama"))
"""Architectures whose stated window llama.cpp does not use."""


def tensors_by_block(tensors: Iterable[TensorInfo]) -> dict[int, set[str]]:
    """Names of the tensors of each block, without `blk.N.` and `.weight`."""
    found: dict[int, set[str]] = {}
    for tensor in tensors:
        match = _BLOCK.match(tensor.name)
        if match and int(match[1]) < MAX_LAYERS:
            found.setdefault(int(match[1]), set()).add(match[2])
    return found


def block_counts(keys: ConfigKeys, names: Mapping[int, set[str]]) -> tuple[int, int]:
    """Blocks of the stack, and blocks that draft. `block_count` counts both, unless the drafts were left out."""
    stated = keys.integer("block_count")
    if not 0 < stated <= MAX_LAYERS:
        raise UnreadableModel(f"{keys.source}: `block_count` is {stated}; 1 to {MAX_LAYERS} can be read.")
    drafts = keys.maybe("nextn_predict_layers") or 0
    last = [names.get(layer, set()) for layer in range(max(0, stated - drafts), stated)]
    if not drafts or drafts >= stated or not any("nextn" in held for held in last):
        return stated, 0
    return stated - drafts, drafts


@dataclass(frozen=True, slots=True)
class GgufBlocks:
    """Reads the blocks of one file.

    Attributes:
        keys: the metadata of the architecture, its prefix removed.
        windowed: the pattern of sliding windows as the file states it: a period, one flag a layer, or None.
        names: tensors of each block.
        layers: blocks of the stack, without those that draft.
    """

    keys: ConfigKeys
    family: Family
    windowed: object
    names: Mapping[int, set[str]]
    layers: int

    def blocks(self) -> tuple[Block, ...]:
        """All blocks of the stack. Raises UnreadableModel where a size is missing."""
        return tuple(self._block(layer, self.names.get(layer, set())) for layer in range(self.layers))

    def _block(self, layer: int, names: set[str]) -> Block:
        recurs = any(name.startswith(("ssm_", "shortconv", "time_mix")) for name in names)
        return Block(
            attention=self._attention(layer) if _attends(names, recurs=recurs) else None,
            recurrent=self._recurrent(names) if recurs else None,
            feed_forward=self._experts(names),
        )

    def _experts(self, names: set[str]) -> FeedForwardShape | None:
        if not any(name.endswith("_exps") for name in names):
            return None
        count, top_k = self.keys.integer("expert_count"), self.keys.integer("expert_used_count")
        if not 0 < top_k <= count:
            raise UnreadableModel(f"{self.keys.source}: a token visits {top_k} of {count} experts, which cannot be.")
        shared = self.keys.maybe("expert_shared_count")
        stated = shared if shared is not None else int(any(name.endswith("_shexp") for name in names))
        # Elements are counted from the tensors; 1 only marks that the block routes.
        return FeedForwardShape(dense=0, routed=1, experts=count, top_k=top_k, shared=stated)

    def _attention(self, layer: int) -> AttentionShape:
        keys = self.keys
        heads = self._each("attention.head_count", layer)
        if keys.maybe("attention.kv_lora_rank") and keys.maybe("attention.key_length_mla"):
            return self._latent(heads)
        kv_heads = self._each("attention.head_count_kv", layer, default=heads)
        sliding = self._slides(layer)
        even = keys.integer("embedding_length") // max(1, heads)
        key_dim = keys.maybe("attention.key_length") or even
        value_dim = keys.maybe("attention.value_length") or even
        if sliding:
            key_dim = keys.maybe("attention.key_length_swa") or key_dim
            value_dim = keys.maybe("attention.value_length_swa") or value_dim
        if not heads or not kv_heads or not key_dim:
            raise UnreadableModel(
                f"{keys.source}: block {layer} attends with {heads} heads, {kv_heads} KV heads of {key_dim} elements."
            )
        kept = self.layers - (keys.maybe("attention.shared_kv_layers") or 0)
        return AttentionShape(
            kind=LayerKind.SLIDING if sliding else LayerKind.FULL,
            heads=heads,
            kv_heads=kv_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            score_key_dim=key_dim,
            score_value_dim=value_dim,
            window=keys.maybe("attention.sliding_window") if sliding else None,
            shares=layer >= kept,
        )

    def _latent(self, heads: int) -> AttentionShape:
        keys = self.keys
        turned = keys.integer("rope.dimension_count")
        return AttentionShape(
            kind=LayerKind.MLA,
            heads=heads,
            kv_heads=1,
            key_dim=keys.integer("attention.kv_lora_rank") + turned,
            value_dim=0,
            score_key_dim=keys.integer("attention.key_length_mla"),
            score_value_dim=keys.maybe("attention.value_length_mla") or keys.integer("attention.key_length_mla"),
        )

    def _slides(self, layer: int) -> bool:
        if not self.keys.maybe("attention.sliding_window") or self.family.name in _NO_WINDOW:
            return False
        stated = self.windowed
        if isinstance(stated, Sequence) and not isinstance(stated, str):
            return layer < len(stated) and bool(stated[layer])
        period = stated if isinstance(stated, int) and not isinstance(stated, bool) else 0
        period = period or self.family.window_period or _WINDOW_PERIOD.get(self.family.name, 0)
        return period == 0 or (layer + 1) % period != 0

    def _recurrent(self, names: set[str]) -> RecurrentShape:
        keys, hidden = self.keys, self.keys.integer("embedding_length")
        if any(name.startswith("shortconv") for name in names):
            return _recurrent(LayerKind.LINEAR, hidden, keys.integer("shortconv.l_cache"), 0)
        if any(name.startswith("time_mix") for name in names):
            shifts = keys.maybe("token_shift_count") or 2
            return _recurrent(LayerKind.LINEAR, shifts * hidden, 2, hidden * keys.integer("wkv.head_size"))
        kernel = keys.integer("ssm.conv_kernel")
        head = keys.maybe("kda.head_dim")
        if head:
            wide = max(self._all("attention.head_count")) * head
            return _recurrent(LayerKind.LINEAR, 3 * wide, kernel, wide * head)
        state, inner = keys.integer("ssm.state_size"), keys.integer("ssm.inner_size")
        grouped = 2 * (keys.maybe("ssm.group_count") or 0) * state
        if "ssm_x" in names:
            return _recurrent(LayerKind.MAMBA, inner, kernel, inner * state)
        kind = LayerKind.MAMBA2 if "ssm_in" in names and "ssm_beta_alpha" not in names else LayerKind.DELTA
        if kind is LayerKind.MAMBA2 and self.family.gated_query:
            kind = LayerKind.DELTA  # early Qwen3-Next files name their projection `ssm_in`
        return _recurrent(kind, inner + grouped, kernel, inner * state)

    def _each(self, key: str, layer: int, default: int | None = None) -> int:
        """A value that may be one number or one a block."""
        values = self.keys.per_layer((key,), self.layers)
        if values is not None:
            return values[layer]
        return default if default is not None else self.keys.integer(key)

    def _all(self, key: str) -> tuple[int, ...]:
        return self.keys.per_layer((key,), self.layers) or (self.keys.integer(key),)


def _attends(names: set[str], *, recurs: bool) -> bool:
    """Whether a block attends. Kimi's delta attention names its projections like attention's, and convolves them."""
    if "attn_kv_a_mqa" in names:
        return True
    if "ssm_conv1d_q" in names:
        return False
    return bool(names & {"attn_q", "attn_k", "attn_q_a"}) or ("attn_qkv" in names and not recurs)


def _recurrent(kind: LayerKind, conv_dim: int, kernel: int, state: int) -> RecurrentShape:
    return RecurrentShape(kind=kind, conv_dim=conv_dim, conv_kernel=kernel, state_elements=state)
