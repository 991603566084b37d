"""Numbers as people read them: three digits, the unit once, the origin where nothing was measured."""

from __future__ import annotations

import math

import pytest

from tests.report.samples import facts, measured
from widelane.figures import Figure, Origin, unknown
from widelane.report.text import (
    figure_text,
    gain_text,
    half_width_text,
    list_text,
    number_text,
    seconds_text,
    server_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (4, "4"), (8192, "8,192"), (34.14, "34.1"), (4.186, "4.19"), (152.4, "152"), (1234.5, "1,234"),
        (0.0715, "0.0715"), (0.00012, "0.000120"), (-2.5, "-2.50"), (math.nan, "–"), (math.inf, "–"),
    ],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("value_s", "text"),
    [(0.0715, "71.5 ms"), (4.186, "4.19 s"), (4.0, "4.00 s"), (185, "3 min 5 s"), (7500, "2 h 5 min")],
)
def test_durations(value_s: float, text: str) -> None:
    assert seconds_text(value_s) == text


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (measured(34.1, "tok/s", 33.5, 34.7), "34.1 tok/s (33.5–34.7)"),
        (measured(34.0, "tok/s"), "34.0 tok/s"),
        (Figure(4, "slots", Origin.READ), "4 slots (read)"),
        (Figure(8192, "tokens", Origin.INFERRED), "8,192 tokens (inferred)"),
        (Figure(165.0, "tok/s", Origin.PREDICTED, low=150, high=180), "165 tok/s (150–180, predicted)"),
        (Figure(17_500_000_000, "bytes", Origin.READ), "17.5 GB (read)"),
        (Figure(False, "", Origin.READ), "no (read)"),
        (Figure("f16", "", Origin.INFERRED), "f16 (inferred)"),
        (Figure(0.3, "s", Origin.ASSUMED), "300 ms (assumed)"),
        (unknown("slots", "not told"), "–"),
        (Figure(27_356_000_000, "parameters", Origin.READ), "27.4 B (read)"),
        (Figure(135, "parameters", Origin.READ), "135 (read)"),
        (Figure(273e9, "bytes/s", Origin.READ), "273 GB/s (read)"),
        (Figure(32_768, "bytes/token", Origin.PREDICTED), "32.8 kB/token (predicted)"),
        (Figure(0, "bytes", Origin.PREDICTED), "0 bytes (predicted)"),
        (Figure(39.0, "requests", Origin.PREDICTED), "39 requests (predicted)"),
        (Figure(5.37, "requests", Origin.PREDICTED), "5.37 requests (predicted)"),
        (Figure(1, "lanes", Origin.PREDICTED), "1 lane (predicted)"),
    ],
)
def test_figures(figure: Figure, text: str) -> None:
    assert figure_text(figure) == text


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (measured(17.5e9, "bytes", 16e9, 19.2e9), "17.5 GB (16.0–19.2)"),
        (measured(0.124, "s", 0.112, 0.137), "124 ms (112–137)"),
        (measured(4.2, "s", 4.0, 4.4), "4.20 s (4.00–4.40)"),
        (measured(185, "s", 125, 245), "3 min 5 s (2 min 5 s–4 min 5 s)"),
        (measured(27.4e9, "parameters", 27e9, 28e9), "27.4 B (27.0–28.0)"),
        (measured(168, "lanes", 168, 193), "168 lanes (168–193)"),
        (measured(1, "lanes", 1, 1), "1 lane"),
        (measured(5.4, "requests", 4.5, 7), "5.40 requests (4.50–7.00)"),
    ],
)
def test_an_interval_is_in_the_unit_of_its_value(figure: Figure, text: str) -> None:
    assert figure_text(figure) == text


def test_a_gain_is_a_factor() -> None:
    assert gain_text(measured(1.532, "")) == "×1.53"
    assert gain_text(unknown("", "not known")) == "–"


def test_the_half_width_is_the_larger_one_with_the_decimals_of_the_value() -> None:
    assert half_width_text(measured(34.1, "tok/s", 33.5, 34.4)) == "0.6"
    assert half_width_text(measured(152.0, "tok/s", 147.6, 156.4)) == "4"
    assert half_width_text(measured(34.1, "tok/s")) == ""
    assert half_width_text(measured(3284, "tok/s", 1094, 5474)) == "2,190"


def test_lists() -> None:
    assert [list_text(items) for items in ([], [1], [1, 2], [1, 2, 4])] == ["", "1", "1 and 2", "1, 2 and 4"]


def test_the_server_in_one_line() -> None:
    assert server_text("http://127.0.0.1:8080/v1", facts()) == (
        "llama.cpp b11549 at 127.0.0.1:8080 · Qwen3.6-27B Q4_K_M · 17.5 GB · 4 slots × 8,192 tokens (read)"
    )


def test_what_is_not_known_of_the_server_is_left_out_of_its_line() -> None:
    hidden = unknown("", "not told")
    nothing = facts(
        engine="openai-compatible", version=hidden, model=hidden, weights_bytes=hidden, slots=hidden,
        context_per_slot=hidden,
    )  # fmt: skip
    assert server_text("https://example.org/v1/", nothing) == "openai-compatible at example.org"


def test_slots_and_context_of_different_origin_each_say_theirs() -> None:
    probed = facts(slots=Figure(4, "slots", Origin.INFERRED))
    assert server_text("http://h:1", probed).endswith("4 slots (inferred) × 8,192 tokens (read)")
