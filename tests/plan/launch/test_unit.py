"""A systemd unit: its words survive systemd's own quoting, and every flag's reason stands above them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.plan.launch.samples import DENSE, model, planned
from widelane.plan.launch.unit import quoted, systemd_unit

FP8 = "Qwen/Qwen3.6-27B-FP8"


def test_the_command_is_one_flag_a_line_under_its_reasons() -> None:
    plan = planned(model(), "vllm", model=FP8, draft_depth=2)
    text = systemd_unit(plan, model="qwen3.6-27b", program="/opt/vllm/bin/vllm", user="llm")
    assert (
        "ExecStart=/opt/vllm/bin/vllm serve Qwen/Qwen3.6-27B-FP8 \\\n    --host 127.0.0.1 \\\n    --port 8000 \\\n"
        in text
    )
    assert r'--speculative-config "{\"method\":\"mtp\",\"num_speculative_tokens\":2}"' in text
    assert "# --max-num-seqs: 16 requests decode together" in text
    assert "\nUser=llm\n" in text and "WantedBy=multi-user.target" in text
    assert "Restart=on-failure" in text and "LimitNOFILE=65536" in text


def test_a_users_own_unit_names_no_user() -> None:
    text = systemd_unit(planned(DENSE, "llama.cpp", model="/m.gguf"), model="m")
    assert "User=" not in text and "WantedBy=default.target" in text and "systemctl --user" in text


def test_the_environment_is_set_with_its_reasons() -> None:
    text = systemd_unit(planned(DENSE, "ollama", model="/models/m.gguf"), model="m", program="/usr/local/bin/ollama")
    assert 'Environment="OLLAMA_NUM_PARALLEL=16"' in text
    assert "# OLLAMA_NUM_PARALLEL: 16 requests decode together" in text
    assert "systemctl edit ollama" in text
    assert "# Once it answers: ollama create qwen3-8b -f Modelfile" in text


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("plain", "plain"),
        ("two words", '"two words"'),
        ('a"b', r'"a\"b"'),
        (r"a\b", r'"a\\b"'),
        ("100%", "100%%"),
        ("$HOME", "$$HOME"),
        ("", '""'),
        ("two\nlines", r'"two\x0alines"'),
        ("\x1b[31m\r", r'"\x1b[31m\x0d"'),
    ],
)
def test_words_are_quoted_as_systemd_reads_them(word: str, written: str) -> None:
    assert quoted(word) == written


def test_a_models_name_cannot_add_a_line() -> None:
    evil = "/models/x\nExecStartPre=/bin/evil\rUser=root"
    for engine in ("vllm", "sglang", "ollama", "llama.cpp"):
        plan = planned(DENSE, engine, model=evil, version="0.9\nExecStartPre=/bin/evil", host="127.0.0.1")
        text = systemd_unit(plan, model=evil, program="/bin/server")
        assert "\r" not in text and not [line for line in text.splitlines() if line.startswith("ExecStartPre")]


def test_systemd_itself_accepts_it(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd here")
    plan = planned(model(), "llama.cpp", model="/models/100% my $model.gguf", kv_dtype="q8_0", draft_depth=2)
    unit = tmp_path / "llama-cpp.service"
    unit.write_text(systemd_unit(plan, model="100% mine", program="/bin/true", user="root"))
    done = subprocess.run([analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert "llama-cpp.service" not in done.stderr, done.stderr
