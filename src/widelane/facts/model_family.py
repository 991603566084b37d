"""What a model needs, by the form of its chat template or, failing that, by its name: parsers, state, draft head.

Parser names are those of vLLM 0.32 and SGLang 0.5.23. A name is a weaker sign than a template, and advice says so.
"""

from __future__ import annotations

from typing import NamedTuple


class Parsers(NamedTuple):
    """Parser names of one form or family: for vLLM and for SGLang, None where there is none."""

    vllm: str | None
    sglang: str | None


_TOOL_FORMS: tuple[tuple[str, str], ...] = (
    ("<function=", "function-xml"),
    ("[TOOL_CALLS]", "mistral"),
    ("<|tool▁calls▁begin|>", "deepseek"),
    ("<\uff5ctool▁calls▁begin\uff5c>", "deepseek"),
    ("<\uff5cDSML\uff5c", "deepseek-dsml"),
    ("<|tool_call>", "gemma4"),
    ("<seed:tool_call>", "seed"),
    ("<|tool_call_start|>", "lfm2"),
    ("<arg_key>", "glm"),
    ("<|channel|>", "harmony"),
    ("<minimax:tool_call>", "minimax"),
    ("<|tool_calls_section_begin|>", "kimi"),
    ("<|python_tag|>", "llama3-json"),
    ("<tool_call>", "hermes-json"),
)
"""What a template (or a reply with a call left in it) holds → the form; the first that is found decides."""

_TOOL_PARSERS: dict[str, Parsers] = {
    "function-xml": Parsers("qwen3_xml", "qwen3_coder"),
    "hermes-json": Parsers("hermes", "qwen25"),
    "mistral": Parsers("mistral", "mistral"),
    "llama3-json": Parsers("llama3_json", "llama3"),
    "deepseek": Parsers("deepseek_v3", "deepseekv3"),
    "deepseek-dsml": Parsers("deepseek_v32", "deepseekv32"),
    "gemma4": Parsers("gemma4", "gemma4"),
    "seed": Parsers("seed_oss", None),
    "lfm2": Parsers("lfm2", "lfm2"),
    "glm": Parsers("glm45", "glm45"),
    "harmony": Parsers("openai", "gpt-oss"),
    "minimax": Parsers("minimax_m2", "minimax-m2"),
    "kimi": Parsers("kimi_k2", "kimi_k2"),
}

_FAMILY_FORMS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("qwen3-coder", "qwen3.5", "qwen3_5", "qwen35", "qwen3.6", "qwen3_6", "qwen3.8", "nemotron-3"), "function-xml"),
    (("qwen", "hermes"), "hermes-json"),
    (("mistral", "devstral", "magistral", "ministral"), "mistral"),
    (("llama-3", "llama3", "llama_3"), "llama3-json"),
    (("deepseek-v3.2", "deepseek_v32"), "deepseek-dsml"),
    (("deepseek",), "deepseek"),
    (("glm-4", "glm4"), "glm"),
    (("gpt-oss", "gpt_oss"), "harmony"),
    (("gemma-4", "gemma4"), "gemma4"),
    (("seed-oss", "seed_oss"), "seed"),
    (("lfm2",), "lfm2"),
    (("minimax-m2",), "minimax"),
    (("kimi-k2",), "kimi"),
)

_REASONING: tuple[tuple[tuple[str, ...], Parsers], ...] = (
    (("deepseek-r1", "r1-distill", "qwq"), Parsers("deepseek_r1", "deepseek-r1")),
    (("deepseek-v3",), Parsers("deepseek_v3", "deepseek-v3")),
    (("qwen3", "qwen-3"), Parsers("qwen3", "qwen3")),
    (("glm-4", "glm4"), Parsers("glm45", "glm45")),
    (("gemma-4", "gemma4"), Parsers("gemma4", "gemma4")),
    (("nemotron-3", "nemotron3"), Parsers("nemotron_v3", "nemotron_3")),
    (("seed-oss", "seed_oss"), Parsers("seed_oss", None)),
    (("granite-3", "granite3"), Parsers("granite", None)),
    (("gpt-oss", "gpt_oss"), Parsers("openai_gptoss", "gpt-oss")),
    (("minimax-m2",), Parsers("minimax_m2_append_think", "minimax-append-think")),
    (("hunyuan-a13b",), Parsers("hunyuan_a13b", None)),
    (("ernie-4.5", "ernie4"), Parsers("ernie45", None)),
    (("magistral", "mistral"), Parsers("mistral", None)),
    (("kimi-k2",), Parsers("kimi_k2", "kimi_k2")),
)

