"""What a tensor is for, by its name, in safetensors and GGUF files; and which tensors count as parameters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

from widelane.facts.files.tensor_types import TensorInfo


class Role(StrEnum):
    """What a decode step does with a tensor."""

    READ = "read"
    ROUTED = "routed-experts"
    EMBEDDING = "embedding"
    LOOKUP = "lookup"
    """Further tables of which a token reads one row: per-layer embeddings, positions."""
    OUTPUT = "output"
    DRAFT = "draft"
    OTHER = "other"
    """Vision and audio towers, projectors."""


_TOWER = re.compile(
    r"^(v|a|mm)\.|(^|\.)(visual|vision\w*|audio\w*|image\w*|img\w*|embed_vision|embed_audio|multi_?modal\w*|mm_projector"
    r"|aligner|connector|sound\w*|vit|patch_embed\w*|pooling_2d|siglip\w*|perceive\w*|resampler)\."
)
_DRAFT = re.compile(r"(^|\.)(mtp\w*|nextn|eagle\w*|medusa\w*|dflash\w*)\.")
_COPIES = re.compile(r"nextn\.(embed_tokens|shared_head_head)\.|\.(shared_head\.head)\.")
_ROUTED = re.compile(r"\.(experts|local_experts)\.|_exps\.|\.experts_|\.switch_mlp\.")
_SHARED = re.compile(r"shared_experts?\.|shared_mlp|_shexp\.")
_EMBEDDING = re.compile(
    r"(^|\.)(embed_tokens|wte|word_embeddings|embed_in|tok_embeddings|token_embd|emb|embedding|embeddings)"
    r"\.(weight|scales|biases|qweight|word_embeddings)"
)
_LOOKUP = re.compile(r"(^|\.)(embed_tokens_per_layer|per_layer_token_embd|wpe|position_embd|embed_positions)\.")
_OUTPUT = re.compile(r"(^|\.)(lm_head|embed_out|output_layer)\.|^(output|head|model\.output|rwkv\.head)\.")
_LAYER = re.compile(r"(?:^|\.)(?:layers|blk|h|blocks)\.(\d+)\.")

_WITHOUT_DIGITS = {ord(digit): None for digit in "0123456789"}

_FLOATS = frozenset(("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"))
_SCALES = re.compile(
    r"(scale|scales|scale_inv|zeros|qzeros|g_idx|zero_point|weight_shape|absmax|quant_map|quant_state)"
)


def role_of(name: str, *, layers: int) -> Role:
    """The role of one tensor in a model of `layers` layers; a layer beyond them drafts."""
    dotted = name if "." in name else f"{name}."
    if _TOWER.search(dotted):
        return Role.OTHER
    numbered = _LAYER.search(dotted)
    if _DRAFT.search(dotted) or (numbered and int(numbered[1]) >= layers):
        return Role.OTHER if _COPIES.search(dotted) else Role.DRAFT
    if _ROUTED.search(dotted) and not _SHARED.search(dotted):
        return Role.ROUTED
    if _LOOKUP.search(dotted):
        return Role.LOOKUP
    if numbered is None and _EMBEDDING.search(dotted):
        return Role.EMBEDDING
    return Role.OUTPUT if numbered is None and _OUTPUT.search(dotted) else Role.READ


def roles_of(tensors: Iterable[TensorInfo], *, layers: int) -> list[tuple[TensorInfo, Role]]:
    """All tensors with their roles.

    Names that differ in numbers only are looked at once: a checkpoint of experts lists a hundred thousand of them.
    """
    known: dict[tuple[str, bool], Role] = {}
    found: list[tuple[TensorInfo, Role]] = []
    for tensor in tensors:
        numbered = _LAYER.search(tensor.name)
        form = (tensor.name.translate(_WITHOUT_DIGITS), numbered is not None and int(numbered[1]) >= layers)
        role = known.get(form)
        if role is None:
            role = known[form] = role_of(tensor.name, layers=layers)
        found.append((tensor, role))
    return found


def is_matrix(tensor: TensorInfo) -> bool:
    """Whether a tensor counts as parameters: at least two dimensions beyond 1, no bias, no scale."""
    wide = sum(size > 1 for size in tensor.shape)
    return wide >= 2 and _is_weight(tensor.name.rsplit(".", 1)[-1])


@lru_cache(maxsize=256)
def _is_weight(last: str) -> bool:
    return not last.endswith("bias") and not _SCALES.search(last)


def is_packed(tensor: TensorInfo, *, gguf: bool) -> bool:
    """Whether elements of a tensor hold several weights each, so that its shape does not tell the count."""
    return not gguf and is_matrix(tensor) and tensor.type not in _FLOATS


def matrix_elements(tensors: Iterable[tuple[TensorInfo, Role]]) -> Counter[Role]:
    """Elements of matrices by role."""
    counts: Counter[Role] = Counter()
    for tensor, role in tensors:
        if is_matrix(tensor):
            counts[role] += tensor.elements
    return counts


def main_type(tensors: Iterable[tuple[TensorInfo, Role]]) -> str | None:
    """The type that holds most bytes of what decoding reads, None without tensors."""
    sizes: Counter[str] = Counter()
    for tensor, role in tensors:
        if role in {Role.READ, Role.ROUTED} and is_matrix(tensor):
            sizes[tensor.type] += tensor.bytes
    return sizes.most_common(1)[0][0] if sizes else None
