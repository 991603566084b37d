"""The child process: which parameters it sets, and that it ends with its parent."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from widelane.engines.embedded_child import apply
from widelane.engines.embedded_launch import EmbeddedLaunch

WAIT_S = 20.0


def fake_wrapper() -> Any:
    return SimpleNamespace(ggml_type=SimpleNamespace(GGML_TYPE_F16=1, GGML_TYPE_Q8_0=8))


def fake_params(**more: Any) -> Any:
    """As `CommonParams` comes: what a version does not have is not there."""
    return SimpleNamespace(
        model=SimpleNamespace(path=""),
        cpuparams=SimpleNamespace(n_threads=-1),
        cpuparams_batch=SimpleNamespace(n_threads=-1),
        kv_unified="untouched",
        reasoning_format="untouched",
        chat_template="untouched",
        slot_save_path="untouched",
        verbosity="untouched",
        **more,
    )


def test_the_default_leaves_slots_and_pool_to_llama_cpp() -> None:
    params = fake_params(hostnames=["0.0.0.0"])

    apply(params, EmbeddedLaunch(model=Path("/m/a.gguf"), threads=3).settings(), fake_wrapper())

    assert params.model.path == "/m/a.gguf"
    assert params.model_alias == {"a"}
    assert (params.n_parallel, params.n_ctx, params.kv_unified) == (-1, 0, "untouched")
    assert (params.cpuparams.n_threads, params.cpuparams_batch.n_threads) == (3, 3)
    assert (params.cache_type_k, params.cache_type_v) == (1, 1)
    assert (params.endpoint_slots, params.endpoint_metrics) == (True, True)
    assert (params.reasoning_format, params.chat_template, params.slot_save_path) == ("untouched",) * 3
    assert params.hostnames == ["127.0.0.1"]
    assert params.port == 0


def test_options_reach_llama_cpps_parameters() -> None:
    params = fake_params(hostnames=[])
    launch = EmbeddedLaunch(
        model=Path("/m/a.gguf"),
        threads=1,
        slots=8,
        context=4096,
        unified=True,
        kv_type="q8_0",
        endpoint_slots=False,
        endpoint_metrics=False,
        chat_template="chatml",
        reasoning_format="deepseek",
        slot_save_dir=Path("/tmp/states"),
    )

    apply(params, launch.settings(), fake_wrapper())

    assert (params.n_parallel, params.n_ctx, params.kv_unified) == (8, 4096, True)
    assert (params.cache_type_k, params.cache_type_v) == (8, 8)
    assert (params.endpoint_slots, params.endpoint_metrics) == (False, False)
    assert params.chat_template == "chatml"
    assert params.reasoning_format == 3  # COMMON_REASONING_FORMAT_DEEPSEEK
    assert params.slot_save_path == "/tmp/states/"


def test_a_version_with_one_host_name_listens_on_loopback_only_and_logs_at_its_usual_level() -> None:
    params = fake_params(hostname="0.0.0.0")

    apply(params, EmbeddedLaunch(model=Path("/m/a.gguf"), threads=1).settings(), fake_wrapper())

    assert params.hostname == "127.0.0.1"
    assert not hasattr(params, "hostnames")
    assert params.verbosity == "untouched"


CHILD = """
import sys, threading
{before}
from widelane.engines.embedded_child import end_with_parent
end_with_parent({parent}, sys.stdin.fileno())
print("ready", flush=True)
threading.Event().wait()
"""
PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1].replace("PARENT", str(os.getpid()))],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""
LIFE_LINE_ONLY = 'sys.platform = "darwin"'
KERNEL_ONLY = "threading.Thread.start = lambda self: None"


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(LIFE_LINE_ONLY, id="by end of file, on any system"),
        pytest.param(
            KERNEL_ONLY,
            id="by the kernel",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's"),
        ),
    ],
)
def test_the_child_ends_when_its_parent_is_killed(before: str) -> None:
    script = CHILD.format(before=before, parent="PARENT")
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        os.kill(parent.pid, signal.SIGKILL)

        gone, _ = psutil.wait_procs([child], timeout=WAIT_S)

    assert gone == [child]


def test_a_child_whose_parent_is_already_gone_ends_at_once() -> None:
    script = CHILD.format(before="", parent=os.getpid() + 1)

    done = subprocess.run([sys.executable, "-c", script], stdin=subprocess.PIPE, timeout=WAIT_S, check=False)

    assert done.returncode == 1
