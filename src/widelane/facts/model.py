"""What is known of a model before it is loaded: its layers, its parameters, and the bytes a step reads.

Every reader (GGUF, safetensors, config.json, a known name) ends in one `ModelFacts`; everything in `plan/` begins
with one. Sizes are in bytes or elements, never in gigabytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from widelane.figures import Origin


class LayerKind(StrEnum):
    """What mixes tokens in a layer."""

    FULL = "full-attention"
    SLIDING = "sliding-attention"
    MLA = "mla"
    """Multi-head latent attention: one compressed row a token, whatever the number of heads."""
    MAMBA = "mamba"
    MAMBA2 = "mamba-2"
    DELTA = "gated-deltanet"
    LINEAR = "linear-attention"
    """Another recurrent mixer (RWKV, Kimi delta attention, lightning attention, short convolution, …)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionLayers:
    """All layers of one attention kind and shape.

    Attributes:
        kind: FULL, SLIDING or MLA.
        count: layers of this kind that run.
        heads: query heads of a layer.
        kv_heads: key/value heads of a layer; 1 for MLA.
        key_dim, value_dim: cached elements a token of one KV head. For MLA the compressed row: `kv_lora_rank` +
            `qk_rope_head_dim`, and 0.
        score_key_dim, score_value_dim: head dimensions of the arithmetic of prefill (for MLA those of the expanded
            heads, else as above).
        window: tokens a SLIDING layer looks back; None for the others.
        sharing: layers of these that read another layer's cache and keep none (Gemma 3n, Gemma 4 E-series).
    """

    kind: LayerKind
    count: int
    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    score_key_dim: int
    score_value_dim: int
    window: int | None = None
    sharing: int = 0

    @property
    def cached_elements_per_token(self) -> int:
        """Elements that one token adds to the caches of all these layers together."""
        return (self.count - self.sharing) * self.kv_heads * (self.key_dim + self.value_dim)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentLayers:
    """All recurrent layers of one kind and shape; sizes are of one layer and one sequence.

    Attributes:
        kind: MAMBA, MAMBA2, DELTA or LINEAR.
        conv_dim: channels of the causal convolution, 0 where there is none.
        conv_kernel: its width; `conv_kernel - 1` columns are kept.
        state_elements: elements of the recurrent (SSM) state.
        state_dtype: element type the checkpoint asks for (`float32`, `bfloat16`), None when it names none.
    """

    kind: LayerKind
    count: int
    conv_dim: int
    conv_kernel: int
    state_elements: int
    state_dtype: str | None = None

    @property
    def conv_elements(self) -> int:
        """Elements of the convolution's state, without drafts."""
        return self.conv_dim * max(0, self.conv_kernel - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Routing of a mixture of experts.

    Attributes:
        count: routed experts of a layer.
        top_k: routed experts that a token visits.
        shared: experts that every token visits.
        layers: layers that have routed experts.
    """

    count: int
    top_k: int
    shared: int
    layers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameter counts of the text model: matrices and convolutions.

    Norms, biases and per-head vectors are left out, as most sources of totals do: under 0.02 % of any published model.

    Attributes:
        total: all, without draft head and without vision or audio towers.
        active: what one token computes with: no input embedding (a lookup) unless it is tied to the output layer, and
            `top_k` of the routed experts.
        routed_experts: in all routed experts.
        embedding: in the input embedding, with per-layer embeddings where a model has them (Gemma 3n).
        output: in the output layer (the embedding's own when they are tied).
        draft_head: in the layers that draft (MTP), 0 when there are none.
    """

    total: int
    active: int
    routed_experts: int
    embedding: int
    output: int
    draft_head: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Bytes of the weights, by what a decode step does with them.

    Attributes:
        total_bytes: the whole checkpoint (the file's tensors).
        read_bytes: read in every step whatever the batch: no input embedding (unless tied), no routed experts, no draft
            head, no vision or audio tower.
        routed_expert_bytes: all routed experts together; a step reads those that its tokens visit.
        embedding_bytes: the input embedding, 0 when it is tied to the output layer (then it counts in `read_bytes`);
            and further tables of which a token reads one row (per-layer embeddings).
        draft_head_bytes: layers that draft.
        other_bytes: vision and audio towers, anything that decoding text does not touch.
        output_bytes: the output layer, part of `read_bytes` (drafting reads it too).
        by_type: bytes by tensor type (`Q4_K`, `F8_E4M3`, `BF16`, …), empty when only counts are known.
        quant: the weights' format in a word: `bf16`, `fp8`, `nvfp4`, `mxfp4`, `int4`, `q4_k_m`, …
        origin: READ from tensor headers or the file's size, INFERRED from parameter counts and the format, ASSUMED when
            not even the format is stated.
    """

    total_bytes: int
    read_bytes: int
    routed_expert_bytes: int
    embedding_bytes: int
    draft_head_bytes: int
    other_bytes: int
    output_bytes: int
    by_type: Mapping[str, int] = field(default_factory=dict)
    quant: str
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """One model.

    Attributes:
        name: how it is called (`Qwen/Qwen3.6-27B`, the file's stem, …).
        source: the file, directory or known name it was read from.
        architecture: `model_type` of the config or `general.architecture` of the GGUF.
        layers: of the stack as a whole, the draft head's included nowhere.
        n_layers: blocks of the stack; blocks that only hold an MLP count too.
        attention, recurrent: the mixers, grouped by kind and shape.
        hidden_size, vocab_size: None when the file does not say.
        context_tokens: longest context it was made for, None when not stated.
        draft_layers: layers of the draft head (MTP), 0 when there is none.
        chat_template: the Jinja text, None when the source holds none.
        assumed: one sentence for each thing that was not understood or not stated: which key, and what was assumed.
        made_for: other text that tells what it is (`architectures`, `general.name`), for the choice of parsers.
    """

    name: str
    source: str
    architecture: str
    n_layers: int
    attention: tuple[AttentionLayers, ...]
    recurrent: tuple[RecurrentLayers, ...]
    experts: Experts | None
    parameters: Parameters
    weights: Weights
    hidden_size: int | None
    vocab_size: int | None
    context_tokens: int | None
    draft_layers: int = 0
    chat_template: str | None = None
    assumed: tuple[str, ...] = ()
    made_for: tuple[str, ...] = ()

    @property
    def is_hybrid(self) -> bool:
        """Whether some layers keep a recurrent state."""
        return bool(self.recurrent)

    @property
    def kv_elements_per_token(self) -> int:
        """Elements a token adds for ever: full and latent attention."""
        return sum(group.cached_elements_per_token for group in self.attention if group.window is None)

    @property
    def kv_elements_per_token_window(self) -> int:
        """Elements a token adds in sliding-window layers, which forget it after `window` tokens."""
        return sum(group.cached_elements_per_token for group in self.attention if group.window is not None)

    @property
    def window(self) -> int:
        """The (widest) sliding window in tokens, 0 when there is none."""
        return max((group.window for group in self.attention if group.window is not None), default=0)

    @property
    def conv_state_elements(self) -> int:
        """Elements of all convolution states of one sequence."""
        return sum(group.count * group.conv_elements for group in self.recurrent)

    @property
    def recurrent_state_elements(self) -> int:
        """Elements of all recurrent (SSM) states of one sequence, without the convolutions."""
        return sum(group.count * group.state_elements for group in self.recurrent)
