"""Each metric has one definition. The expected values are worked out by hand."""

import pytest

from widelane import metrics
from widelane.figures import Origin
from widelane.records import CallTiming

MS = 1_000_000
# Sent at 10 ms, first chunk at 110 ms, then chunks at 150, 190 and 310 ms; the usage chunk came at 400 ms.
TIMING = CallTiming(
    sent_ns=10 * MS,
    headers_ns=20 * MS,
    first_token_ns=110 * MS,
    ended_ns=400 * MS,
    chunk_ns=(110 * MS, 150 * MS, 190 * MS, 310 * MS),
)


def test_ttft_counts_from_the_request_and_includes_queueing():
    assert metrics.ttft_s(TIMING) == pytest.approx(0.100)


def test_e2e_ends_with_the_last_byte():
    assert metrics.e2e_s(TIMING) == pytest.approx(0.390)


def test_tpot_divides_by_tokens_not_by_chunks_and_ends_at_the_last_output():
    # Eight tokens in four chunks: (310 - 110) ms over 7 gaps between tokens.
    assert metrics.tpot_s(TIMING, 8) == pytest.approx(0.200 / 7)


@pytest.mark.parametrize("tokens", [None, 0, 1])
def test_tpot_is_undefined_below_two_tokens(tokens):
    assert metrics.tpot_s(TIMING, tokens) is None


def test_icl_is_the_gap_between_chunks_in_order():
    assert metrics.icl_s(TIMING) == pytest.approx([0.040, 0.040, 0.120])


def test_a_reply_that_was_not_streamed_has_only_an_e2e():
    whole = CallTiming(
        sent_ns=0, headers_ns=MS, first_token_ns=5 * MS, ended_ns=5 * MS, chunk_ns=(5 * MS,), streamed=False
    )
    assert metrics.ttft_s(whole) is None
    assert metrics.tpot_s(whole, 9) is None
    assert metrics.icl_s(whole) == []
    assert metrics.e2e_s(whole) == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [([1, 2, 3, 4], 0.5, 2.5), ([4, 1, 3, 2], 0.9, 3.7), ([7], 0.99, 7), ([1, 2], 0.0, 1), ([1, 2], 1.0, 2)],
)
def test_percentiles_interpolate_as_numpy_does_by_default(values, q, expected):
    assert metrics.percentile(values, q) == pytest.approx(expected)


def test_a_percentile_of_nothing_is_none_with_a_reason():
    figure = metrics.percentile_figure([], 0.5, "s", "no call finished")
    assert figure.value is None
    assert figure.reason == "no call finished"
    assert figure.origin is Origin.MEASURED
