"""Small models on disk for the tests: true headers, no weights."""

import json
from pathlib import Path

from widelane.facts.files.tensor_types import TensorInfo
from widelane.testing.model_files import Value, tensor, write_gguf, write_safetensors

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
MATRICES = 106_496
"""Parameters by hand: embedding and output 2 · 256·64; each of two layers q and o 2 · 64·64, k and v 2 · 32·64, MLP
3 · 128·64."""
NORMS = 320
"""Elements that count as no parameters and take bytes all the same: 2 · 64 a layer, and the last norm's 64."""
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"

GGUF_METADATA: dict[str, Value] = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "llama.block_count": 2,
    "llama.context_length": 2048,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 128,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.vocab_size": 256,
    "tokenizer.chat_template": TEMPLATE,
}


def write_config(folder: Path, **changes: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps(CONFIG | changes))
    return path


def checkpoint_tensors(kind: str = "BF16") -> list[TensorInfo]:
    """The tensors of `CONFIG`, embedding first."""
    tensors = [tensor("model.embed_tokens.weight", (256, 64), kind)]
    for layer in range(2):
        shapes = {
            "self_attn.q_proj": (64, 64),
            "self_attn.k_proj": (32, 64),
            "self_attn.v_proj": (32, 64),
            "self_attn.o_proj": (64, 64),
            "mlp.gate_proj": (128, 64),
            "mlp.up_proj": (128, 64),
            "mlp.down_proj": (64, 128),
            "input_layernorm": (64,),
            "post_attention_layernorm": (64,),
        }
        tensors += [tensor(f"model.layers.{layer}.{name}.weight", shape, kind) for name, shape in shapes.items()]
    return [*tensors, tensor("model.norm.weight", (64,), kind), tensor("lm_head.weight", (256, 64), kind)]


def write_checkpoint(folder: Path, *, shards: int = 1) -> Path:
    """A folder as on the hub: config, weights, and with several shards their index."""
    write_config(folder)
    tensors = checkpoint_tensors()
    if shards == 1:
        write_safetensors(folder / "model.safetensors", tensors, metadata={"format": "pt"})
        return folder
    weight_map: dict[str, str] = {}
    for number in range(shards):
        name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        held = tensors[number::shards]
        write_safetensors(folder / name, held)
        weight_map |= {each.name: name for each in held}
    total = sum(each.bytes for each in tensors)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def write_tiny_gguf(path: Path, kind: str = "Q8_0", **metadata: Value) -> Path:
    """The same model as a GGUF, its matrices in `kind`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = [tensor("token_embd.weight", (256, 64), kind)]
    for layer in range(2):
        shapes = {
            "attn_q": (64, 64),
            "attn_k": (32, 64),
            "attn_v": (32, 64),
            "attn_output": (64, 64),
            "ffn_gate": (128, 64),
            "ffn_up": (128, 64),
            "ffn_down": (64, 128),
        }
        tensors += [tensor(f"blk.{layer}.{name}.weight", shape, kind) for name, shape in shapes.items()]
        tensors += [tensor(f"blk.{layer}.{name}.weight", (64,), "F32") for name in ("attn_norm", "ffn_norm")]
    tensors += [tensor("output_norm.weight", (64,), "F32"), tensor("output.weight", (256, 64), kind)]
    return write_gguf(path, GGUF_METADATA | metadata, tensors)


def write_hub_model(hub: Path, name: str, *, revision: str = "0123abcd") -> Path:
    """The folder of a snapshot in a Hugging Face cache, `main` pointing to it; still empty."""
    folder = hub / f"models--{name.replace('/', '--')}"
    snapshot = folder / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / "main").write_text(revision)
    return snapshot
