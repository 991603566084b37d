"""A model from a GGUF header: layers from the metadata, parameters and bytes from the tensor table."""

from __future__ import annotations

from collections.abc import Sequence

from widelane.errors import UnreadableModel
from widelane.facts.files.gguf_header import ArrayInfo, GgufHeader
from widelane.facts.files.tensor_types import TensorInfo
from widelane.facts.model import ModelFacts, Parameters, Weights
from widelane.facts.shapes.config_keys import ConfigKeys
from widelane.facts.shapes.families import Family, family_of
from widelane.facts.shapes.gguf_architectures import GGUF_ARCHITECTURES
from widelane.facts.shapes.gguf_blocks import GgufBlocks, block_counts, tensors_by_block
from widelane.facts.shapes.parameters import attention_groups, experts_of, parameters_by_role, recurrent_groups
from widelane.facts.weights.quant import Format, format_of, format_of_bits
from widelane.facts.weights.sizes import PartElements, weights_from_counts, weights_from_tensors
from widelane.facts.weights.tensor_roles import Role, is_matrix, main_type, matrix_elements, roles_of
from widelane.figures import Origin

_Roles = Sequence[tuple[TensorInfo, Role]]

_FILE_TYPES = {
    0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 9: "q5_1", 10: "q2_k", 11: "q3_k_s",
    12: "q3_k_m", 13: "q3_k_l", 14: "q4_k_s", 15: "q4_k_m", 16: "q5_k_s", 17: "q5_k_m", 18: "q6_k", 19: "iq2_xxs",
    20: "iq2_xs", 21: "q2_k_s", 22: "iq3_xs", 23: "iq3_xxs", 24: "iq1_s", 25: "iq4_nl", 26: "iq3_s", 27: "iq3_m",
    28: "iq2_s", 29: "iq2_m", 30: "iq4_xs", 31: "iq1_m", 32: "bf16", 36: "tq1_0", 37: "tq2_0", 38: "mxfp4",
    39: "nvfp4",
}  # fmt: skip
"""`general.file_type` (`enum llama_ftype` of llama.h) → the mix's name."""
_GUESSED = 1024
"""Added to a file type that the writer guessed (LLAMA_FTYPE_GUESSED)."""
_NAMES = {"qwen35": "qwen3_5", "qwen35moe": "qwen3_5_moe", "qwen3next": "qwen3_next"}
"""Architectures whose GGUF name differs from the `model_type` by more than punctuation, where a habit hangs on it."""


