"""The memory as one bar: parts end to end, named where there is room, and an end that cannot be overlooked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report import plan_samples as samples
from widelane.figures import Figure, Origin, unknown
from widelane.plan.report import MemoryPart
from widelane.report.memory_bar import MemoryBar, memory_bar

GB = 10**9


def part(name: str, size: float) -> MemoryPart:
    return MemoryPart(name=name, bytes=Figure(size, "bytes", Origin.PREDICTED))


def bar(*parts: MemoryPart, memory_gb: float = 100) -> MemoryBar:
    found = memory_bar(parts, Figure(memory_gb * GB, "bytes", Origin.READ))
    assert found is not None
    return found


def test_the_parts_lie_end_to_end_and_fill_the_bar() -> None:
    found = bar(part("weights", 25 * GB), part("KV pool", 60 * GB), part("reserve", 15 * GB))
    assert [(one.start, one.width, one.share) for one in found.segments] == [
        (0, 25, 25), (25, 60, 60), (85, 15, 15),
    ]  # fmt: skip
    assert found.ends_at is None and found.overflow == ""


def test_more_than_the_device_has_is_marked_and_said() -> None:
    found = bar(part("weights", 150 * GB), part("activations", 50 * GB))
    assert found.ends_at == 50
    assert found.overflow == "The parts need 200 GB; the device has 100 GB."


def test_rounding_is_no_overflow() -> None:
    assert bar(part("weights", 100.05 * GB)).ends_at is None


def test_what_is_empty_or_not_known_is_listed_and_not_drawn() -> None:
    missing = MemoryPart(name="activations", bytes=unknown("bytes", "not estimated"))
    found = bar(part("weights", 10 * GB), missing, part("free", 0))
    assert [one.width for one in found.segments] == [100, None, None]
    assert [one.share for one in found.segments] == [100, None, 0]


def test_no_bar_without_anything() -> None:
    assert memory_bar([], Figure(GB, "bytes", Origin.READ)) is None
    assert memory_bar([part("weights", 0)], Figure(GB, "bytes", Origin.READ)) is None


def test_a_name_stands_inside_only_where_it_has_room() -> None:
    """A bar is at least 660 pixels wide on a wide screen and 300 on a narrow one; a sign takes 7.6."""
    found = bar(part("weights", 70 * GB), part("KV pool", 20 * GB), part("recurrent state", 10 * GB))
    assert [one.named for one in found.segments] == ["always", "wide", "never"]


def test_the_usual_parts_keep_their_colours_whatever_else_is_there() -> None:
    names = ("weights", "draft head", "activations", "driver context", "recurrent state", "KV pool", "free", "reserve")
    found = bar(*(part(name, GB) for name in names))
    assert [one.colour for one in found.segments] == [
        "blue", "violet", "rose", "grey", "amber", "green", "none", "grey",
    ]  # fmt: skip


def test_the_whole_in_words() -> None:
    found = memory_bar(samples.dense().memory, samples.dense().device.memory_bytes)
    assert found is not None
    assert found.words.startswith("weights 28.5 GB, activations and graphs 4.10 GB, recurrent state 11.6 GB")


@given(st.lists(st.floats(0, 1e15), min_size=1, max_size=12).filter(lambda sizes: sum(sizes) > 0))
def test_widths_add_up_to_the_bar(sizes: list[float]) -> None:
    found = memory_bar([part(f"part {index}", size) for index, size in enumerate(sizes)], unknown("bytes", "?"))
    assert found is not None
    assert sum(one.width or 0 for one in found.segments) == pytest.approx(100)
