"""The device table: names, aliases, figures in plain units, and what programs can have of the memory."""

import csv
from importlib import resources

import pytest

from widelane.errors import UsageError
from widelane.facts.devices.device import DeviceKind
from widelane.facts.devices.table import device_names, find_device, read_devices, together

GIB = 2**30


def rows(text):
    return list(csv.DictReader(text.splitlines()))


@pytest.fixture(scope="module")
def shipped():
    return (resources.files("widelane.facts.devices") / "devices.csv").read_text(encoding="utf-8")


def test_every_row_is_found_by_its_name_and_by_each_alias_in_any_case(shipped):
    for row in rows(shipped):
        assert find_device(row["name"].upper()).name == row["name"]
        for alias in filter(None, row["aliases"].split(";")):
            assert find_device(alias).name == row["name"]
    assert len(device_names()) == len(rows(shipped)) == len(set(device_names()))


def test_each_row_of_the_data_that_is_shipped_is_shipped_unchanged(data_dir, shipped):
    ours = {row["name"]: row for row in rows(shipped)}
    theirs = rows((data_dir / "devices.csv").read_text(encoding="utf-8"))
    assert [row for row in theirs if row["name"] in ours] == [ours[r["name"]] for r in theirs if r["name"] in ours]


def test_any_table_of_the_format_is_read_with_its_figures_in_bytes_and_operations(data_dir):
    text = (data_dir / "devices.csv").read_text(encoding="utf-8")
    for row, device in zip(rows(text), read_devices(text), strict=True):
        assert device.name == row["name"]
        assert device.kind.value == row["kind"]
        assert device.memory_bandwidth_bytes_s == pytest.approx(float(row["memory_bandwidth_gbs"]) * 1e9)
        assert device.memory_bytes == float(row["memory_gb"]) * GIB
        assert (device.fp8_flops is None) == (row["fp8_dense_tflops"] == "")
        assert device.usable_memory_bytes is not None
        assert 0.7 * device.memory_bytes < device.usable_memory_bytes < device.memory_bytes
        assert row["source"] in device.source


def test_the_gb10_as_its_data_sheet_and_linux_state_it():
    device = find_device("gb10")
    assert (device.kind, device.count) == (DeviceKind.UNIFIED, 1)
    assert device.memory_bandwidth_bytes_s == 273e9
    assert device.usable_memory_bytes == 119 * GIB
    assert (device.bf16_flops, device.fp8_flops, device.fp4_flops) == (125e12, 250e12, 500e12)
    assert device.stream_efficiency == 0.81


def test_a_mac_may_wire_three_quarters_of_its_memory_and_the_note_says_how_to_raise_that():
    device = find_device("M2 Ultra")
    assert device.usable_memory_bytes == 144 * GIB
    assert "iogpu.wired_limit_mb" in device.note


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("RTX 3090", "rtx-3090"),
        ("rtx3090", "rtx-3090"),
        ("NVIDIA GeForce RTX 3090", "rtx-3090"),
        ("  Dgx_Spark ", "gb10"),
        ("rtx-3060", "rtx-3060-12gb"),
        ("AMD Radeon RX 7900 XTX", "rx-7900-xtx"),
        ("Apple M4 Max", "apple-m4-max"),
        ("ryzen ai max+ 395", "strix-halo"),
    ],
)
def test_spacing_case_and_the_makers_words_do_not_matter(typed, name):
    assert find_device(typed).name == name


@pytest.mark.parametrize(
    "typed", ["2x-rtx-3090", "2x rtx 3090", "2 X RTX3090", "2xrtx-3090", "rtx-3090 x2", "rtx 3090-x2"]
)
def test_two_cards_have_twice_of_everything(typed):
    device = find_device(typed)
    assert (device.name, device.count) == ("2x-rtx-3090", 2)
    assert device.memory_bandwidth_bytes_s == pytest.approx(1872.4e9)
    assert device.memory_bytes == 48 * GIB
    assert device.bf16_flops == pytest.approx(142.4e12)
    assert device.fp8_flops is None


def test_cards_put_together_twice_are_counted_together():
    assert together(together(find_device("l4"), 2), 2).count == 4


@pytest.mark.parametrize(
    ("typed", "near"),
    [("h100", "h100-pcie, h100-sxm"), ("rtx 3090 laptop", "rtx-3090"), ("rtx-5900", "rtx-5090"), ("apple", "apple-m1")],
)
def test_an_unknown_name_is_answered_with_the_near_ones(typed, near):
    with pytest.raises(UsageError, match=near):
        find_device(typed)


@pytest.mark.parametrize("typed", ["", "  ", "x", "0x-rtx-3090", "65x-rtx-3090", "9999x-l4", "\0", "é" * 5000])
def test_what_is_no_device_is_one_clear_error(typed):
    with pytest.raises(UsageError) as raised:
        find_device(typed)
    assert len(str(raised.value)) < 1800


def test_a_name_without_its_memory_is_not_guessed_where_there_are_two():
    with pytest.raises(UsageError, match="a100-pcie-80gb, a100-sxm-80gb"):
        find_device("a100")
