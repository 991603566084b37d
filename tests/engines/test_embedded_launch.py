"""What the embedded server is started with, and the `llama-server` command that says the same."""

import shlex
from pathlib import Path

import pytest

from widelane.engines.embedded_launch import EmbeddedLaunch, default_context, default_threads
from widelane.errors import UsageError

MODEL = Path("/models/small model.gguf")


def test_without_slots_llama_cpp_decides_and_the_command_names_neither_slots_nor_context() -> None:
    launch = EmbeddedLaunch(model=MODEL, threads=1)

    assert launch.settings()["slots"] == -1
    assert launch.settings()["context"] == 0
    assert launch.settings()["unified"] is None
    assert launch.command(8080) == (
        "llama-server -m '/models/small model.gguf' --alias 'small model' --host 127.0.0.1 --port 8080"
        " -t 1 -tb 1 --metrics --cache-ram 512"
    )


def test_every_option_has_its_llama_server_flag() -> None:
    launch = EmbeddedLaunch(
        model=MODEL,
        threads=6,
        slots=16,
        context=32768,
        unified=True,
        kv_type="q8_0",
        endpoint_slots=False,
        endpoint_metrics=False,
        chat_template="chatml",
        reasoning_format="none",
        slot_save_dir=Path("/tmp/slots"),
    )

    words = shlex.split(launch.command(1))

    for flag, value in {
        "-t": "6",
        "-tb": "6",
        "-np": "16",
        "-c": "32768",
        "-ctk": "q8_0",
        "-ctv": "q8_0",
        "--chat-template": "chatml",
        "--reasoning-format": "none",
        "--slot-save-path": "/tmp/slots",
    }.items():
        assert words[words.index(flag) + 1] == value
    assert {"--kv-unified", "--no-slots"} <= set(words)
    assert "--metrics" not in words


def test_a_split_pool_is_said_only_when_asked_for() -> None:
    asked = EmbeddedLaunch(model=MODEL, threads=1, slots=4, unified=False).command(1)
    unasked = EmbeddedLaunch(model=MODEL, threads=1, slots=4).command(1)

    assert "--no-kv-unified" in asked
    assert "unified" not in unasked


@pytest.mark.parametrize(
    ("slots", "context", "of_one_slot"),
    [(1, 2048, 2048), (16, 32768, 2048), (32, 65536, 2048), (64, 65536, 1024), (128, 65536, 512), (256, 131072, 512)],
)
def test_a_slot_gets_2048_tokens_while_the_pool_stays_bounded(slots: int, context: int, of_one_slot: int) -> None:
    assert default_context(slots) == context
    assert context == slots * of_one_slot


def test_every_slots_share_is_one_that_llama_cpp_does_not_round() -> None:
    assert all(default_context(slots) % (slots * 256) == 0 for slots in range(1, 257))


def test_without_slots_the_context_is_the_models_own() -> None:
    assert default_context(None) == 0


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (4, 1), (6, 4), (8, 6), (64, 62)])
def test_small_machines_get_one_thread_and_large_ones_leave_two_cores_free(cores: int, threads: int) -> None:
    assert default_threads(cores) == threads


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"slots": 0}, "1 to 256 slots, not 0"),
        ({"slots": 257}, "not 257"),
        ({"context": -1}, "-1 tokens"),
        ({"threads": 0}, "at least 1 thread"),
        ({"kv_type": "fp8"}, "'fp8'"),
        ({"reasoning_format": "loud"}, "'loud'"),
    ],
)
def test_impossible_settings_are_refused_with_the_value(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        EmbeddedLaunch(**{"model": MODEL, "threads": 1, **wrong})  # type: ignore[arg-type]
