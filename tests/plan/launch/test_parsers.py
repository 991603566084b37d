"""Which parser fits which chat template, and that none is set where it would break answers."""

import pytest

from tests.plan.launch.samples import HERMES_TEMPLATE, XML_TEMPLATE, model
from widelane.plan.launch.choice import LaunchChoice
from widelane.plan.launch.parsers import reasoning_parser, tool_parser

HARMONY = "<|start|>assistant<|channel|>analysis<|message|>"
DEEPSEEK = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"


def choice(engine: str = "vllm", version: str | None = None, **more: str) -> LaunchChoice:
    return LaunchChoice(engine=engine, version=version, slots=1, context_tokens=4096, **more)


@pytest.mark.parametrize(
    ("template", "vllm", "sglang"),
    [
        (XML_TEMPLATE, "qwen3_xml", "qwen3_coder"),
        (HERMES_TEMPLATE, "hermes", "qwen25"),
        ("[AVAILABLE_TOOLS][TOOL_CALLS]", "mistral", "mistral"),
        (DEEPSEEK, "deepseek_v3", "deepseekv3"),
        ("<tool_call>{name}\n<arg_key>", "glm45", "glm45"),
        (HARMONY, "openai", "gpt-oss"),
        ("<|python_tag|>", "llama3_json", "llama3"),
        ("<|tool_call>call:f{}<tool_call|>", "gemma4", "gemma4"),
        ("<|tool_calls_section_begin|>", "kimi_k2", "kimi_k2"),
        ("<minimax:tool_call>", "minimax_m2", "minimax-m2"),
    ],
)
def test_the_template_decides_the_tool_parser(template: str, vllm: str, sglang: str) -> None:
    facts = model("someone/fine-tune", "unknown", template=template)
    assert tool_parser(facts, choice("vllm")).name == vllm
    assert tool_parser(facts, choice("sglang")).name == sglang


@pytest.mark.parametrize(
    ("name", "architecture", "tools", "thinking"),
    [
        ("Qwen/Qwen3.6-27B", "qwen3_5", "qwen3_xml", "qwen3"),
        ("qwen3.8-27b", "qwen3_5", "qwen3_xml", "qwen3"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3_moe", "qwen3_xml", None),
        ("Qwen/Qwen3-8B", "qwen3", "hermes", "qwen3"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "qwen3_next", "hermes", None),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "qwen2", "hermes", None),
        ("openai/gpt-oss-120b", "gpt_oss", "openai", "openai_gptoss"),
        ("zai-org/GLM-4.5-Air", "glm4_moe", "glm45", "glm45"),
        ("zai-org/GLM-4.7-Flash", "glm4_moe_lite", "glm47", "glm45"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B", "nemotron_h", "qwen3_xml", "nemotron_v3"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama", "llama3_json", None),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral", "mistral", None),
        ("google/gemma-3-27b-it", "gemma3", None, None),
        ("google/gemma-4-31b-it", "gemma4", "gemma4", "gemma4"),
        ("deepseek-ai/DeepSeek-V3", "deepseek_v3", "deepseek_v3", None),
    ],
)
def test_without_a_template_the_name_decides(
    name: str, architecture: str, tools: str | None, thinking: str | None
) -> None:
    facts = model(name, architecture)
    assert (tool_parser(facts, choice()).name, reasoning_parser(facts, choice()).name) == (tools, thinking)


def test_the_sign_is_told() -> None:
    by_template = tool_parser(model(template=XML_TEMPLATE), choice()).reason
    by_name = tool_parser(model(), choice()).reason
    assert by_template.startswith("The chat template writes calls in the form function-xml")
    assert by_name.startswith("By the model's name")


def test_a_template_that_knows_no_tools_and_no_thinking_gets_no_parser() -> None:
    facts = model("Qwen/Qwen3-8B", "qwen3", template="{% for message in messages %}{{ message.content }}{% endfor %}")
    assert tool_parser(facts, choice()).name is None
    thinking = reasoning_parser(facts, choice())
    assert thinking.name is None and "leave the answer empty" in thinking.reason


@pytest.mark.parametrize(
    ("version", "parser"), [("0.32.0", "qwen3_xml"), (None, "qwen3_xml"), ("0.10.1", "qwen3_coder"), ("0.9.2", None)]
)
def test_a_version_gets_a_parser_that_it_has(version: str | None, parser: str | None) -> None:
    assert tool_parser(model(template=XML_TEMPLATE), choice(version=version)).name == parser


def test_a_user_may_name_a_parser_or_none() -> None:
    facts = model()
    assert tool_parser(facts, choice(tool_parser="hermes")).name == "hermes"
    assert reasoning_parser(facts, choice(reasoning_parser="none")).name is None


def test_vllm_has_every_parser_that_is_chosen(vllm_parsers: tuple[set[str], set[str]]) -> None:
    """Against the registries of an installed vLLM, where there is one."""
    from widelane.facts import model_family

    tools, reasoning = vllm_parsers
    chosen = {parsers.vllm for parsers in model_family._TOOL_PARSERS.values()}
    thinking = {parsers.vllm for _, parsers in model_family._REASONING}
    assert chosen - {None} <= tools
    assert thinking - {None} <= reasoning


@pytest.fixture
def vllm_parsers() -> tuple[set[str], set[str]]:
    """Tool and reasoning parsers in the source of the vLLM that lies beside the checkout."""
    import re
    from pathlib import Path

    packages = sorted(Path(__file__).parents[3].glob(".venv-vllm/lib/python3*/site-packages/vllm"))
    if not packages:
        pytest.skip("no vLLM beside the checkout (`make test-vllm` makes one)")
    names = re.compile(r'^    "([\w-]+)": \(', re.MULTILINE)
    read = (
        set(names.findall((packages[0] / part / "__init__.py").read_text())) for part in ("tool_parsers", "reasoning")
    )
    tools, reasoning = read
    return tools, reasoning
