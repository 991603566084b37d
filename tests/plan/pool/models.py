"""Model facts by hand, from the published configs, for the tests of pools and memory."""

from __future__ import annotations

from widelane.facts.model import AttentionLayers, LayerKind, ModelFacts, Parameters, RecurrentLayers, Weights
from widelane.figures import Origin


def attention(count: int, kv_heads: int, dim: int, *, window: int | None = None, sharing: int = 0) -> AttentionLayers:
    """Ordinary attention layers, K and V of the same dimension."""
    return AttentionLayers(
        kind=LayerKind.FULL if window is None else LayerKind.SLIDING,
        count=count,
        heads=kv_heads * 4,
        kv_heads=kv_heads,
        key_dim=dim,
        value_dim=dim,
        score_key_dim=dim,
        score_value_dim=dim,
        window=window,
        sharing=sharing,
    )


def latent_attention(count: int, row: int) -> AttentionLayers:
    """MLA layers that keep one row of `row` elements a token."""
    return AttentionLayers(
        kind=LayerKind.MLA,
        count=count,
        heads=128,
        kv_heads=1,
        key_dim=row,
        value_dim=0,
        score_key_dim=192,
        score_value_dim=128,
    )


def delta(count: int, conv_dim: int, state_elements: int, dtype: str | None = "float32") -> RecurrentLayers:
    """Gated delta net layers with a convolution of width 4."""
    return RecurrentLayers(
        kind=LayerKind.DELTA,
        count=count,
        conv_dim=conv_dim,
        conv_kernel=4,
        state_elements=state_elements,
        state_dtype=dtype,
    )


def weights(total: int, *, draft_head: int = 0, quant: str = "bf16") -> Weights:
    return Weights(
        total_bytes=total,
        read_bytes=total - draft_head,
        routed_expert_bytes=0,
        embedding_bytes=0,
        draft_head_bytes=draft_head,
        other_bytes=0,
        output_bytes=0,
        quant=quant,
        origin=Origin.READ,
    )


def model(
    name: str,
    attention: tuple[AttentionLayers, ...] = (),
    recurrent: tuple[RecurrentLayers, ...] = (),
    *,
    architecture: str = "llama",
    draft_layers: int = 0,
    hidden: int | None = 4096,
    vocab: int | None = 128_000,
    context: int | None = 262_144,
    size: Weights | None = None,
) -> ModelFacts:
    return ModelFacts(
        name=name,
        source=f"{name}.json",
        architecture=architecture,
        n_layers=sum(a.count for a in attention) + sum(r.count for r in recurrent),
        attention=attention,
        recurrent=recurrent,
        experts=None,
        parameters=Parameters(total=1, active=1, routed_experts=0, embedding=0, output=0),
        weights=size or weights(10**9),
        hidden_size=hidden,
        vocab_size=vocab,
        context_tokens=context,
        draft_layers=draft_layers,
    )


QWEN36_27B = model(
    "qwen3.6-27b",
    (attention(16, 4, 256),),
    (delta(48, 10_240, 786_432),),
    architecture="qwen3_5_text",
    draft_layers=1,
    hidden=5120,
    vocab=248_320,
    size=weights(28_500_000_000, draft_head=500_000_000, quant="fp8"),
)
QWEN36_35B = model("qwen3.6-35b-a3b", (attention(10, 2, 256),), (delta(30, 8192, 524_288),), architecture="qwen3_5_moe")
SMOLLM2 = model(
    "smollm2-135m", (attention(30, 3, 64),), hidden=576, vocab=49_152, context=8192, size=weights(269_060_000)
)
LLAMA_8B = model("llama-3.1-8b", (attention(32, 8, 128),), vocab=128_256, context=131_072)
GEMMA3_27B = model("gemma-3-27b", (attention(52, 16, 128, window=1024), attention(10, 16, 128)), context=131_072)
GEMMA4_31B = model("gemma-4-31b", (attention(10, 4, 512), attention(50, 16, 256, window=1024)))
GPT_OSS_20B = model("gpt-oss-20b", (attention(12, 8, 64), attention(12, 8, 64, window=128)), context=131_072)
DEEPSEEK_V3 = model("deepseek-v3", (latent_attention(61, 576),), draft_layers=1, context=163_840)
NEMOTRON_3_NANO = model(
    "nemotron-3-nano-30b-a3b",
    (attention(6, 2, 128),),
    (
        RecurrentLayers(
            kind=LayerKind.MAMBA2,
            count=23,
            conv_dim=6144,
            conv_kernel=4,
            state_elements=524_288,
            state_dtype="float32",
        ),
    ),
    architecture="nemotron_h",
)
MAMBA = model(
    "mamba-2.8b",
    (),
    (RecurrentLayers(kind=LayerKind.MAMBA, count=64, conv_dim=5120, conv_kernel=4, state_elements=81_920),),
    architecture="mamba",
    context=None,
)
TINY_NEXT = model("tiny-next", (attention(3, 1, 64),), (delta(9, 2048, 131_072, None),), architecture="qwen3_next")
"""The tiny random model of the recorded vLLM pools: 8 value heads of 128, 4 key heads of 128, one KV head of 64."""
TINY_35 = model("tiny-3.5", (attention(3, 1, 64),), (delta(9, 2048, 131_072),), architecture="qwen3_5_text")
