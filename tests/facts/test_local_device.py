"""Which device a machine has, told by made-up machines: NVML doubles, sysctl tables, and small /sys and /proc trees."""

import sys
from types import SimpleNamespace

import pytest

from widelane.facts.devices.device import DeviceKind
from widelane.facts.devices.local import local_device
from widelane.facts.devices.nvidia import nvidia_device

GIB, MIB = 2**30, 2**20


class NvmlError(Exception):
    pass


class FakeNvml:
    """NVML of a machine with these cards: (name, MiB of memory or None, bus bits, MHz)."""

    NVMLError = NvmlError

    def __init__(self, *cards, starts=True):
        self.cards, self.starts, self.open = cards, starts, False

    def nvmlInit(self):  # noqa: N802
        if not self.starts:
            raise NvmlError("Driver Not Loaded")
        self.open = True

    def nvmlShutdown(self):  # noqa: N802
        self.open = False

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return self.cards[index]

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return handle[0]

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return SimpleNamespace(total=_told(handle[1]) * MIB)

    def nvmlDeviceGetMemoryBusWidth(self, handle):  # noqa: N802
        return _told(handle[2])

    def nvmlDeviceGetMaxClockInfo(self, handle, kind):  # noqa: N802
        assert kind == 2  # NVML_CLOCK_MEM
        return _told(handle[3])


def _told(value):
    if value is None:
        raise NvmlError("Not Supported")
    return value


NO_NVML = FakeNvml(starts=False)


@pytest.fixture
def machine(tmp_path):
    """Makes /sys and /proc from `{path: text}` and recognises the machine."""

    def make(files, *, nvml=NO_NVML, sysctl=lambda name: None, system="linux"):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return local_device(
            sys_root=tmp_path / "sys", proc_root=tmp_path / "proc", nvml=nvml, sysctl=sysctl, system=system
        )

    return make


def meminfo(gib):
    return {"proc/meminfo": f"MemTotal:       {gib * MIB} kB\nMemFree:  1 kB\n"}


def drm(card, vendor, device, revision="0x00", **files):
    folder = f"sys/class/drm/{card}/device"
    ids = {"vendor": vendor, "device": device, "revision": revision, **files}
    return {f"{folder}/{name}": f"{text}\n" for name, text in ids.items()}


# --- NVIDIA


def test_a_card_of_the_table_takes_the_tables_figures_and_the_drivers_memory(machine):
    found = machine({}, nvml=FakeNvml(("NVIDIA GeForce RTX 3090", 24576, 384, 9751)))
    assert found.device.name == "rtx-3090"
    assert found.device.memory_bandwidth_bytes_s == 936.2e9
    assert found.device.usable_memory_bytes == int(24 * GIB * 0.97)
    assert "NVIDIA GeForce RTX 3090" in found.how
    assert found.passed_over == ()


def test_a_card_that_is_not_in_the_table_is_described_by_its_driver(machine):
    found = machine({}, nvml=FakeNvml(("NVIDIA GeForce RTX 4090 Laptop GPU", 16376, 256, 9001))).device
    assert (found.name, found.kind) == ("NVIDIA GeForce RTX 4090 Laptop GPU", DeviceKind.GPU)
    assert found.memory_bandwidth_bytes_s == pytest.approx(576.064e9)  # 2 x 9001 MHz x 32 bytes
    assert found.memory_bytes == 16376 * MIB
    assert found.bf16_flops is None
    assert "not in the device table" in found.note


def test_the_version_with_other_memory_is_not_the_tables_card(machine):
    found = machine({}, nvml=FakeNvml(("NVIDIA GeForce RTX 3060", 8192, 128, 7501))).device
    assert found.name == "NVIDIA GeForce RTX 3060"
    assert found.memory_bandwidth_bytes_s == pytest.approx(240.032e9)


def test_a_gb10_has_the_systems_memory(machine):
    found = machine(meminfo(119), nvml=FakeNvml(("NVIDIA GB10", None, None, None))).device
    assert (found.name, found.kind) == ("gb10", DeviceKind.UNIFIED)
    assert (found.memory_bytes, found.usable_memory_bytes) == (128 * GIB, 119 * GIB)


def test_a_card_without_memory_of_its_own_and_without_a_row_shares_the_systems(machine):
    found = machine(meminfo(60), nvml=FakeNvml((b"NVIDIA N1X", None, 256, 4266))).device
    assert (found.name, found.kind, found.memory_bytes) == ("NVIDIA N1X", DeviceKind.UNIFIED, 60 * GIB)


def test_several_cards_alike_are_told_and_one_is_taken(machine):
    card = ("NVIDIA L4", 23034, 192, 6251)
    found = machine({}, nvml=FakeNvml(card, card, card))
    assert (found.device.name, found.device.count) == ("l4", 1)
    assert "3x-l4" in found.how


