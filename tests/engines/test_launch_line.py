"""A pasted start command: what it sets, and the same command with something changed."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widelane.engines.launch_line import is_engine_setting, of_process, parse_launch
from widelane.engines.shell_words import split
from widelane.errors import UsageError


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ("./build/bin/llama-server -m a.gguf", "llama.cpp"),
        (r"'C:\llama\llama-server.exe' -m a.gguf", "llama.cpp"),
        ("ramalama serve granite", "llama.cpp"),
        ("vllm serve Qwen/Qwen3-8B", "vllm"),
        ("python3 -m vllm.entrypoints.openai.api_server --model m", "vllm"),
        ("python -m sglang.launch_server --model-path m", "sglang"),
        ("OLLAMA_NUM_PARALLEL=4 ollama serve", "ollama"),
        ("mlx_lm.server --model m", "mlx-lm"),
        ("trtllm-serve m", "tensorrt-llm"),
        ("lms load m --parallel 8", "lm-studio"),
        ("docker run -d --gpus all -p 8000:8000 -v ~/x:/x vllm/vllm-openai:latest --model m", "vllm"),
        ("sudo docker run --rm -m 8g ghcr.io/ggml-org/llama.cpp:server -m /models/a.gguf", "llama.cpp"),
        ("cd /srv && llama-server -m a.gguf > log 2>&1 &", "llama.cpp"),
        ("nginx -g 'daemon off;'", None),
    ],
)
def test_the_program_tells_the_engine(line: str, engine: str | None) -> None:
    assert parse_launch(line).engine == engine


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("llama-server -np 8", "parallel", "8"),
        ("llama-server --parallel=8", "parallel", "8"),
        ("llama-server -np 4 --parallel 8", "parallel", "8"),
        ("llama-server -np -1", "parallel", "-1"),
        ("LLAMA_ARG_N_PARALLEL=8 llama-server", "parallel", "8"),
        ("LLAMA_ARG_N_PARALLEL=8 llama-server -np 2", "parallel", "2"),
        ("llama-server -kvu -c 1", "kv_unified", True),
        ("llama-server --no-kv-unified", "kv_unified", False),
        ("llama-server -m 'my model.gguf'", "model", "my model.gguf"),
        ("llama-server --metrics --ctx-size 4096", "ctx_size", "4096"),
        ("llama-server \\\n  -c 4096 \\\n  --metrics", "metrics", True),
        ("vllm serve Qwen/Qwen3-8B --max_num_seqs 64", "max_num_seqs", "64"),
        ("vllm serve Qwen/Qwen3-8B --enforce-eager", "model", "Qwen/Qwen3-8B"),
        ("vllm serve --enforce-eager m --no-enable-prefix-caching", "enable_prefix_caching", False),
        ('vllm serve m --speculative-config \'{"method": "ngram"}\'', "speculative_config", '{"method": "ngram"}'),
        (
            "vllm serve m --speculative-config {method: ngram, n: 3} --port 1",
            "speculative_config",
            "{method: ngram, n: 3}",
        ),
        ("docker run -e OLLAMA_NUM_PARALLEL=3 ollama/ollama", "num_parallel", "3"),
        ("docker run --env=OLLAMA_NUM_PARALLEL=3 ollama/ollama", "num_parallel", "3"),
        ("docker run -m 8g -c 2 x/llama.cpp -c 4096", "ctx_size", "4096"),
    ],
)
def test_settings_by_name(line: str, name: str, value: object) -> None:
    assert parse_launch(line).settings[name] == value


@pytest.mark.parametrize(
    ("old", "settings", "new"),
    [
        ("llama-server -m a.gguf", {"parallel": "16", "ctx_size": "32768"}, "llama-server -m a.gguf -np 16 -c 32768"),
        ("llama-server -np 4 -m a", {"parallel": "16"}, "llama-server -np 16 -m a"),
        ("llama-server --parallel=4 -m a", {"parallel": "16"}, "llama-server --parallel=16 -m a"),
        ("llama-server -np 2 -m a --parallel 3", {"parallel": "16"}, "llama-server -m a --parallel 16"),
        ("llama-server -m a -kvu -c 1", {"kv_unified": None}, "llama-server -m a -c 1"),
        ("llama-server -m a -kvu", {"kv_unified": False}, "llama-server -m a --no-kv-unified"),
        ("llama-server -m a --no-jinja", {"jinja": True}, "llama-server -m a --jinja"),
        ("llama-server -m a -fa --metrics", {"flash_attn": "on"}, "llama-server -m a -fa on --metrics"),
        ("llama-server -m a > log 2>&1 &", {"parallel": "8"}, "llama-server -m a -np 8 > log 2>&1 &"),
        ("cd x && llama-server -m $M | tee l", {"parallel": "8"}, "cd x && llama-server -m $M -np 8 | tee l"),
        ("vllm serve m --max_num_seqs=4", {"max_num_seqs": "64"}, "vllm serve m --max_num_seqs=64"),
        (
            'vllm serve m --speculative-config \'{"method": "ngram"}\' --port 1',
            {"speculative_config": None},
            "vllm serve m --port 1",
        ),
        ("vllm serve m", {"speculative_config": '{"a": 1}'}, "vllm serve m --speculative-config '{\"a\": 1}'"),
        ("vllm serve m", {"enable_auto_tool_choice": True}, "vllm serve m --enable-auto-tool-choice"),
    ],
)
def test_a_change_touches_only_its_own_words(old: str, settings: dict[str, str | bool | None], new: str) -> None:
    assert parse_launch(old).changed(settings) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ollama serve", "OLLAMA_NUM_PARALLEL=8 ollama serve"),
        ("OLLAMA_NUM_PARALLEL=2 ollama serve", "OLLAMA_NUM_PARALLEL=8 ollama serve"),
        ("docker run -d ollama/ollama", "docker run -e OLLAMA_NUM_PARALLEL=8 -d ollama/ollama"),
        ("docker run -e OLLAMA_NUM_PARALLEL=2 ollama/ollama", "docker run -e OLLAMA_NUM_PARALLEL=8 ollama/ollama"),
        (
            "docker run --env=OLLAMA_NUM_PARALLEL=2 ollama/ollama",
            "docker run --env=OLLAMA_NUM_PARALLEL=8 ollama/ollama",
        ),
    ],
)
def test_an_environment_setting_is_changed_where_it_stands(old: str, new: str) -> None:
    assert parse_launch(old).changed({}, {"OLLAMA_NUM_PARALLEL": "8"}) == new


@pytest.mark.parametrize(
    "line",
    [
        "llama-server --api-key SECRET -m a",
        "llama-server --api-key=SECRET",
        "HF_TOKEN=SECRET vllm serve m --hf-token SECRET",
        "docker run -e HF_TOKEN=SECRET --env=VLLM_API_KEY=SECRET vllm/vllm-openai --model m",
        "vllm serve m --otlp-traces-endpoint http://user:SECRET@host/",
        "llama-server -hft SECRET",
        "llama-server --api-key -SECRET",
        "vllm serve m --api-key SECRET1 SECRET2",
        "bash -c 'llama-server --api-key SECRET -m a'",
        "vllm serve m -H 'Authorization: Bearer SECRET'",
        "AWS_ACCESS_KEY_ID=SECRET HF_TOKEN_2=SECRET PGPASSWORD=SECRET vllm serve m",
    ],
)
def test_keys_and_tokens_are_nowhere(line: str) -> None:
    parsed = parse_launch(line)
    assert "SECRET" not in repr(parsed)
    assert "SECRET" not in parsed.text and "SECRET" not in parsed.changed({"max_num_seqs": "4", "parallel": "4"})


def test_other_flags_with_token_in_their_name_keep_their_value() -> None:
    assert parse_launch("vllm serve m --max-num-batched-tokens 64").settings["max_num_batched_tokens"] == "64"


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("LLAMA_ARG_N_PARALLEL", True),
        ("VLLM_CPU_KVCACHE_SPACE", True),
        ("OLLAMA_NUM_PARALLEL", True),
        ("VLLM_API_KEY", False),
        ("LLAMA_API_KEY", False),
        ("LLAMA_ARG_API_KEY_FILE", False),
        ("SGLANG_AUTH_TOKEN", False),
        ("HOME", False),
        ("AWS_SECRET_ACCESS_KEY", False),
    ],
)
def test_only_engine_settings_are_kept_of_an_environment(name: str, kept: bool) -> None:
    assert is_engine_setting(name) is kept


def test_a_process_is_a_launch_line_with_its_environment() -> None:
    line = of_process(["ollama", "serve"], {"OLLAMA_NUM_PARALLEL": "4", "HOME": "/root", "OLLAMA_API_KEY": "x"})
    assert (line.engine, line.settings["num_parallel"]) == ("ollama", "4")
    assert line.text == "OLLAMA_NUM_PARALLEL=4 ollama serve"


def test_a_quote_that_never_closes_is_the_users_mistake() -> None:
    with pytest.raises(UsageError, match="never closes"):
        parse_launch("llama-server -m 'a.gguf")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), max_size=5))
def test_words_are_those_of_the_shell(values: list[str]) -> None:
    assert [word.value for word in split(shlex.join(values))] == values
