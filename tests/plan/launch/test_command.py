"""One entry for every engine, and what a user may change of a command afterwards."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.launch.samples import DENSE, flags_of, left_out, model, planned, value_of
from widelane.errors import UsageError
from widelane.facts.devices.device import Device, DeviceKind
from widelane.plan.launch.address import with_address
from widelane.plan.launch.builder import words_of
from widelane.plan.launch.choice import Accelerator, LaunchChoice, accelerator_of
from widelane.plan.launch.command import ENGINES, launch_plan, missing_model, with_arguments, with_program

MODULE = ("/opt/venv/bin/python", "-m", "vllm.entrypoints.openai.api_server")


def test_an_unknown_engine_and_an_empty_server_are_refused() -> None:
    with pytest.raises(UsageError, match=r"'tgi'; it can be llama\.cpp, vllm, sglang, ollama"):
        launch_plan(DENSE, LaunchChoice(engine="tgi", slots=1, context_tokens=1))
    with pytest.raises(UsageError, match="at least 1 slot"):
        planned(DENSE, "vllm", slots=0)


@given(
    engine=st.sampled_from(ENGINES),
    slots=st.integers(1, 2000),
    context=st.integers(1, 10**7),
    pool=st.none() | st.integers(1, 10**9),
    depth=st.integers(0, 5),
    version=st.none() | st.sampled_from(["0.5.0", "0.9.1", "0.32.0", "b5000", "b7000", "b9000", "b11549", "dev"]),
    name=st.text(min_size=1, max_size=20),
)
def test_whatever_is_decided_the_line_to_paste_is_the_words(
    engine: str, slots: int, context: int, pool: int | None, depth: int, version: str | None, name: str
) -> None:
    plan = planned(
        model(name),
        engine,
        slots=slots,
        context_tokens=context,
        pool_tokens=pool,
        draft_depth=depth,
        version=version,
        model=f"/models/{name}.gguf",
    )
    environ = len(plan.environ)
    assert shlex.split(plan.command)[environ:] == words_of(plan)
    assert all(part.reason for part in plan.argv if part.flag is not None)
    assert len(flags_of(plan) & set(left_out(plan))) == 0


def test_the_program_may_be_another_and_vllms_module_takes_the_model_as_a_flag() -> None:
    plan = with_program(planned(DENSE, "vllm", model="Qwen/Qwen3-8B"), MODULE)
    assert plan.command.startswith(f"{' '.join(MODULE)} --model Qwen/Qwen3-8B --host 127.0.0.1 ")
    serve = with_program(planned(DENSE, "vllm", model="Qwen/Qwen3-8B"), ("/opt/venv/bin/vllm", "serve"))
    assert serve.command.startswith("/opt/venv/bin/vllm serve Qwen/Qwen3-8B --host ")
    other = with_program(planned(DENSE, "llama.cpp", model="/m.gguf"), ("./build/bin/llama-server",))
    assert other.command.startswith("./build/bin/llama-server -m /m.gguf --host ")


def test_further_arguments_go_to_the_end_and_win_over_ours() -> None:
    plan = with_arguments(
        planned(DENSE, "vllm", model="m/m"), ["--enforce-eager", "--dtype", "float32", "--max-num-seqs=4", "-O", "3"]
    )
    assert plan.command.endswith(" --enforce-eager --dtype float32 --max-num-seqs=4 -O 3")
    assert plan.command.count("--max-num-seqs") == 1
    assert value_of(plan, "--dtype") == "float32"


def test_an_address_can_be_changed_with_what_it_means() -> None:
    for engine in ("vllm", "llama.cpp", "sglang"):
        plan = with_address(planned(DENSE, engine, model="m/m"), "0.0.0.0", 9000)
        assert (plan.host, plan.port) == ("0.0.0.0", 9000)
        assert "--host 0.0.0.0 --port 9000" in plan.command
        assert "seen by every user" in left_out(plan)["--api-key"]
    ollama = with_address(planned(DENSE, "ollama"), "127.0.0.1", 9000)
    assert ollama.command.startswith("OLLAMA_HOST=127.0.0.1:9000 ")


def test_a_command_without_weights_is_known() -> None:
    assert missing_model(planned(DENSE, "llama.cpp")) == "MODEL.gguf"
    assert missing_model(planned(DENSE, "vllm")) == "ORG/MODEL"
    assert missing_model(planned(DENSE, "vllm", model="m/m")) is None


@pytest.mark.parametrize(
    ("name", "kind", "accelerator"),
    [
        ("gb10", DeviceKind.UNIFIED, Accelerator.CUDA),
        ("rtx-4090", DeviceKind.GPU, Accelerator.CUDA),
        ("NVIDIA H100 80GB HBM3", DeviceKind.GPU, Accelerator.CUDA),
        ("apple-m4-max", DeviceKind.UNIFIED, Accelerator.METAL),
        ("strix-halo", DeviceKind.UNIFIED, Accelerator.ROCM),
        ("rx-7900-xtx", DeviceKind.GPU, Accelerator.ROCM),
        ("radeon-ai-pro-r9700", DeviceKind.GPU, Accelerator.ROCM),
        ("mi300x", DeviceKind.GPU, Accelerator.ROCM),
        ("arc-b580", DeviceKind.GPU, Accelerator.INTEL),
        ("cpu-ddr5-5600-2ch", DeviceKind.CPU, Accelerator.CPU),
        ("Intel(R) Xeon(R) Gold", DeviceKind.CPU, Accelerator.CPU),
    ],
)
def test_what_computes_goes_by_the_devices_name(name: str, kind: DeviceKind, accelerator: Accelerator) -> None:
    device = Device(name=name, kind=kind, memory_bandwidth_bytes_s=1e9, memory_bytes=10**9)
    assert accelerator_of(device) is accelerator
