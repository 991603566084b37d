"""A model from its Hugging Face `config.json`: layers, parameters, and the bytes of its weights.

Everything is derived from keys; `families` holds the little that keys leave unsaid. Multimodal configs are read by
their text part (`text_config`, `llm_config`, …). What was not understood ends in `ModelFacts.assumed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from widelane.errors import UnreadableModel
from widelane.facts.files.tensor_types import TensorInfo
from widelane.facts.model import ModelFacts
from widelane.facts.shapes.attention_shapes import AttentionReader
from widelane.facts.shapes.blocks import Block, Stack
from widelane.facts.shapes.config_keys import MAX_LAYERS, ConfigKeys
from widelane.facts.shapes.deci_blocks import deci_blocks
from widelane.facts.shapes.extra_shapes import draft_layers, extras, tower_elements
from widelane.facts.shapes.families import Family, family_of
from widelane.facts.shapes.feed_forward_shapes import FeedForwardReader
from widelane.facts.shapes.layer_kinds import Mixer, mixers, mixers_of_letters, mixers_of_words
from widelane.facts.shapes.parameters import attention_groups, experts_of, parameters_of, recurrent_groups
from widelane.facts.shapes.recurrent_shapes import recurrent_shape, state_dtype
from widelane.facts.weights.hf_weights import weigh

_TEXT_PARTS = ("text_config", "llm_config", "language_config", "language_model_config", "thinker_config")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
_CONTEXT = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "model_max_length",
    "seq_length",
    "max_sequence_length",
    "context_length",
    "n_ctx",
)


def model_from_config(
    config: Mapping[str, object],
    *,
    name: str,
    source: str,
    quant: str | None = None,
    weights_bytes: float | None = None,
    tensors: Sequence[TensorInfo] | None = None,
    chat_template: str | None = None,
) -> ModelFacts:
    """The model that a parsed `config.json` describes.

    Args:
        quant: format of the weights in a word, when it is not the checkpoint's own.
        weights_bytes: size of the whole checkpoint, when it is known or planned.
        tensors: the checkpoint's tensors, where its files are at hand; they then give the bytes.

    Raises:
        UnreadableModel: a key without which there is no shape is missing, or a value is no count.
        UsageError: the format is not known, or the size is none that the model can have.
    """
    assumed: list[str] = []
    top = ConfigKeys(config, source=source, assumed=assumed)
    text = _text_part(config)
    keys = ConfigKeys(text, source=source, assumed=assumed)
    architecture = keys.text("model_type") or top.text("model_type") or ""
    family = family_of(architecture)
    stack = _stack(keys, top, family)
    _note_what_is_strange(keys, family, architecture)
    weighed = weigh(config, keys, stack, quant=quant, weights_bytes=weights_bytes, tensors=tensors, known=family.known)
    return ModelFacts(
        name=name,
        source=source,
        architecture=top.text("model_type") or architecture or "unknown",
        n_layers=len(stack.blocks),
        attention=attention_groups(stack.blocks),
        recurrent=recurrent_groups(stack.blocks, state_dtype(keys)),
        experts=experts_of(stack.blocks),
        parameters=weighed.parameters or parameters_of(stack),
        weights=weighed.weights,
        hidden_size=keys.maybe(*_HIDDEN),
        vocab_size=_vocabulary(keys, family),
        context_tokens=keys.maybe(*_CONTEXT) or family.defaults.get("max_position_embeddings"),
        draft_layers=len(stack.draft) if weighed.has_draft_head else 0,
        chat_template=chat_template,
        assumed=tuple(assumed),
        made_for=_made_for(top, config),
    )


def _text_part(config: Mapping[str, object]) -> Mapping[str, object]:
    """The config of the language model; wrapped at most twice (`thinker_config.text_config`)."""
    found = config
    for _ in range(2):
        part = next((found[name] for name in _TEXT_PARTS if isinstance(found.get(name), Mapping)), None)
        if not isinstance(part, Mapping) or not part:
            break
        states_shape = any(part.get(key) is not None for key in _HIDDEN) or any(p in part for p in _TEXT_PARTS)
        if not states_shape and any(found.get(key) is not None for key in _HIDDEN):
            break
        found = part
    return found


class _Sizes(NamedTuple):
    hidden: int
    layers: int
    vocab: int


def _sizes(keys: ConfigKeys, family: Family) -> _Sizes:
    letters = keys.text("hybrid_override_pattern")
    words = keys.words("layers_block_type")
    layers = keys.maybe(*_LAYERS)
    if layers is None and (letters or words):
        layers = len(letters.replace("|", "")) if letters else len(words or ())
    if layers is None:
        layers = keys.integer(*_LAYERS)
    if not 0 < layers <= MAX_LAYERS:
        raise UnreadableModel(f"{keys.source}: `num_hidden_layers` is {layers}; 1 to {MAX_LAYERS} can be read.")
    hidden = keys.integer(*_HIDDEN)
    if not hidden:
        raise UnreadableModel(f"{keys.source}: `hidden_size` is 0.")
    return _Sizes(hidden, layers, _vocabulary(keys, family))


def _vocabulary(keys: ConfigKeys, family: Family) -> int:
    stated = keys.maybe("vocab_size", "padded_vocab_size")
    return stated or family.defaults.get("vocab_size") or keys.integer("vocab_size")


def _stack(keys: ConfigKeys, top: ConfigKeys, family: Family) -> Stack:
    sizes = _sizes(keys, family)
    own = deci_blocks(keys, family, hidden=sizes.hidden, layers=sizes.layers)
    beside = extras(keys, hidden=sizes.hidden, layers=sizes.layers, vocab=sizes.vocab)
    attention = AttentionReader(keys, family, hidden=sizes.hidden, layers=sizes.layers)
    forward = FeedForwardReader(keys, family, hidden=sizes.hidden, layers=sizes.layers)
    maker = _BlockMaker(keys, family, sizes, attention, forward, beside.each_block)
    blocks = own or maker.blocks()
    drafts = draft_layers(keys)
    tied = keys.flag("tie_word_embeddings", "tie_embedding")
    tied = top.flag("tie_word_embeddings") if tied is None else tied
    return Stack(
        blocks=blocks,
        embedding=sizes.vocab * sizes.hidden,
        tied=family.tied if tied is None else tied,
        lookups=beside.lookups,
        extra=beside.outside,
        draft=maker.draft(blocks[-1]) * min(drafts, MAX_LAYERS) if drafts else (),
        draft_extra=2 * sizes.hidden * sizes.hidden * drafts,
        tower=tower_elements(top),
    )


class _BlockMaker:
    """Puts mixers and what follows them together, layer by layer."""

    def __init__(
        self,
        keys: ConfigKeys,
        family: Family,
        sizes: _Sizes,
        attention: AttentionReader,
        forward: FeedForwardReader,
        each_block: int,
    ) -> None:
        self._keys = keys
        self._family = family
        self._sizes = sizes
        self._attention = attention
        self._forward = forward
        self._each_block = each_block

    def blocks(self) -> tuple[Block, ...]:
        """All blocks of the stack."""
        kinds = mixers(self._keys, self._family, self._sizes.layers)
        return tuple(block for layer, kind in enumerate(kinds) for block in self._layer(layer, kind))

    def draft(self, last: Block) -> tuple[Block, ...]:
        """One drafting step: by its own pattern where there is one, else a block like the last with attention."""
        letters = self._keys.text("mtp_hybrid_override_pattern")
        words = self._keys.words("mtp_layers_block_type")
        if letters or words:
            kinds = mixers_of_letters(letters, self._keys) if letters else mixers_of_words(words or ())
            return tuple(self._block(0, kind) for kind in kinds)
        attention = self._attention.shape(self._sizes.layers - 1, sliding=False)
        listed = self._keys.states(
            "moe_layers_enum"
        )  # Step lists its sparse layers; those that draft are not among them
        forward = self._forward.mlp(self._sizes.layers - 1) if listed else last.feed_forward
        return (Block(attention=attention, feed_forward=forward),)

    def _layer(self, layer: int, kind: Mixer) -> tuple[Block, ...]:
        block = self._block(layer, kind)
        if block.feed_forward is None or not self._keys.states("zero_expert_num"):
            return (block,)
        # LongCat-Flash: two attentions and two MLPs a layer, the experts beside the first.
        mlp = self._forward.mlp(layer)
        first = replace(block.feed_forward, dense=block.feed_forward.dense + mlp.dense)
        return replace(block, feed_forward=first), Block(attention=block.attention, feed_forward=mlp)

    def _block(self, layer: int, kind: Mixer) -> Block:
        if kind is Mixer.MLP:
            return Block(feed_forward=self._forward.mlp(layer))
        if kind is Mixer.MOE:
            return Block(feed_forward=self._forward.experts(layer))
        attends = kind in {Mixer.FULL, Mixer.SLIDING, Mixer.BOTH}
        remembers = kind in {Mixer.LINEAR, Mixer.BOTH}
        return Block(
            attention=self._attention.shape(layer, sliding=kind is Mixer.SLIDING) if attends else None,
            recurrent=recurrent_shape(self._keys, self._family, self._sizes.hidden) if remembers else None,
            feed_forward=None if self._family.solitary else self._forward.shape(layer),
            extra=self._each_block,
        )


def _note_what_is_strange(keys: ConfigKeys, family: Family, architecture: str) -> None:
    if not family.known:
        keys.assume(
            f"The architecture `{architecture or 'unnamed'}` is not known here: read by its keys, with "
            f"{'three' if family.gated else 'two'} matrices an MLP and plain query, key, value and output projections."
        )
    keys.acknowledge("mtp_hybrid_override_pattern", "mtp_layers_block_type")
    strange = keys.not_understood()
    if strange:
        keys.assume(
            f"Not understood in {keys.source}: {', '.join(f'`{key}`' for key in strange[:12])}"
            f"{' and more' if len(strange) > 12 else ''}; assumed to change no size."
        )


def _made_for(top: ConfigKeys, config: Mapping[str, object]) -> tuple[str, ...]:
    model_id = config.get("_name_or_path")
    named = (model_id,) if isinstance(model_id, str) and model_id else ()
    return (*(top.words("architectures") or ()), *named)
