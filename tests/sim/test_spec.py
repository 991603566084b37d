"""The grammar of a simulated server."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widelane.errors import UsageError
from widelane.sim.spec import PlannedServer, ProfiledServer, SimSpec, parse_sim

GB10 = PlannedServer(device="gb10", model="qwen3.6-27b", engine="vllm")


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("sim:gb10/qwen3.6-27b/vllm", GB10),
        (" sim:gb10/qwen3.6-27b/VLLM ", GB10),
        ("sim:gb10/Qwen/Qwen3-8B/llama.cpp", PlannedServer(device="gb10", model="Qwen/Qwen3-8B", engine="llama.cpp")),
        ("sim:2x-rtx-3090/m/llamacpp", PlannedServer(device="2x-rtx-3090", model="m", engine="llama.cpp")),
        ("sim:gb10//home/me/m.gguf/ollama", PlannedServer(device="gb10", model="/home/me/m.gguf", engine="ollama")),
        ("sim:RTX%204090/m/sglang", PlannedServer(device="RTX 4090", model="m", engine="sglang")),
        ("sim:sweep.json", ProfiledServer(path=Path("sweep.json"))),
        ("sim:/runs/last/sweep.JSON", ProfiledServer(path=Path("/runs/last/sweep.JSON"))),
        ("sim:my%20runs/sweep.json", ProfiledServer(path=Path("my runs/sweep.json"))),
    ],
)
def test_what_is_named(text: str, source: PlannedServer | ProfiledServer) -> None:
    assert parse_sim(text) == SimSpec(source=source)


def test_every_setting() -> None:
    spec = parse_sim(
        "sim:gb10/qwen3.6-27b/vllm?slots=64&quant=fp8&weights_gb=28.5&kv_dtype=fp8&state_dtype=float16&context=8192"
        "&draft_depth=2&acceptance=0.84,0.6&seed=7&noise=0.1&fault=cut_mid_stream_fin,slow&misconfigured=too-few-slots"
    )
    assert spec == SimSpec(
        source=GB10,
        slots=64,
        quant="fp8",
        weights_gb=28.5,
        kv_dtype="fp8",
        state_dtype="float16",
        context=8192,
        draft_depth=2,
        acceptance=(0.84, 0.6),
        seed=7,
        noise=0.1,
        fault=("cut_mid_stream_fin", "slow"),
        misconfigured=("too-few-slots",),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gb10/m/vllm", "sim:DEVICE/MODEL/ENGINE"),
        ("sim:", "sim:DEVICE/MODEL/ENGINE"),
        ("sim:gb10", "sim:DEVICE/MODEL/ENGINE"),
        ("sim:gb10/vllm", "sim:DEVICE/MODEL/ENGINE"),
        ("sim:gb10//vllm", "sim:DEVICE/MODEL/ENGINE"),
        ("sim:/m/vllm", "sim:DEVICE/MODEL/ENGINE"),
        ("sim:gb10/m/tgi", "choose one of vllm, llama.cpp, sglang, ollama"),
        ("sim:gb10/m/vllm?slot=3", "'slot' in"),
        ("sim:gb10/m/vllm?slots", "slots in"),
        ("sim:gb10/m/vllm?slots=", "slots in"),
        ("sim:gb10/m/vllm?slots=4&slots=5", "set twice"),
        ("sim:gb10/m/vllm?slots=0", "from 1 to 4,096"),
        ("sim:gb10/m/vllm?slots=-1", "from 1 to 4,096"),
        ("sim:gb10/m/vllm?slots=4.5", "from 1 to 4,096"),
        ("sim:gb10/m/vllm?slots=" + "9" * 5000, "from 1 to 4,096"),
        ("sim:gb10/m/vllm?noise=1", "from 0 to below 1"),
        ("sim:gb10/m/vllm?noise=nan", "from 0 to below 1"),
        ("sim:gb10/m/vllm?weights_gb=0", "weights_gb=0"),
        ("sim:gb10/m/vllm?weights_gb=inf", "weights_gb=inf"),
        ("sim:gb10/m/vllm?acceptance=0.8,1.2", "acceptance=1.2"),
        ("sim:gb10/m/vllm?draft_depth=3&acceptance=0.8,0.6", "one share for each drafted token"),
        ("sim:gb10/m/vllm?quant=elephant", "quant=elephant"),
        ("sim:gb10/m/vllm?kv_dtype=elephant", "elephant"),
        ("sim:gb10/m/vllm?kv_dtype=auto", "leave kv_dtype out"),
        ("sim:gb10/m/vllm?kv_dtype=q8_0", "vllm has no KV cache of type q8_0"),
        ("sim:gb10/m/vllm?fault=a,,b", "no name"),
        ("sim:sweep.json?kv_dtype=fp8", "kv_dtype cannot be set"),
    ],
)
def test_what_is_refused_says_what_to_do(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_sim(text)
    assert said in str(caught.value)


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,8}", fullmatch=True)
shares = st.floats(0.0, 1.0, allow_nan=False)
specs = st.builds(
    SimSpec,
    source=st.builds(
        PlannedServer,
        device=st.sampled_from(["gb10", "RTX 4090", "2x-rtx-3090", "50% off"]),
        model=st.sampled_from(["qwen3.6-27b", "Qwen/Qwen3-8B", "./a model?.gguf", "/x/y&z#1.gguf", "m:q4_k_m"]),
        engine=st.sampled_from(["vllm", "llama.cpp", "sglang", "ollama"]),
    )
    | st.builds(ProfiledServer, path=st.sampled_from([Path("sweep.json"), Path("/a b/c?d.json"), Path("100%.json")])),
    slots=st.none() | st.integers(1, 4096),
    context=st.none() | st.integers(2, 100_000_000),
    seed=st.integers(0, 2**63 - 1),
    noise=st.floats(0.0, 0.99),
    fault=st.lists(names, max_size=3).map(tuple),
    misconfigured=st.lists(names, max_size=3).map(tuple),
)
planned = st.builds(
    SimSpec,
    source=st.just(GB10),
    quant=st.none() | st.sampled_from(["fp8", "nvfp4", "bf16"]),
    weights_gb=st.none() | st.floats(0.01, 9e5),
    kv_dtype=st.none() | st.sampled_from(["fp8", "bf16"]),
    draft_depth=st.none() | st.integers(0, 4),
    acceptance=st.just(()) | st.lists(shares, min_size=4, max_size=6).map(tuple),
)


@given(specs | planned)
def test_what_is_written_is_read_back(spec: SimSpec) -> None:
    assert parse_sim(spec.text) == spec


def test_the_largest_seed_that_the_message_names_is_taken() -> None:
    assert parse_sim(f"sim:gb10/qwen3.6-27b/vllm?seed={2**63 - 1}").seed == 2**63 - 1
