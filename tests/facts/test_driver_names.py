"""What drivers call the cards of the table, and which cards only sound like them."""

import pytest

from widelane.facts.devices.driver_names import AMD, INTEL, nvidia_row, pci_row, same_memory
from widelane.facts.devices.table import device_names


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("NVIDIA GB10", "gb10"),
        ("NVIDIA GeForce RTX 3090", "rtx-3090"),
        ("NVIDIA GeForce RTX 3090 Ti", "rtx-3090-ti"),
        ("GeForce RTX 4070 Ti SUPER", "rtx-4070-ti-super"),
        ("NVIDIA GeForce RTX 5090", "rtx-5090"),
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA B200", "b200"),
        ("Tesla P40", "p40"),
        ("NVIDIA Thor", "jetson-thor-t5000"),
        ("Orin (nvgpu)", "jetson-agx-orin-64gb"),
    ],
)
def test_nvml_names_of_the_tables_cards(name, row):
    assert nvidia_row(name) == row
    assert row in device_names()


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3060 Ti",
        "NVIDIA GeForce RTX 4080",
        "NVIDIA A100-SXM4-40GB",
        "NVIDIA A100-PCIE-40GB",
        "NVIDIA L40",
        "NVIDIA H100 NVL",
        "NVIDIA RTX 6000",
        "NVIDIA RTX PRO 5000 Blackwell",
        "Tesla V100-SXM2-32GB",
        "",
    ],
)
def test_cards_that_only_sound_like_one_of_the_table_are_not_taken_for_it(name):
    assert nvidia_row(name) is None


def test_pci_ids_tell_the_cards_of_one_chip_apart_by_their_revision():
    assert pci_row(AMD, 0x744C, 0xC8) == "rx-7900-xtx"
    assert pci_row(AMD, 0x744C, 0xCC) is None  # RX 7900 XT
    assert pci_row(AMD, 0x1586, 0xC1) == "strix-halo"
    assert pci_row(INTEL, 0xE20B, 0x00) == "arc-b580"
    assert pci_row(INTEL, 0xE20C, 0x00) is None  # B570
    assert pci_row(0x10DE, 0x744C, 0xC8) is None


def test_a_card_with_half_the_memory_is_another_card():
    assert same_memory(24564 * 2**20, 24 * 2**30)
    assert same_memory(143771 * 2**20, 141 * 2**30)
    assert not same_memory(8 * 2**30, 12 * 2**30)
