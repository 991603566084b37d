"""A model as a stack of blocks: what mixes tokens in each, what follows it, and how many weights that takes.

Counted are matrices and convolutions. Norms, biases and per-head vectors are left out: under 0.02 % of any published
model, and the form in which most sources state their totals.
"""

from __future__ import annotations

from dataclasses import dataclass

from widelane.facts.model import LayerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShape:
    """Attention of one block; fields as in `AttentionLayers`.

    Attributes:
        shares: reads the cache of an earlier block and keeps none.
        matrices: elements of its weight matrices.
    """

    kind: LayerKind
    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    score_key_dim: int
    score_value_dim: int
    window: int | None = None
    shares: bool = False
    matrices: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentShape:
    """The recurrent mixer of one block; fields as in `RecurrentLayers`."""

    kind: LayerKind
    conv_dim: int
    conv_kernel: int
    state_elements: int
    matrices: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedForwardShape:
    """What follows the mixer.

    Attributes:
        dense: elements computed for every token: a plain MLP, shared experts, the router.
        routed: elements of all routed experts.
        experts, top_k, shared: routing, all 0 without routed experts.
    """

    dense: int
    routed: int = 0
    experts: int = 0
    top_k: int = 0
    shared: int = 0

    @property
    def active(self) -> int:
        """Elements one token computes with."""
        return self.dense + (self.routed * self.top_k // self.experts if self.experts else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One layer of the stack; a part that is missing is None (Nemotron-H has blocks that only hold an MLP)."""

    attention: AttentionShape | None = None
    recurrent: RecurrentShape | None = None
    feed_forward: FeedForwardShape | None = None
    extra: int = 0

    @property
    def mixer_matrices(self) -> int:
        """Elements of what mixes tokens."""
        return (
            (self.attention.matrices if self.attention else 0)
            + (self.recurrent.matrices if self.recurrent else 0)
            + self.extra
        )

    @property
    def dense(self) -> int:
        """Elements read whatever the batch."""
        return self.mixer_matrices + (self.feed_forward.dense if self.feed_forward else 0)

    @property
    def routed(self) -> int:
        """Elements of the routed experts."""
        return self.feed_forward.routed if self.feed_forward else 0

    @property
    def active(self) -> int:
        """Elements one token computes with."""
        return self.mixer_matrices + (self.feed_forward.active if self.feed_forward else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A whole text model.

    Attributes:
        embedding: elements of the input embedding.
        tied: the output layer is the input embedding.
        lookups: elements of further tables of which a token reads one row (per-layer embeddings, positions).
        extra: elements of matrices outside the blocks.
        draft: the blocks that draft (MTP), as often as they run.
        draft_extra: elements of their own projections.
        tower: elements of vision and audio towers, as far as the config tells.
    """

    blocks: tuple[Block, ...]
    embedding: int
    tied: bool
    lookups: int = 0
    extra: int = 0
    draft: tuple[Block, ...] = ()
    draft_extra: int = 0
    tower: int = 0
