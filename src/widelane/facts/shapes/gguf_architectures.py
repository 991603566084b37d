"""Text models that llama.cpp knows: their `general.architecture`, `-` written as `_` (gguf-py `constants.py`)."""

from __future__ import annotations

_WORDS = """
    afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bitnet bloom chatglm codeshell cogvlm cohere2
    command_r dbrx deci deepseek deepseek2 dots1 dream ernie4_5 ernie4_5_moe exaone exaone4 exaone_moe falcon
    falcon_h1 gemma gemma2 gemma3 gemma3n gemma4 glm4 glm4moe glm_dsa gpt2 gpt_oss gptj gptneox granite granitehybrid
    granitemoe grok grovemoe hunyuan_dense hunyuan_moe internlm2 jais jamba kimi_linear lfm2 lfm2moe llada llama
    llama4 llama_embed maincoder mamba mamba2 mimo2 minicpm minicpm3 minimax_m2 mistral3 mistral4 mpt nemotron
    nemotron_h nemotron_h_moe olmo olmo2 olmoe openelm orion pangu_embedded phi2 phi3 phimoe plamo plamo2 plamo3 qwen
    qwen2 qwen2moe qwen2vl qwen3 qwen35 qwen35moe qwen3moe qwen3next qwen3vl qwen3vlmoe refact rnd1 rwkv6 rwkv6qwen2
    rwkv7 seed_oss smallthinker smollm3 stablelm starcoder starcoder2 step35 xverse
"""

GGUF_ARCHITECTURES = frozenset(_WORDS.split())
