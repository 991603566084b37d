"""Small models whose sizes can be worked out by hand."""

from widelane.facts.model import (
    AttentionLayers,
    Experts,
    LayerKind,
    ModelFacts,
    Parameters,
    RecurrentLayers,
    Weights,
)
from widelane.figures import Origin

FULL = AttentionLayers(
    kind=LayerKind.FULL,
    count=10,
    heads=32,
    kv_heads=4,
    key_dim=128,
    value_dim=128,
    score_key_dim=128,
    score_value_dim=128,
)
SLIDING = AttentionLayers(
    kind=LayerKind.SLIDING,
    count=30,
    heads=32,
    kv_heads=4,
    key_dim=128,
    value_dim=128,
    score_key_dim=128,
    score_value_dim=128,
    window=1024,
)
LATENT = AttentionLayers(
    kind=LayerKind.MLA,
    count=10,
    heads=16,
    kv_heads=1,
    key_dim=576,
    value_dim=0,
    score_key_dim=192,
    score_value_dim=128,
)
DELTA = RecurrentLayers(kind=LayerKind.DELTA, count=3, conv_dim=1000, conv_kernel=4, state_elements=200_000)
SCAN = RecurrentLayers(kind=LayerKind.MAMBA2, count=3, conv_dim=1000, conv_kernel=4, state_elements=200_000)


def model(*, attention=(FULL,), recurrent=(), experts=None):
    """10^9 parameters, of which 6 * 10^8 in routed experts where there are any; 8 bits each."""
    routed = 600_000_000 if experts else 0
    active_routed = routed * experts.top_k // experts.count if experts else 0
    return ModelFacts(
        name="by-hand",
        source="test",
        architecture="by_hand",
        n_layers=40,
        attention=tuple(attention),
        recurrent=tuple(recurrent),
        experts=experts,
        parameters=Parameters(
            total=1_100_000_000,
            active=1_000_000_000 - routed + active_routed,
            routed_experts=routed,
            embedding=100_000_000,
            output=100_000_000,
            draft_head=20_000_000,
        ),
        weights=Weights(
            total_bytes=1_120_000_000,
            read_bytes=1_000_000_000 - routed,
            routed_expert_bytes=routed,
            embedding_bytes=100_000_000,
            draft_head_bytes=20_000_000,
            other_bytes=0,
            output_bytes=100_000_000,
            quant="fp8",
            origin=Origin.READ,
        ),
        hidden_size=2048,
        vocab_size=50_000,
        context_tokens=131_072,
    )


EIGHT_OF_SIXTY_FOUR = Experts(count=64, top_k=8, shared=0, layers=40)