def model_from_gguf(
    header: GgufHeader,
    *,
    name: str | None = None,
    source: str | None = None,
    quant: str | None = None,
    weights_bytes: float | None = None,
) -> ModelFacts:
    """The model that a GGUF header describes.

    Args:
        name, source: how it is called and where it lies; the file's own name and path otherwise.
        quant, weights_bytes: another format or size than the file's, for a plan.

    Raises:
        UnreadableModel: the file holds no language model, or a key without which there is no shape is missing.
    """
    where = source or str(header.path)
    metadata = header.metadata
    architecture = _text(metadata.get("general.architecture"))
    _refuse_what_is_no_model(architecture, metadata.get("general.type"), where)
    assumed: list[str] = []
    prefix = f"{architecture}."
    own = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    keys = ConfigKeys(own, source=where, path=prefix, assumed=assumed)
    names = tensors_by_block(header.tensors)
    layers, drafts = block_counts(keys, names)
    family = _family(architecture, assumed)
    blocks = GgufBlocks(keys, family, own.get("attention.sliding_window_pattern"), names, layers).blocks()
    roles = roles_of(header.tensors, layers=layers)
    experts = experts_of(blocks)
    _note_what_is_strange(keys, roles)
    parameters = parameters_by_role(
        matrix_elements(roles), visited=experts.top_k if experts else 0, of=experts.count if experts else 0
    )
    return ModelFacts(
        name=name or _text(metadata.get("general.name")) or header.path.stem,
        source=where,
        architecture=architecture,
        n_layers=layers,
        attention=attention_groups(blocks),
        recurrent=recurrent_groups(blocks, None),
        experts=experts,
        parameters=parameters,
        weights=_weights(header, roles, parameters, keys, quant=quant, weights_bytes=weights_bytes),
        hidden_size=keys.maybe("embedding_length"),
        vocab_size=_vocabulary(header, keys),
        context_tokens=keys.maybe("context_length"),
        draft_layers=drafts,
        chat_template=_text(metadata.get("tokenizer.chat_template")) or None,
        assumed=tuple(assumed),
        made_for=tuple(text for key in ("general.name", "general.basename") if (text := _text(metadata.get(key)))),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _refuse_what_is_no_model(architecture: str, kind: object, where: str) -> None:
    if not architecture:
        raise UnreadableModel(f"{where} does not state `general.architecture`; it is no GGUF file of a model.")
    if architecture == "clip" or kind in {"mmproj", "adapter", "imatrix"}:
        raise UnreadableModel(
            f"{where} holds no language model, but {'a vision projector' if architecture == 'clip' else kind}; give "
            "the model's own GGUF file."
        )


def _family(architecture: str, assumed: list[str]) -> Family:
    plain = architecture.lower().replace("-", "_")
    family = family_of(_NAMES.get(plain, plain))
    if plain not in GGUF_ARCHITECTURES and not family.known:
        assumed.append(
            f"The architecture `{architecture}` is not known here: its layers were read by the names of their tensors."
        )
    return family


def _note_what_is_strange(keys: ConfigKeys, roles: _Roles) -> None:
    if keys.maybe("attention.kv_lora_rank") and not keys.maybe("attention.key_length_mla"):
        keys.assume(
            "`attention.key_length_mla` is not stated: an older conversion, for which llama.cpp caches the expanded "
            "heads; convert the model anew for a cache many times smaller."
        )
    if not any(role is Role.EMBEDDING for _, role in roles):
        keys.assume("The file lists no `token_embd` tensor: the embedding is counted as 0.")


def _vocabulary(header: GgufHeader, keys: ConfigKeys) -> int | None:
    stated = keys.maybe("vocab_size")
    words = header.metadata.get("tokenizer.ggml.tokens")
    return stated or (words.count if isinstance(words, ArrayInfo) else None)


def _weights(
    header: GgufHeader,
    roles: _Roles,
    parameters: Parameters,
    keys: ConfigKeys,
    *,
    quant: str | None,
    weights_bytes: float | None,
) -> Weights:
    if quant is None and weights_bytes is None:
        return weights_from_tensors(roles, quant=_own_format(header, roles))
    tied = not any(role is Role.OUTPUT for _, role in roles)
    parts = _parts(roles, parameters, tied=tied)
    made = _planned(keys, parts, quant, weights_bytes)
    origin = Origin.INFERRED if quant is not None else Origin.READ
    return weights_from_counts(parts, made, tied=tied, origin=origin, total_bytes=weights_bytes)


def _planned(keys: ConfigKeys, parts: PartElements, quant: str | None, weights_bytes: float | None) -> Format:
    if quant is not None:
        return format_of(quant)
    bits = 8 * (weights_bytes or 0.0) / max(1, sum(parts))
    found = format_of_bits(bits)
    keys.assume(f"No weight format was named: {bits:.2f} bits a parameter were taken for {found.name}.")
    return found


def _own_format(header: GgufHeader, roles: _Roles) -> str:
    """The mix by `general.file_type` where it fits the tensors, else the type that holds most bytes."""
    stored = (main_type(roles) or "unknown").lower()
    kind = header.metadata.get("general.file_type")
    named = _FILE_TYPES.get(kind % _GUESSED) if isinstance(kind, int) else None
    if named is None:
        return stored
    same = stored.split("_")[0] == named.split("_")[0]
    return named if same or stored == "unknown" else stored


def _parts(roles: _Roles, parameters: Parameters, *, tied: bool) -> PartElements:
    read = {True: 0, False: 0}
    lookups = tower = 0
    for tensor, role in roles:
        if not is_matrix(tensor):
            continue
        if role is Role.READ:
            read[".ffn_" in tensor.name] += tensor.elements
        lookups += tensor.elements if role is Role.LOOKUP else 0
        tower += tensor.elements if role is Role.OTHER else 0
    return PartElements(
        mixers=read[False],
        mlps=read[True],
        experts=parameters.routed_experts,
        embedding=lookups if tied else parameters.embedding,
        output=parameters.output,
        draft=parameters.draft_head,
        tower=tower,
    )