_THINK = (
    *("deepseek-r1", "r1-distill", "qwq", "qwen3", "magistral", "gpt-oss", "gpt_oss", "glm-4.5", "glm-4.6", "glm-4.7"),
    *("gemma-4", "gemma4", "nemotron-3", "minimax-m2", "kimi-k2-thinking", "seed-oss", "seed_oss", "hunyuan-a13b"),
)
"""Families that think unless they are told not to."""
_NEVER_THINK = ("coder", "instruct", "-base", "embedding", "reranker")
"""Models of those families that do not: Qwen3-Coder, the -Instruct-2507 series, Qwen3-Next-…-Instruct, base models."""

FLOAT32_STATE = ("qwen3.5", "qwen3_5", "qwen35", "qwen3.6", "qwen3_6", "nemotron-h", "nemotron_h", "nemotronh")
"""Families whose checkpoints name float32 for the recurrent state, so that `auto` means float32."""


_RECURRENT = ("mamba", "qwen3-next", "qwen3_next", "falcon-h1", "kimi-linear", "jamba", "lfm2", "granite-4", "rwkv")
"""Families with recurrent layers, beside those whose state is in float32."""

_DRAFT_HEADS = (
    *FLOAT32_STATE[:6],
    "qwen3-next",
    "qwen3_next",
    "deepseek-v3",
    "deepseek-r1",
    "glm-4.5",
    "glm-4.6",
    "mimo",
)
"""Families whose checkpoints ship layers that draft (multi-token prediction); a conversion may have dropped them."""

ONE_SLOT_ARCHITECTURES = ("qwen35", "qwen35moe", "qwen3next", "qwen3vl", "qwen3vlmoe", "lfm2", "lfm2moe", "mllama")
"""Ollama runs these one request at a time, whatever OLLAMA_NUM_PARALLEL says; and all `nemotron_h*`."""


def tool_form(text: str) -> str | None:
    """The form of tool calls in a chat template, or of a call left in a reply; None when there is none."""
    return next((form for sign, form in _TOOL_FORMS if sign in text), None)


def thinks(template: str) -> bool:
    """Whether a chat template knows reasoning."""
    return any(sign in template for sign in ("<think>", "</think>", "enable_thinking", "reasoning_content"))


def thinks_by_name(model: str) -> bool:
    """Whether models of this name think before they answer. A chat template is the better sign."""
    name = model.lower()
    if any(part in name for part in _NEVER_THINK):
        return False
    return any(part in name for part in _THINK)


def form_of_family(model: str) -> str | None:
    """The form of tool calls that models of this name use, None when the name tells nothing."""
    name = model.lower()
    return next((form for parts, form in _FAMILY_FORMS if any(part in name for part in parts)), None)


def tool_parsers(form: str | None) -> Parsers:
    """Parsers for a form of tool calls."""
    return _TOOL_PARSERS.get(form or "", Parsers(None, None))


def reasoning_parsers(model: str) -> Parsers:
    """Parsers for the reasoning of models of this name."""
    name = model.lower()
    return next((parsers for parts, parsers in _REASONING if any(p in name for p in parts)), Parsers(None, None))


def has_float32_state(model: str) -> bool:
    """Whether models of this name ask for a recurrent state in float32."""
    return any(part in model.lower() for part in FLOAT32_STATE)


def keeps_state(model: str) -> bool:
    """Whether models of this name are recurrent or hybrid."""
    name = model.lower()
    return has_float32_state(name) or any(part in name for part in _RECURRENT)


def ships_draft_head(model: str) -> bool:
    """Whether checkpoints of this name ship a draft head. Distilled models of the same name do not."""
    name = model.lower()
    return "distill" not in name and any(part in name for part in _DRAFT_HEADS)


def one_slot_only(architecture: str) -> bool:
    """Whether Ollama runs this architecture one request at a time."""
    name = architecture.lower().replace("-", "_")
    return name.replace("_", "") in ONE_SLOT_ARCHITECTURES or name.startswith(("nemotron_h", "nemotronh"))