def test_of_different_cards_the_one_with_the_most_memory_is_taken(machine):
    found = machine({}, nvml=FakeNvml(("NVIDIA L4", 23034, 192, 6251), ("NVIDIA L40S", 46068, 384, 9001)))
    assert found.device.name == "l40s"
    assert "2 different cards" in found.how


@pytest.mark.parametrize(
    ("nvml", "reason"),
    [
        (FakeNvml(starts=False), "Driver Not Loaded"),
        (FakeNvml(), "sees no card"),
        (FakeNvml(("NVIDIA X1", None, None, None)), "does not tell its memory"),
        (None, "not installed"),
    ],
)
def test_without_a_card_there_is_a_reason(nvml, reason):
    found = nvidia_device(nvml, None)
    assert found.device is None
    assert reason in found.how


def test_the_driver_is_let_go_of():
    nvml = FakeNvml(("NVIDIA L4", 23034, 192, 6251))
    nvidia_device(nvml, None)
    assert not nvml.open


# --- Apple


def table(**values):
    def raw(name):
        value = values.get(name.replace(".", "_"))
        if value is None:
            return None
        return value.encode() + b"\0" if isinstance(value, str) else value.to_bytes(8, sys.byteorder)

    return raw


def test_a_mac_has_its_own_memory_and_three_quarters_of_it_to_use(machine):
    sysctl = table(machdep_cpu_brand_string="Apple M2 Ultra", hw_memsize=64 * GIB, iogpu_wired_limit_mb=0)
    found = machine({}, sysctl=sysctl, system="darwin")
    assert found.device.name == "apple-m2-ultra"
    assert (found.device.memory_bytes, found.device.usable_memory_bytes) == (64 * GIB, 48 * GIB)
    assert found.device.memory_bandwidth_bytes_s == 800e9


def test_a_raised_wired_limit_counts(machine):
    sysctl = table(machdep_cpu_brand_string="Apple M4", hw_memsize=32 * GIB, iogpu_wired_limit_mb=28672)
    found = machine({}, sysctl=sysctl, system="darwin")
    assert found.device.usable_memory_bytes == 28 * GIB
    assert "28672" in found.how


@pytest.mark.parametrize(("cores", "bandwidth"), [(10, 410e9), (12, 546e9)])
def test_the_two_versions_of_an_m4_max_differ_in_bandwidth(machine, cores, bandwidth):
    sysctl = table(machdep_cpu_brand_string="Apple M4 Max", hw_memsize=36 * GIB, hw_perflevel0_physicalcpu=cores)
    assert machine({}, sysctl=sysctl, system="darwin").device.memory_bandwidth_bytes_s == bandwidth


def test_a_chip_newer_than_the_table_says_that_its_bandwidth_is_not_known(machine):
    sysctl = table(machdep_cpu_brand_string="Apple M9 Mega", hw_memsize=64 * GIB)
    found = machine({}, sysctl=sysctl, system="darwin").device
    assert (found.name, found.kind) == ("Apple M9 Mega", DeviceKind.UNIFIED)
    assert found.memory_bandwidth_bytes_s is None
    assert "not known" in found.note


def test_an_intel_mac_is_a_cpu(machine):
    sysctl = table(machdep_cpu_brand_string="Intel(R) Core(TM) i9-9980HK CPU @ 2.40GHz", hw_memsize=32 * GIB)
    found = machine({}, sysctl=sysctl, system="darwin")
    assert (found.device.kind, found.device.memory_bytes) == (DeviceKind.CPU, 32 * GIB)
    assert "i9-9980HK" in found.device.name


# --- AMD and Intel


def test_an_amd_card_of_the_table(machine):
    files = drm("card1", "0x1002", "0x744c", "0xc8", mem_info_vram_total=str(24560 * MIB))
    found = machine(files)
    assert found.device.name == "rx-7900-xtx"
    assert found.device.usable_memory_bytes == int(24560 * MIB * 0.97)
    assert "1002:744c" in found.how
    assert "Driver Not Loaded" in found.passed_over[0]


def test_another_amd_card_is_described_by_the_compute_driver(machine):
    node = "sys/class/kfd/kfd/topology/nodes/1"
    files = {
        **drm("card0", "0x1002", "0x744c", "0xcc", mem_info_vram_total=str(20 * GIB), product_name="RX 7900 XT"),
        f"{node}/properties": "simd_count 168\nvendor_id 4098\ndevice_id 29772\ngfx_target_version 110000\n",
        f"{node}/mem_banks/0/properties": "heap_type 1\nwidth 320\nmem_clk_max 1249\n",
    }
    found = machine(files).device
    assert (found.name, found.kind, found.memory_bytes) == ("RX 7900 XT", DeviceKind.GPU, 20 * GIB)
    assert found.memory_bandwidth_bytes_s == pytest.approx(799.36e9)  # AMD states 800 GB/s


