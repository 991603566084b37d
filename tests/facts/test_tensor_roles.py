"""What tensors are for, by the names that checkpoints and GGUF files give them."""

from __future__ import annotations

import pytest

from widelane.facts.files.tensor_types import TensorInfo
from widelane.facts.weights.sizes import weights_from_tensors
from widelane.facts.weights.tensor_roles import Role, is_matrix, is_packed, role_of, roles_of

NAMES: list[tuple[str, Role]] = [
    ("model.embed_tokens.weight", Role.EMBEDDING),
    ("model.language_model.embed_tokens.weight", Role.EMBEDDING),
    ("transformer.wte.weight", Role.EMBEDDING),
    ("backbone.embeddings.weight", Role.EMBEDDING),
    ("token_embd.weight", Role.EMBEDDING),
    ("per_layer_token_embd.weight", Role.LOOKUP),
    ("model.language_model.embed_tokens_per_layer.weight", Role.LOOKUP),
    ("lm_head.weight", Role.OUTPUT),
    ("output.weight", Role.OUTPUT),
    ("output_norm.weight", Role.READ),
    ("model.norm.weight", Role.READ),
    ("token_embd_norm.weight", Role.READ),
    ("model.layers.3.self_attn.q_proj.weight", Role.READ),
    ("model.layers.3.self_attn.q_proj.weight_scale_inv", Role.READ),
    ("model.layers.3.mlp.gate.weight", Role.READ),
    ("model.layers.3.mlp.gate.e_score_correction_bias", Role.READ),
    ("model.layers.3.mlp.experts.17.down_proj.weight", Role.ROUTED),
    ("model.layers.3.mlp.experts.down_proj_blocks", Role.ROUTED),
    ("model.layers.3.mlp.experts.17.down_proj.weight_scale_inv", Role.ROUTED),
    ("model.layers.3.block_sparse_moe.experts.0.w1.weight", Role.ROUTED),
    ("model.layers.3.mlp.switch_mlp.up_proj.weight", Role.ROUTED),
    ("model.layers.3.mlp.shared_experts.up_proj.weight", Role.READ),
    ("model.layers.3.mlp.shared_expert.up_proj.weight", Role.READ),
    ("backbone.layers.1.mixer.experts.5.up_proj.weight", Role.ROUTED),
    ("blk.3.ffn_up_exps.weight", Role.ROUTED),
    ("blk.3.ffn_gate_inp.weight", Role.READ),
    ("blk.3.ffn_up_shexp.weight", Role.READ),
    ("blk.3.attn_output.weight", Role.READ),
    ("blk.3.ssm_conv1d.weight", Role.READ),
    ("mtp.layers.0.self_attn.q_proj.weight", Role.DRAFT),
    ("mtp.fc.weight", Role.DRAFT),
    ("model.mtp_layers.0.mlp.up_proj.weight", Role.DRAFT),
    ("model.layers.4.eh_proj.weight", Role.DRAFT),
    ("model.layers.4.mlp.experts.3.up_proj.weight", Role.DRAFT),
    ("model.layers.4.shared_head.head.weight", Role.OTHER),
    ("blk.4.nextn.eh_proj.weight", Role.DRAFT),
    ("blk.4.ffn_up_exps.weight", Role.DRAFT),
    ("blk.4.nextn.embed_tokens.weight", Role.OTHER),
    ("model.visual.blocks.9.attn.qkv.weight", Role.OTHER),
    ("vision_tower.vision_model.encoder.layers.9.mlp.fc1.weight", Role.OTHER),
    ("model.vision_tower.encoder.layers.3.mlp.up_proj.weight", Role.OTHER),
    ("multi_modal_projector.linear_1.weight", Role.OTHER),
    ("audio_tower.layers.0.fc1.weight", Role.OTHER),
    ("v.blk.0.attn_q.weight", Role.OTHER),
    ("mm.0.weight", Role.OTHER),
]


@pytest.mark.parametrize(("name", "role"), NAMES, ids=[row[0] for row in NAMES])
def test_roles_by_name_in_a_model_of_four_layers(name: str, role: Role) -> None:
    assert role_of(name, layers=4) is role


def test_roles_of_many_are_those_of_each() -> None:
    tensors = [TensorInfo(name, (2, 2), "BF16", 8) for name, _ in NAMES]
    tensors += [TensorInfo(f"model.layers.{layer}.mlp.up_proj.weight", (2, 2), "BF16", 8) for layer in range(6)]
    roles = [role for _, role in roles_of(tensors, layers=4)]
    assert roles == [role for _, role in NAMES] + [Role.READ] * 4 + [Role.DRAFT] * 2


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [
        ("a.weight", (4, 8), True),
        ("a.weight", (8,), False),
        ("a.conv1d.weight", (8, 1, 4), True),
        ("a.ssm_a", (1, 8), False),
        ("a.shared_expert_gate.weight", (1, 8), False),
        ("a.experts.gate_up_proj_bias", (4, 8), False),
        ("a.weight_scale_inv", (4, 8), False),
        ("a.qzeros", (4, 8), False),
    ],
)
def test_matrices_and_convolutions_count_as_parameters(name: str, shape: tuple[int, ...], *, counts: bool) -> None:
    assert is_matrix(TensorInfo(name, shape, "BF16", 64)) is counts


def test_integers_in_a_checkpoint_are_packed_weights_and_in_a_gguf_file_are_not() -> None:
    packed = TensorInfo("a.qweight", (4, 8), "I32", 128)
    assert is_packed(packed, gguf=False)
    assert not is_packed(TensorInfo("a.weight", (4, 8), "Q4_K", 18), gguf=True)
    assert not is_packed(TensorInfo("a.weight", (4, 8), "BF16", 64), gguf=False)


def test_without_an_output_tensor_the_embedding_is_read_in_every_step() -> None:
    embedding = TensorInfo("token_embd.weight", (10, 4), "Q8_0", 1000)
    output = TensorInfo("output.weight", (10, 4), "Q6_K", 700)
    rest = TensorInfo("blk.0.attn_q.weight", (4, 4), "Q4_K", 300)
    tied = weights_from_tensors([(embedding, Role.EMBEDDING), (rest, Role.READ)], quant="q4_k_m")
    assert (tied.read_bytes, tied.embedding_bytes, tied.output_bytes) == (1300, 0, 1000)
    untied = weights_from_tensors(
        [(embedding, Role.EMBEDDING), (output, Role.OUTPUT), (rest, Role.READ)], quant="q4_k_m"
    )
    assert (untied.read_bytes, untied.embedding_bytes, untied.output_bytes) == (1000, 1000, 700)
    assert untied.by_type == {"Q8_0": 1000, "Q6_K": 700, "Q4_K": 300}
