"""`widelane plan` as a user runs it: the documented keys, clear errors, nothing half-written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.run_widelane import environment, widelane


@pytest.fixture
def env(tmp_path):
    return environment(tmp_path, HOME=str(tmp_path))


def planned(*arguments: str, env: dict[str, str]) -> dict[str, Any]:
    result = widelane("plan", *arguments, "--json", env=env)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_documented_keys(env):
    """Qwen3.6-27B in fp8 on a GB10, as the field report ran it."""
    plan = planned(
        "qwen3.6-27b", "--device", "gb10", "--engine", "vllm", "--quant", "fp8", "--weights-gb", "28.5", env=env
    )
    assert plan["schema"] == {"name": "widelane.plan", "version": 1}
    assert plan["ceiling_tok_s"]["value"] == 9.6
    assert plan["ceiling_read_tok_s"]["value"] > 9.6
    assert plan["expected_tok_s"]["value"] == pytest.approx(7.9, rel=0.1)
    assert plan["width"]["doubling_batch"]["value"] > 16
    assert plan["kv_pool"]["tokens"]["value"] > 100_000
    fit = plan["sequences_that_fit"]
    assert fit["typical"]["value"] > fit["worst_case"]["value"] > 0
    (state,) = [lever for lever in plan["levers"] if lever["code"] == "state-dtype"]
    assert state["flag"] == "--mamba-ssm-cache-dtype float16"
    assert all(part["reason"] for part in plan["launch"]["argv"] if part["flag"])


def test_q4_under_llama_cpp(env):
    plan = planned(
        "qwen3.6-27b", "--device", "gb10", "--engine", "llama.cpp", "--quant", "q4", "--weights-gb", "17.5", env=env
    )
    assert plan["ceiling_tok_s"]["value"] == 15.6
    assert plan["expected_tok_s"]["value"] == pytest.approx(10.3, rel=0.15)


def test_this_machine(env):
    """`--device auto` always knows a device; a CPU without a known bandwidth has it measured."""
    plan = planned("smollm2-135m", "--measure-bandwidth", env=env)
    assert plan["device"]["measured_read_bytes_s"]["value"] > 1e8
    assert plan["device"]["measured_read_bytes_s"]["origin"] == "measured"
    assert plan["expected_tok_s"]["value"] > 0


def test_the_page_is_written_beside_the_table(env, tmp_path):
    page = tmp_path / "plan.html"
    result = widelane("plan", "qwen3-8b", "--device", "rtx-4090", "--html", page, env=env)
    assert result.returncode == 0, result.stderr
    assert "Verdict" in result.stdout
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>") or text.lower().startswith("<!doctype html>")
    assert "http://" not in text.replace("http://www.w3.org", ""), "nothing is loaded from anywhere"


def test_past_requests_from_a_log(env, tmp_path):
    log = tmp_path / "requests.jsonl"
    usage = [{"usage": {"prompt_tokens": 1000, "completion_tokens": tokens}} for tokens in (500, 1500, 2500) * 20]
    log.write_text("\n".join(map(json.dumps, usage)))
    plan = planned("qwen3-8b", "--device", "rtx-4090", "--footprints", str(log), env=env)
    assert plan["sequences_that_fit"]["typical_tokens"] == {"value": 2500, "unit": "tokens", "origin": "read"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("qwen-99b",), ["qwen-99b"]),
        (("qwen3-8b", "--device", "rtx-9999"), ["rtx-9999"]),
        (("qwen3-8b", "--device", "gb10", "--quant", "fp3"), ["fp3"]),
        (("qwen3-8b", "--device", "gb10", "--kv-dtype", "fp7"), ["fp7"]),
        (("qwen3-8b", "--device", "gb10", "--state-dtype", "float12"), ["float12"]),
        (("qwen3-8b", "--device", "gb10", "--weights-gb", "-1"), ["--weights-gb", "above 0"]),
        (("qwen3-8b", "--device", "gb10", "--weights-gb", "9000"), ["9000", "bits"]),
        (("qwen3-8b", "--device", "gb10", "--memory-gb", "nan"), ["--memory-gb"]),
        (("qwen3-8b", "--device", "gb10", "--max-tokens", "500000"), ["--max-tokens", "40,960"]),
        (("qwen3-8b", "--device", "gb10", "--typical-tokens", "many"), ["many"]),
        (("qwen3-8b", "--device", "gb10", "--typical-tokens", "30000"), ["--max-tokens"]),
        (("qwen3-8b", "--device", "gb10", "--acceptance", "0.8,2"), ["--acceptance"]),
        (("qwen3-8b", "--device", "gb10", "--draft-depth", "99"), ["--draft-depth"]),
        (("qwen3-8b", "--device", "gb10", "--slots", "0"), ["--slots"]),
        (("qwen3-8b", "--device", "gb10", "--engine", "llama.cpp", "--slots", "999"), ["256"]),
        (("qwen3-8b", "--device", "gb10", "--footprints", "/nowhere/log"), ["/nowhere/log"]),
        (("qwen3-8b", "--device", "gb10", "--kv-pool-tokens", "9", "--kv-pool-gb", "9"), ["one of them"]),
        (("qwen3-8b", "--device", "gb10", "--html", "/nowhere/page.html"), ["/nowhere"]),
        (("qwen3-8b", "--device", "gb10", "--draft-model", "/nowhere/draft.gguf"), ["draft.gguf"]),
    ],
    ids=lambda value: " ".join(value)[-40:],
)
def test_bad_input_is_one_clear_message(arguments, words, env):
    result = widelane("plan", *arguments, env=env)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("widelane: ")
    assert "Traceback" not in result.stderr
    assert all(word in result.stderr for word in words)
