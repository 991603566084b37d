"""A compose file: image of engine and version, the model mounted, the port published where the plan listens."""

import json
import re

import pytest

from tests.plan.launch.samples import DENSE, model, planned
from widelane.errors import UsageError
from widelane.plan.launch.choice import Accelerator
from widelane.plan.launch.compose import compose_file, image_of

FP8 = "Qwen/Qwen3.6-27B-FP8"


def command_of(text: str) -> list[str]:
    """The container's command; every word is a JSON string on a line of its own."""
    block = text.split("    command:\n")[1].split("    healthcheck:")[0]
    return [json.loads(word) for word in re.findall(r"^      - (.*)$", block, re.MULTILINE)]


def test_vllm_in_a_container() -> None:
    plan = planned(model(), "vllm", model=FP8, version="0.33.0", draft_depth=2)
    text = compose_file(plan, accelerator=Accelerator.CUDA)
    assert 'image: "vllm/vllm-openai:v0.33.0"' in text
    assert 'entrypoint: ["vllm", "serve"]' in text
    assert command_of(text)[:5] == [FP8, "--host", "0.0.0.0", "--port", "8000"]
    assert '{"method":"mtp","num_speculative_tokens":2}' in command_of(text)
    assert '- "127.0.0.1:8000:8000"' in text
    assert "driver: nvidia" in text and "ipc: host" in text
    assert '"~/.cache/huggingface:/root/.cache/huggingface"' in text


def test_a_file_is_mounted_with_its_folder() -> None:
    plan = planned(
        DENSE,
        "llama.cpp",
        model="/srv/a b/m.gguf",
        draft_model="/srv/d/d.gguf",
        draft_depth=2,
        port=9000,
        version="b11549",
    )
    text = compose_file(plan, accelerator=Accelerator.CUDA)
    assert 'image: "ghcr.io/ggml-org/llama.cpp:server-cuda-b11549"' in text
    assert '- "/srv/a b:/models:ro"' in text and '- "/srv/d:/models-2:ro"' in text
    words = command_of(text)
    assert words[words.index("-m") + 1] == "/models/m.gguf"
    assert words[words.index("--spec-draft-model") + 1] == "/models-2/d.gguf"
    assert '- "127.0.0.1:9000:8080"' in text and words[words.index("--port") + 1] == "8080"


def test_a_folder_is_mounted_itself() -> None:
    text = compose_file(planned(DENSE, "vllm", model="/srv/qwen"), accelerator=Accelerator.CUDA)
    assert '- "/srv/qwen:/models:ro"' in text and command_of(text)[0] == "/models"


def test_ollama_listens_inside_and_is_told_the_model_from_outside() -> None:
    text = compose_file(planned(DENSE, "ollama", model="qwen3:8b"), accelerator=Accelerator.ROCM)
    assert 'image: "ollama/ollama:rocm"' in text
    assert 'OLLAMA_HOST: "0.0.0.0:11434"' in text
    assert "# Once it answers: OLLAMA_HOST=127.0.0.1:11434 ollama pull qwen3:8b" in text
    assert "devices: [/dev/kfd, /dev/dri]" in text


@pytest.mark.parametrize(
    ("engine", "version", "image"),
    [
        ("vllm", "v0.33.0", "vllm/vllm-openai:v0.33.0"),
        ("vllm", "0.33.1.dev5+g1234", "vllm/vllm-openai:v0.32.0"),
        ("llama.cpp", "b11600-abc", "ghcr.io/ggml-org/llama.cpp:server-cuda-b11600"),
        ("llama.cpp", "b0-unknown", "ghcr.io/ggml-org/llama.cpp:server-cuda-b11549"),
        ("sglang", None, "lmsysorg/sglang:v0.5.23"),
    ],
)
def test_the_image_is_one_that_is_published(engine: str, version: str | None, image: str) -> None:
    assert image_of(planned(DENSE, engine, model="/m.gguf", version=version), Accelerator.CUDA) == image


def test_a_dollar_is_not_taken_for_a_variable() -> None:
    text = compose_file(planned(DENSE, "vllm", model="o/a$b"), accelerator=Accelerator.CPU)
    assert '"o/a$$b"' in text


def test_a_machine_without_an_image_says_so() -> None:
    with pytest.raises(UsageError, match="containers on macOS see no GPU"):
        compose_file(planned(DENSE, "llama.cpp", model="/m.gguf"), accelerator=Accelerator.METAL)
    with pytest.raises(UsageError, match="no image of it is published"):
        compose_file(planned(DENSE, "sglang", model="m/m"), accelerator=Accelerator.INTEL)


def test_a_models_name_cannot_add_a_line() -> None:
    evil = "/models/x\n    privileged: true\x85\u2028/y"
    for engine in ("vllm", "sglang", "ollama", "llama.cpp"):
        plan = planned(DENSE, engine, model=evil, version="9\nservices: {}")
        text = compose_file(plan, accelerator=Accelerator.CUDA)
        assert not [line for line in text.splitlines() if line.strip().startswith(("privileged", "services: {"))]


def test_a_folder_with_a_colon_is_mounted_in_the_long_form() -> None:
    text = compose_file(planned(DENSE, "vllm", model="/srv/a:b"), accelerator=Accelerator.CUDA)
    assert 'source: "/srv/a:b"\n        target: "/models"\n        read_only: true' in text
    assert "/srv/a:b:" not in text


def test_the_port_is_published_on_an_ip_address() -> None:
    def published(host: str) -> str:
        plan = planned(DENSE, "ollama", model="/srv/m.gguf", host=host)
        return compose_file(plan, accelerator=Accelerator.CUDA)

    assert '- "[::1]:11434:11434"' in published("::1") and "OLLAMA_HOST=[::1]:11434 ollama create" in published("::1")
    assert '- "127.0.0.1:11434:11434"' in published("localhost")
    with pytest.raises(UsageError, match="is a name"):
        published("box.lan")