def test_an_unknown_amd_card_without_the_compute_driver_has_no_bandwidth(machine):
    found = machine(drm("card0", "0x1002", "0x73bf", mem_info_vram_total=str(16 * GIB))).device
    assert found.name == "AMD GPU 1002:73bf"
    assert found.memory_bandwidth_bytes_s is None


def test_strix_halo_uses_its_carve_out_and_what_the_driver_may_map(machine):
    files = drm("card0", "0x1002", "0x1586", "0xc1", mem_info_vram_total=str(GIB), mem_info_gtt_total=str(110 * GIB))
    found = machine({**files, **meminfo(124)}).device
    assert (found.name, found.memory_bytes, found.usable_memory_bytes) == ("strix-halo", 128 * GIB, 111 * GIB)


def test_strix_halo_with_less_memory_has_less_memory(machine):
    files = drm("card0", "0x1002", "0x1586", "0xc1", mem_info_vram_total=str(GIB), mem_info_gtt_total=str(30 * GIB))
    found = machine({**files, **meminfo(62)}).device
    assert (found.memory_bytes, found.usable_memory_bytes) == (63 * GIB, 31 * GIB)


def test_an_intel_card_of_the_table_with_and_without_resizable_bars(machine):
    for window in ("0x6000000000 0x62ffffffff 0x14220c", "0x60000000 0x6fffffff 0x14220c"):
        found = machine(drm("card0", "0x8086", "0xe20b", resource=f"0x0 0x0 0x0\n{window}\ngarbage")).device
        assert (found.name, found.memory_bandwidth_bytes_s) == ("arc-b580", 456e9)


def test_the_graphics_part_of_a_cpu_is_passed_over(machine):
    files = {
        **drm("card0", "0x1002", "0x164e", mem_info_vram_total=str(512 * MIB)),
        **drm("card1", "0x8086", "0xa780", resource="0x6000000000 0x600fffffff 0x14220c"),
        **meminfo(32),
        "proc/cpuinfo": "processor : 0\nmodel name\t: AMD Ryzen 9 7950X\n",
    }
    found = machine(files)
    assert (found.device.kind, found.device.name) == (DeviceKind.CPU, "AMD Ryzen 9 7950X")
    assert "graphics part of a CPU" in found.passed_over[1]


def test_two_amd_cards_alike_are_told(machine):
    card = {"vendor": "0x1002", "device": "0x7551", "mem_info_vram_total": str(32 * GIB)}
    found = machine({**drm("card0", **card), **drm("card1", **card), "sys/class/drm/card0-DP-1/status": "connected"})
    assert found.device.count == 1
    assert "2x-radeon-ai-pro-r9700" in found.how


# --- the rest


def test_a_machine_without_a_gpu_is_its_cpu_with_a_tenth_left_to_the_system(machine):
    found = machine({**meminfo(100), "proc/cpuinfo": "model name : AMD EPYC 9654\n"}).device
    assert (found.name, found.kind, found.memory_bytes) == ("AMD EPYC 9654", DeviceKind.CPU, 100 * GIB)
    assert found.usable_memory_bytes == 90 * GIB
    assert found.memory_bandwidth_bytes_s is None
    assert "measure it" in found.note


@pytest.mark.parametrize("path", ["fs/cgroup/memory.max", "fs/cgroup/memory/memory.limit_in_bytes"])
def test_a_containers_limit_is_what_can_be_used(machine, path):
    found = machine({**meminfo(100), f"sys/{path}": f"{16 * GIB}\n"}).device
    assert (found.memory_bytes, found.usable_memory_bytes) == (100 * GIB, 16 * GIB)


@pytest.mark.parametrize("text", ["max\n", "9223372036854771712\n", "\n"])
def test_no_limit_is_no_limit(machine, text):
    assert machine({**meminfo(100), "sys/fs/cgroup/memory.max": text}).device.usable_memory_bytes == 90 * GIB


def test_an_arm_board_is_called_by_its_name(machine):
    assert machine({"proc/device-tree/model": "Raspberry Pi 5 Model B\0"}).device.name == "Raspberry Pi 5 Model B"


def test_a_machine_that_tells_nothing_still_has_a_cpu_and_says_what_was_assumed(machine):
    found = machine({"proc/meminfo": "\xff garbage", "sys/class/drm/card0/device/vendor": "0xzz"})
    assert found.device.kind is DeviceKind.CPU
    assert found.device.name
    assert "8 GiB assumed" in found.device.note


def test_this_machine_is_recognised():
    found = local_device()
    assert found.device.memory_bytes > 2**28
    assert found.how
