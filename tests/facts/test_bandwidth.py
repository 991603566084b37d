"""Memory bandwidth: how large a buffer, which pass counts, and that this machine's figure is no fancy."""

import contextlib
import time

import pytest

from widelane.clock import SystemClock
from widelane.errors import WidelaneError
from widelane.facts.devices.bandwidth import buffer_bytes, free_memory_bytes, measure_bandwidth
from widelane.facts.devices.last_level_cache import last_level_cache_bytes
from widelane.facts.devices.memory_passes import MemoryPasses

MIB, GIB = 2**20, 2**30


class PassClock:
    """Time that only passes take."""

    def __init__(self):
        self.t_ns = 0

    def now_ns(self):
        return self.t_ns

    def wall_s(self):
        return 0.0


class TimedPasses:
    """Passes over 1 GiB that take the given seconds, one after another; the last goes on."""

    buffer_bytes = GIB

    def __init__(self, clock, reads_s, copies_s):
        self.clock, self.reads_s, self.copies_s = clock, list(reads_s), list(copies_s)

    def read(self):
        self._take(self.reads_s)

    def copy(self):
        self._take(self.copies_s)

    def _take(self, seconds):
        self.clock.t_ns += int(seconds[0] * 1e9)
        if len(seconds) > 1:
            seconds.pop(0)


def measured(reads_s, copies_s, **options):
    clock = PassClock()

    @contextlib.contextmanager
    def opened(size, threads):
        yield TimedPasses(clock, reads_s, copies_s)

    return measure_bandwidth(clock=clock, opened=opened, **options)


def no_sysctl(name):
    return None


def test_the_best_pass_counts_and_a_copy_counts_both_ways():
    found = measured([0.5, 0.25, 0.3], [0.5, 0.4, 0.6])
    assert found.read_bytes_s == 4 * GIB
    assert found.copy_bytes_s == pytest.approx(2.5 * GIB)  # half the buffer read, half written
    assert found.doubt is None


def test_it_goes_on_until_the_time_is_up_with_three_passes_at_least():
    assert measured([0.1], [0.1], seconds=2.0).passes == 10
    assert measured([5.0], [5.0], seconds=2.0).passes == 3


def test_progress_rises_to_one():
    told = []
    measured([0.1], [0.1], seconds=1.0, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(told) == 5


@pytest.mark.parametrize(
    ("reads_s", "copies_s", "doubt"),
    [
        ([0.1, 0.3, 0.3], [0.2], "busy"),
        ([0.5], [0.2], "less than half"),
        ([1e-9], [1e-9], "cannot be trusted"),
    ],
)
def test_figures_that_contradict_each_other_are_doubted(reads_s, copies_s, doubt):
    assert doubt in measured(reads_s, copies_s).doubt


def test_the_buffer_is_four_times_the_caches_and_at_least_half_a_gibibyte():
    assert buffer_bytes(None, None) == 512 * MIB
    assert buffer_bytes(32 * MIB, 64 * GIB) == 512 * MIB
    assert buffer_bytes(1152 * MIB, 512 * GIB) == 4608 * MIB
    assert buffer_bytes(4 * GIB, 512 * GIB) == 8 * GIB


def test_it_never_takes_more_than_a_quarter_of_the_free_memory():
    assert buffer_bytes(32 * MIB, 1 * GIB) == 256 * MIB
    with pytest.raises(WidelaneError, match="a quarter of the free memory is 50 MiB"):
        buffer_bytes(32 * MIB, 200 * MIB)


def test_the_caches_of_all_core_groups_count_once_each(tmp_path):
    for core in range(8):
        for index, (level, size, shared) in enumerate([(1, "32K", f"{core}"), (3, "16384K", f"{core // 4}")]):
            folder = tmp_path / f"devices/system/cpu/cpu{core}/cache/index{index}"
            folder.mkdir(parents=True)
            (folder / "level").write_text(f"{level}\n")
            (folder / "size").write_text(f"{size}\n")
            (folder / "shared_cpu_list").write_text(f"{shared}\n")
    assert last_level_cache_bytes(tmp_path, no_sysctl) == 32 * MIB


def test_a_mac_tells_its_cache_and_free_pages_through_sysctl(tmp_path):
    values = {"hw.perflevel0.l2cachesize": 16 * MIB, "vm.page_free_count": 1000, "hw.pagesize": 16384}

    def sysctl(name):
        return values[name].to_bytes(8, "little") if name in values else None

    assert last_level_cache_bytes(tmp_path, sysctl) == 16 * MIB
    assert free_memory_bytes(tmp_path, tmp_path, sysctl) == 16_384_000
    assert last_level_cache_bytes(tmp_path, no_sysctl) is None


def test_a_containers_limit_bounds_the_free_memory(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 4194304 kB\nMemAvailable: 2097152 kB\n")
    assert free_memory_bytes(tmp_path, tmp_path, no_sysctl) == 2 * GIB
    (tmp_path / "fs/cgroup").mkdir(parents=True)
    (tmp_path / "fs/cgroup/memory.max").write_text(f"{GIB}\n")
    (tmp_path / "fs/cgroup/memory.current").write_text(f"{GIB // 4}\n")
    assert free_memory_bytes(tmp_path, tmp_path, no_sysctl) == 3 * GIB // 4


def test_memory_that_cannot_be_had_is_one_clear_error():
    with pytest.raises(WidelaneError, match="cannot be had"), MemoryPasses.opened(2**60, 1):
        raise AssertionError


def test_a_failure_inside_lets_go_of_the_memory_and_the_threads():
    with pytest.raises(ZeroDivisionError), MemoryPasses.opened(8 * MIB, 2) as passes:
        threads = passes._threads
        raise ZeroDivisionError
    assert not any(thread.is_alive() for thread in threads)


def test_a_copy_copies():
    with MemoryPasses.opened(8 * MIB, 2) as passes:
        passes._memory[0:4] = b"\x01\x02\x03\x04"
        passes.copy()
        half = passes.buffer_bytes // 4  # two parts, two halves each
        assert passes._memory[half : half + 4] == b"\x01\x02\x03\x04"


def test_a_byte_that_should_not_be_there_fails_the_read():
    with MemoryPasses.opened(8 * MIB, 2) as passes:
        passes._memory[-1:] = b"\xaa"
        with pytest.raises(WidelaneError, match="does not hold"):
            passes.read()


def test_this_machines_memory_is_as_fast_as_python_copies_it_and_slower_than_any_machine():
    found = measure_bandwidth(clock=SystemClock(), seconds=0.1)
    source = bytes(64 * MIB)
    target = bytearray(64 * MIB)
    best_s = 1e9
    for _ in range(5):
        begun = time.perf_counter()
        target[:] = source
        best_s = min(best_s, time.perf_counter() - begun)
    plain_bytes_s = 2 * len(source) / best_s
    assert found.threads >= 1
    assert found.buffer_bytes >= 64 * MIB
    # One thread's plain copy is a floor for all cores together; a third leaves room for a busy machine.
    assert plain_bytes_s / 3 < found.copy_bytes_s < 2e13
    assert found.copy_bytes_s / 4 < found.read_bytes_s < 2e13
