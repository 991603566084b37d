"""Rates of a machine with an engine: the published cases, and what each kind of kernel does."""

from dataclasses import replace

import pytest

from tests.plan.step_models import DENSE, HYBRID, MIXTURE, QWEN_35B_A3B, qwen_27b
from widelane.errors import UsageError
from widelane.facts.devices.device import Device, DeviceKind
from widelane.facts.devices.table import device_names, find_device, together
from widelane.figures import Origin
from widelane.plan.engine_traits import Kernels, kernels_of
from widelane.plan.fit import MachineFit, fit_machine
from widelane.plan.fitted import FITTED
from widelane.plan.rates import engine_name, known_fit, observation, rates_for, step_rates
from widelane.plan.step_time import step_seconds


def rate(device, engine, cost, *, context):
    rates = rates_for(find_device(device), engine, cost).rates
    return 1.0 / step_seconds(cost, rates, batch=1, context=context)


@pytest.mark.parametrize("context", [2048, 8192, 16384])
def test_the_field_reports_27b_in_fp8_under_vllm_runs_at_7_9_tokens_a_second(context):
    model = qwen_27b(28.5e9 - 2.54e9, kv_bytes=1)
    assert rate("gb10", "vllm", model, context=context) == pytest.approx(7.9, rel=0.10)


@pytest.mark.parametrize("context", [2048, 8192, 16384])
def test_the_field_reports_27b_in_4_bits_under_llama_cpp_runs_at_10_3_tokens_a_second(context):
    model = qwen_27b(17.5e9 - 0.85e9, kv_bytes=2)
    assert rate("gb10", "llama.cpp", model, context=context) == pytest.approx(10.3, rel=0.15)


def test_a_known_machine_is_predicted_from_its_fit_and_another_assumed_with_a_wider_interval():
    known = rates_for(find_device("gb10"), "vllm", DENSE)
    other = rates_for(find_device("l40s"), "vllm", DENSE)
    assert (known.origin, other.origin) == (Origin.PREDICTED, Origin.ASSUMED)
    assert "gb10" in known.words
    assert "l40s" in other.words
    assert other.low < known.low < 1.0 < known.high < other.high


def test_a_fit_of_ones_own_sweep_wins():
    own = rates_for(find_device("gb10"), "vllm", DENSE, fit=MachineFit(0.5, 2.0))
    assert own.origin is Origin.MEASURED
    assert own.rates.efficiency == 0.5
    # 1 ms + 40 layers * 50 us = 3 ms, twice.
    assert own.rates.overhead_s == pytest.approx(6e-3)


def test_steps_of_ones_own_machine_give_back_the_fit_that_made_them():
    device, true = find_device("rtx-4090"), MachineFit(0.7, 1.4)
    rows = []
    for cost in (DENSE, MIXTURE, HYBRID, QWEN_35B_A3B):
        rates = step_rates(device, "vllm", cost, true)
        for batch in (1, 4, 16, 64):
            step_s = step_seconds(cost, rates, batch=batch, context=2000)
            rows.append(observation(device, "vllm", cost, batch=batch, context=2000, measured_s=step_s))
    assert all(abs(row.error(true)) < 1e-9 for row in rows)
    assert fit_machine(rows * 10) == pytest.approx(tuple(true), rel=0.02)


def test_a_device_without_a_known_bandwidth_is_refused_with_what_to_do():
    device = Device(name="some-cpu", kind=DeviceKind.CPU, memory_bandwidth_bytes_s=None, memory_bytes=2**34)
    with pytest.raises(UsageError, match="--measure-bandwidth"):
        rates_for(device, "llama.cpp", DENSE)


def test_vllm_joins_the_bandwidth_of_two_cards_and_pays_for_it_while_llama_cpp_uses_them_in_turn():
    one = find_device("rtx-3090")
    two = together(one, 2)
    joined, alone = rates_for(two, "vllm", DENSE).rates, rates_for(one, "vllm", DENSE).rates
    assert joined.bandwidth_bytes_s == 2 * alone.bandwidth_bytes_s
    # 40 layers * 80 us
    assert joined.overhead_s - alone.overhead_s == pytest.approx(3.2e-3)
    in_turn = rates_for(two, "llama.cpp", DENSE).rates
    assert in_turn == rates_for(one, "llama.cpp", DENSE).rates


@pytest.mark.parametrize(
    ("device", "engine", "kernels"),
    [
        ("gb10", "vllm", Kernels.PAGED),
        ("gb10", "sglang", Kernels.PAGED),
        ("gb10", "llama.cpp", Kernels.GGML_CUDA),
        ("2x-rtx-3090", "ollama", Kernels.GGML_CUDA),
        ("m2-ultra", "llama.cpp", Kernels.GGML_METAL),
        ("m2-ultra", "ollama", Kernels.GGML_METAL),
        ("m4-max", "vllm-mlx", Kernels.MLX),
        ("strix-halo", "llama.cpp", Kernels.GGML_VULKAN),
        ("gb10", "llama.cpp-vulkan", Kernels.GGML_VULKAN),
        ("rx-7900-xtx", "llama.cpp", Kernels.GGML_VULKAN),
        ("arc-b580", "llama.cpp", Kernels.GGML_VULKAN),
        ("cpu-ddr5-5600-2ch", "llama.cpp", Kernels.GGML_CPU),
    ],
)
def test_which_kernels_an_engine_brings_to_a_device(device, engine, kernels):
    assert kernels_of(find_device(device), engine) is kernels


@pytest.mark.parametrize(
    ("engine", "name"),
    [("ollama", "llama.cpp"), ("llama.cpp-vulkan", "llama.cpp"), ("vllm-mlx", "mlx"), ("vLLM", "vllm"), ("tgi", "tgi")],
)
def test_whose_fit_counts(engine, name):
    assert engine_name(engine) == name


def test_4_bit_weights_are_read_more_slowly_than_8_bit_ones_and_16_bit_ones_of_a_dense_model_faster():
    def share(bits):
        cost = replace(DENSE, dense_bytes=bits / 8 * 10e9)
        return rates_for(find_device("gb10"), "vllm", cost).rates.dense_efficiency

    assert share(4.5) < share(8) < share(16)
    unknown = replace(DENSE, dense_parameters=0.0)
    assert rates_for(find_device("gb10"), "vllm", unknown).rates.dense_efficiency == 1.0


def test_llama_cpp_moves_a_second_sequences_state_many_times_and_a_mamba_state_more_often():
    delta = rates_for(find_device("gb10"), "llama.cpp", HYBRID).rates
    scan = rates_for(find_device("gb10"), "llama.cpp", replace(HYBRID, scan_state=True)).rates
    assert delta.first_state_passes == scan.first_state_passes == 2
    assert 2 < delta.state_passes < scan.state_passes == 18


def test_every_device_of_the_table_has_rates_for_every_engine():
    for name in device_names():
        for engine in ("vllm", "sglang", "llama.cpp", "ollama", "mlx-lm"):
            device = find_device(name)
            for cost in (DENSE, MIXTURE, HYBRID):
                step_s = step_seconds(cost, rates_for(device, engine, cost).rates, batch=4, context=4096)
                least_s = cost.dense_bytes / device.memory_bandwidth_bytes_s
                assert least_s < step_s < 100 * least_s


def test_every_shipped_fit_is_of_a_device_of_the_table_and_within_reason():
    for one in FITTED:
        device = find_device(one.device)
        assert known_fit(device, one.engine) is one
        assert 0.6 < one.fit.efficiency <= 1.0
        assert 0.0 <= one.fit.overhead_scale < 3.0
        assert one.rows >= one.configurations >= 1
        assert one.sources
