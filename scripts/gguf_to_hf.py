"""Write a Llama-architecture GGUF as a Hugging Face folder, so that vLLM can serve the embedded model's weights.

usage: gguf_to_hf.py MODEL.gguf FOLDER     (run it in vLLM's environment: gguf, torch, transformers, safetensors)
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, LlamaConfig

BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
MODEL = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def hf_name(name: str) -> str:
    """The tensor's name in the transformers Llama implementation."""
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{BLOCK[parts[2]]}.weight"
    return f"{MODEL[parts[0]]}.weight"


def rotary_halves(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a q or k projection with the rotary pairs as two halves (transformers), not interleaved (llama.cpp)."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).transpose(0, 2, 1, 3).reshape(rows, columns)


def convert(source: Path, folder: Path) -> None:
    """Write weights, configuration and tokenizer to `folder`."""
    reader = gguf.GGUFReader(source)

    def key(name: str):
        return reader.fields[name].contents()

    heads, kv_heads = key("llama.attention.head_count"), key("llama.attention.head_count_kv")
    weights = {}
    for tensor in reader.tensors:
        shape = [int(size) for size in tensor.shape[::-1]]
        weight = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
        if ".attn_q." in tensor.name:
            weight = rotary_halves(weight, heads)
        elif ".attn_k." in tensor.name:
            weight = rotary_halves(weight, kv_heads)
        weights[hf_name(tensor.name)] = torch.from_numpy(np.ascontiguousarray(weight)).to(torch.bfloat16)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    LlamaConfig(
        architectures=["LlamaForCausalLM"],
        dtype="bfloat16",
        vocab_size=weights["model.embed_tokens.weight"].shape[0],
        hidden_size=key("llama.embedding_length"),
        intermediate_size=key("llama.feed_forward_length"),
        num_hidden_layers=key("llama.block_count"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=key("llama.context_length"),
        rms_norm_eps=key("llama.attention.layer_norm_rms_epsilon"),
        rope_theta=key("llama.rope.freq_base"),
        bos_token_id=key("tokenizer.ggml.bos_token_id"),
        eos_token_id=key("tokenizer.ggml.eos_token_id"),
        tie_word_embeddings="lm_head.weight" not in weights,
    ).save_pretrained(folder)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(folder)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
