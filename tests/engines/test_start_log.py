"""Start logs, recorded and of older forms."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.data_path import MISSING
from tests.engines.recordings import files, name_of
from widelane.engines.start_log import read_start_log

LOGS = files("startup_logs/*.log")


@pytest.mark.parametrize("path", LOGS or [None], ids=lambda path: name_of(path) if path else "none")
def test_every_recorded_log_is_read(path: Path | None) -> None:
    if path is None:
        pytest.skip(MISSING)
    text = path.read_text()
    log = read_start_log(text)
    assert log.engine == {"llama_cpp": "llama.cpp", "vllm": "vllm"}[path.parts[-3]]
    assert (log.refused is not None) is (" E " in text or "Error" in text or "ERROR" in text)
    assert log.ready is ("listening on" in text or "Route: /v1/chat/completions" in text)


LLAMA_CPP_LOGS = [path for path in LOGS if "llama_cpp" in path.parts]


@pytest.mark.parametrize("path", LLAMA_CPP_LOGS or [None], ids=lambda path: name_of(path) if path else "none")
def test_a_llama_cpp_log_tells_types_and_pool(path: Path | None) -> None:
    if path is None:
        pytest.skip(MISSING)
    text = path.read_text()
    log = read_start_log(text)
    types = re.findall(r"K \((\w+)\)", text)
    assert log.kv_types == ((types[0],) * 2 if types else None)
    started = re.findall(r"n_slots = (\d+), n_ctx_slot = (\d+), kv_unified = '(\w+)'", text)
    if started:
        slots, context, unified = started[0]
        assert (log.slots, log.context_per_slot, log.unified) == (int(slots), int(context), unified == "true")
    if started and log.pool_tokens is not None:
        assert log.pool_tokens == int(context) * (1 if unified == "true" else int(slots))
        assert log.automatic_slots is (unified == "true")


def test_a_vllm_log_tells_the_pool_that_was_measured() -> None:
    paths = files("pools.json")
    if not paths:
        pytest.skip(MISSING)
    sizes = {pool["log_kv_cache_tokens"] for path in paths for pool in json.loads(path.read_text())["pools"]}
    logs = [read_start_log(path.read_text()) for path in LOGS if "vllm" in path.parts]
    hybrid = [log for log in logs if "mamba_page_padding_pct" in log.extra]
    assert hybrid and {log.pool_tokens for log in hybrid} <= sizes


def test_older_forms_of_llama_cpp() -> None:
    log = read_start_log(
        "build: 5142 (80f19b41) with gcc\n"
        "print_info: n_ctx_train      = 32768\n"
        "load_tensors: offloaded 20/33 layers to GPU\n"
        "llama_context: n_ctx_per_seq = 4096\n"
        "llama_kv_cache_unified: size =  512.00 MiB (  4096 cells,  32 layers,  4/ 1 seqs), "
        "K (f16):  256.00 MiB, V (f16): 256.00 MiB\n"
        "srv          init: initializing slots, n_slots = 4\n"
        "main: server is listening on http://127.0.0.1:8080 - starting the main loop\n"
    )
    assert (log.slots, log.context_per_slot, log.pool_tokens, log.kv_types) == (4, 4096, 4096, ("f16", "f16"))
    assert (log.offloaded, log.context_trained, log.ready) == ((20, 33), 32768, True)


def test_a_recurrent_state_is_told_by_type() -> None:
    log = read_start_log(
        "llama_memory_recurrent: size = 62.81 MiB (4 cells, 48 layers, 4 seqs), "
        "R (f32): 2.8 MiB, S (f32): 60.0 MiB\nllama_context: x"
    )
    assert log.state_types == ("f32", "f32")


def test_a_gpu_log_of_vllm() -> None:
    log = read_start_log(
        "INFO 05-01 [api_server.py:1] vLLM API server version 0.11.0\n"
        "INFO non-default args: {'model': 'm', 'compilation_config': <object at 0x1>, 'max_num_seqs': 16}\n"
        "INFO [gpu_model_runner.py:1] Model loading took 15.2 GiB and 3.1 seconds\n"
        "INFO [kv_cache_utils.py:1] GPU KV cache size: 123,456 tokens\n"
        "INFO Maximum concurrency for 4,096 tokens per request: 30.14x\n"
    )
    assert (log.version, log.device, log.pool_tokens, log.max_concurrency) == ("0.11.0", "gpu", 123456, 30.14)
    assert log.weights_bytes == pytest.approx(15.2 * 2**30)
    assert log.arguments is not None and log.arguments["max_num_seqs"].strip() == "16"


@pytest.mark.parametrize("text", ["", "hello", "Traceback (most recent call last):\n  x\n"])
def test_text_that_is_no_start_log(text: str) -> None:
    assert read_start_log(text).engine is None
