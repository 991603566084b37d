"""A Llama of two layers whose every count can be worked out by hand, and its tensors."""

from __future__ import annotations

from typing import Any

from widelane.facts.files.tensor_types import TensorInfo
from widelane.facts.model import LayerKind, ModelFacts
from widelane.facts.shapes.hf_config import model_from_config

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def read(config: dict[str, Any], **words: Any) -> ModelFacts:
    return model_from_config(config, name="a model", source="config.json", **words)


def layers_of(facts: ModelFacts, kinds: set[LayerKind]) -> int:
    return sum(group.count for group in (*facts.attention, *facts.recurrent) if group.kind in kinds)


def tensors(*, draft: bool = False, packed: bool = False, wider: int = 1) -> list[TensorInfo]:
    """The tensors of LLAMA in bf16."""

    def matrix(name: str, rows: int, columns: int) -> TensorInfo:
        return TensorInfo(f"{name}.weight", (rows, columns), "BF16", 2 * rows * columns)

    found = [matrix("model.embed_tokens", 100, 64), matrix("lm_head", 100, 64)]
    for layer in range(2 + draft):
        at = f"model.layers.{layer}."
        found += [matrix(f"{at}self_attn.{p}_proj", 64, 64) for p in "qo"]
        found += [matrix(f"{at}self_attn.{p}_proj", 32, 64) for p in "kv"]
        found += [matrix(f"{at}mlp.{p}_proj", 128 * wider, 64) for p in ("gate", "up", "down")]
        found += [TensorInfo(f"{at}input_layernorm.weight", (64,), "BF16", 128)]
    if packed:
        found.append(TensorInfo("model.layers.0.mlp.up_proj.qweight", (8, 128), "I32", 4096))
    return found
