"""`widelane predict` as a user runs it: the documented keys, the field report's jobs, clear errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.run_widelane import environment, widelane

SERVER = "sim:gb10/qwen3.6-27b/vllm"


@pytest.fixture
def env(tmp_path):
    return environment(tmp_path, HOME=str(tmp_path))


def predicted(*arguments: str, env: dict[str, str]) -> dict[str, Any]:
    result = widelane("predict", *arguments, "--json", "--quiet", env=env, timeout_s=110)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_documented_keys(env):
    report = predicted("--plan", "800", "--map", "24x900", "--reduce", "1200", "--server", SERVER, env=env)
    assert report["schema"] == {"name": "widelane.predict", "version": 1}
    assert report["verdict"] == "parallelise"
    assert report["serial_tokens"] == {"value": 2900, "unit": "tokens", "origin": "predicted"}
    assert report["lanes"]["value"] == 24
    assert report["wall_s"]["low"] < report["wall_s"]["value"] < report["wall_s"]["high"]
    assert report["speedup"]["low"] > 1
    assert 1 < report["crossover_tokens"]["value"] < 200
    assert [phase["role"] for phase in report["phases"]] == ["plan", "work", "integrate"]


def test_a_skeleton_is_not_worth_it(env):
    """600 to 1,500 tokens in all are below the crossover: the skeleton alone takes as long."""
    report = predicted("--plan", "900", "--map", "5x250", "--instead", "1000", "--server", SERVER, env=env)
    assert report["verdict"] == "do-not"
    assert report["crossover_tokens"]["value"] > 250


def test_four_slots_are_four_lanes(env):
    """llama.cpp's default: what is offered beyond four waits."""
    report = predicted("--map", "16x100", "--server", "sim:gb10/qwen3.6-27b/llama.cpp?quant=q4", env=env)
    assert report["server_slots"]["value"] == 4
    assert report["lanes"]["value"] == 4


def test_best_of_with_a_page(env, tmp_path):
    page = tmp_path / "p.html"
    result = widelane(
        "predict", "--best-of", "3x50", "--pass-rate", "0.5", "--server", SERVER, "--html", page, env=env
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "Verdict" in result.stdout
    assert page.read_text(encoding="utf-8").lower().startswith("<!doctype html>")


def test_a_job_file(env, tmp_path):
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"step": [{"name": "a", "count": 3, "output": 50}]}))
    assert predicted(str(job), "--server", SERVER, "--lanes", "2", env=env)["lanes"]["value"] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "No job"),
        (("--map", "2x9", "--best-of", "2x9"), "two jobs"),
        (("job.toml", "--map", "2x9"), "two jobs"),
        (("--best-of", "2x9"), "--pass-rate"),
        (("--best-of", "2x9", "--pass-rate", "2"), "no probability"),
        (("--best-of", "2x9", "--pass-rate", "0.5", "--plan", "9"), "--plan says nothing about --best-of"),
        (("--map", "2x9", "--pass-rate", "0.5"), "--pass-rate says nothing about --map"),
        (("--map", "many"), "--map 'many'"),
        (("--map", "2x9", "--prompt-tokens", "0"), "--prompt-tokens"),
        (("--map", "2x9", "--lanes", "1"), "give 2 or more"),
        (("--map", "3000x9"), "at most 2,000"),
        (("none.toml",), "none.toml"),
        (("--map", "2x9", "--server", "sim:gb10"), "sim:gb10"),
        (("--map", "2x9", "--server", "sim:none.json"), "none.json"),
        (("--map", "2x9", "--server", "none.json"), "none.json"),
        (("--map", "2x500000/9"), "could not do the job"),
        (("--map", "2x9", "--html", "/nowhere/p.html"), "/nowhere"),
    ],
    ids=lambda value: " ".join(value)[-40:] if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_clear_line(arguments, words, env):
    server = () if "--server" in arguments else ("--server", SERVER)
    result = widelane("predict", *arguments, *server, env=env)
    assert result.returncode == 2
    assert result.stdout == ""
    assert words in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr
