"""What drivers call the devices of the table: NVML's product names, and PCI ids of AMD and Intel cards.

A name stands for a row only when it means exactly that card: laptop, Max-Q and half-memory versions that share most of
the name are other cards. Whether the memory agrees is checked apart (`same_memory`).
"""

from __future__ import annotations

import re
from typing import Final

_GEFORCE: Final = re.compile(r"(?:NVIDIA )?(?:GeForce )?(RTX \d{4}(?: Ti)?(?: SUPER)?)(?: \d+GB)?", re.IGNORECASE)
_GEFORCE_ROWS: Final = {
    "rtx 3060": "rtx-3060-12gb",
    "rtx 3080": "rtx-3080-10gb",
    "rtx 3090": "rtx-3090",
    "rtx 3090 ti": "rtx-3090-ti",
    "rtx 4060 ti": "rtx-4060-ti-16gb",
    "rtx 4070": "rtx-4070",
    "rtx 4070 ti super": "rtx-4070-ti-super",
    "rtx 4080 super": "rtx-4080-super",
    "rtx 4090": "rtx-4090",
    "rtx 5060 ti": "rtx-5060-ti-16gb",
    "rtx 5070": "rtx-5070",
    "rtx 5070 ti": "rtx-5070-ti",
    "rtx 5080": "rtx-5080",
    "rtx 5090": "rtx-5090",
}
_OTHER_NVIDIA: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), row)
    for pattern, row in (
        (r"(NVIDIA )?GB10", "gb10"),
        (r"(NVIDIA )?(Jetson )?AGX Orin.*64 ?GB.*|Orin \(nvgpu\)|(NVIDIA )?Jetson AGX Orin.*", "jetson-agx-orin-64gb"),
        (r"(NVIDIA )?(Jetson )?(AGX )?Thor.*", "jetson-thor-t5000"),
        (r"(NVIDIA )?(Quadro )?RTX A6000", "rtx-a6000"),
        (r"(NVIDIA )?RTX 6000 Ada Generation", "rtx-6000-ada"),
        (r"(NVIDIA )?RTX PRO 6000 Blackwell( (Workstation|Server|Max-Q Workstation) Edition)?", "rtx-pro-6000"),
        (r"(NVIDIA )?L4", "l4"),
        (r"(NVIDIA )?L40S", "l40s"),
        (r"(NVIDIA )?A30", "a30"),
        (r"(NVIDIA )?A100[ -](80GB[ -]PCIe?|PCIE-80GB)", "a100-pcie-80gb"),
        (r"(NVIDIA )?A100-SXM4-80GB", "a100-sxm-80gb"),
        (r"(NVIDIA )?H100[ -](80GB )?PCIe", "h100-pcie"),
        (r"(NVIDIA )?H100 (80GB HBM3|SXM5?.*)", "h100-sxm"),
        (r"(NVIDIA )?H200( NVL)?", "h200"),
        (r"(NVIDIA )?B200( SXM.*)?", "b200"),
        (r"(NVIDIA )?B300( SXM.*)?", "b300"),
        (r"(NVIDIA )?GB200", "gb200"),
        (r"(NVIDIA )?(Tesla )?P40", "p40"),
    )
)

AMD: Final = 0x1002
INTEL: Final = 0x8086

_PCI_ROWS: Final[dict[tuple[int, int], dict[int | None, str]]] = {
    # Revisions as in libdrm's amdgpu.ids; None is any. A 7900 XT (CC) and a 9070 (C3) are other cards.
    (AMD, 0x744C): {0xC8: "rx-7900-xtx"},
    (AMD, 0x7550): {0xC0: "rx-9070-xt"},
    (AMD, 0x7551): {None: "radeon-ai-pro-r9700"},
    (AMD, 0x1586): {None: "strix-halo"},  # 8060S, 8050S and 8040S: fewer units, the same 256-bit memory
    (AMD, 0x74A1): {None: "mi300x"},
    (AMD, 0x74B5): {None: "mi300x"},  # a virtual function of it
    # Linux include/drm/intel/pciids.h
    (INTEL, 0xE20B): {None: "arc-b580"},
    (INTEL, 0xE211): {None: "arc-pro-b60"},
    (INTEL, 0x56A0): {None: "arc-a770-16gb"},
}

MEMORY_TOLERANCE: Final = 0.12
"""Drivers report up to a tenth less than the row (ECC, reserved ranges); half-memory versions differ by a third."""


def nvidia_row(name: str) -> str | None:
    """The table's row for a product name of NVML, None when the table has no such card."""
    words = " ".join(name.split())
    if match := _GEFORCE.fullmatch(words):
        return _GEFORCE_ROWS.get(match[1].lower())
    return next((row for pattern, row in _OTHER_NVIDIA if pattern.fullmatch(words)), None)


def pci_row(vendor: int, device: int, revision: int | None) -> str | None:
    """The table's row for a card's PCI ids, None when the table has no such card."""
    rows = _PCI_ROWS.get((vendor, device), {})
    return rows.get(revision, rows.get(None))


def same_memory(reported_bytes: int, row_bytes: int) -> bool:
    """Whether a driver's figure is that of the row, and not of a version with other memory."""
    return abs(reported_bytes - row_bytes) <= MEMORY_TOLERANCE * row_bytes
