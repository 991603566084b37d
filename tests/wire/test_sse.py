"""The SSE decoder: WHATWG's rules, whatever way the bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widelane.wire.sse import ErrorPayload, SSEDecoder


def decode(*parts: bytes) -> list[bytes]:
    decoder = SSEDecoder()
    return [payload for part in parts for payload in decoder.feed(part)]


@pytest.mark.parametrize(
    ("stream", "payloads"),
    [
        # the examples of the HTML standard, section "Interpreting an event stream"
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [b"YHOO\n+2\n10"]),
        (
            b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
            [b"first event", b"second event", b" third event"],
        ),
        (b"data\n\ndata\ndata\n\ndata:", [b"", b"\n"]),
        (b"data:test\n\ndata: test\n\n", [b"test", b"test"]),
        # line ends, the byte-order mark, fields that mean nothing here
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [b"a", b"b", b"c"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"event: message\nretry: 3000\nid: 7\ndata: a\n\n", [b"a"]),
        (b"nonsense: a\n\ndata: b\n\n", [b"b"]),
        # comments keep a connection alive and mean nothing
        (b":\n\n:\n\n: keepalive 1/12\n\ndata: a\n\n", [b"a"]),
        (b"data: a\n: ping\ndata: b\n\n", [b"a\nb"]),
        # an unfinished event is none
        (b"data: a\n", []),
        (b"data: a", []),
    ],
)
def test_streams_are_read_as_the_standard_says(stream: bytes, payloads: list[bytes]) -> None:
    assert decode(stream) == payloads


def test_an_event_named_error_is_marked() -> None:
    (payload,) = decode(b'event: error\ndata: {"message": "no"}\n\n')
    assert isinstance(payload, ErrorPayload)
    assert payload == b'{"message": "no"}'


def test_the_error_line_of_older_llama_cpp_is_marked() -> None:
    first, second = decode(b'error: {"code": 500}\n\ndata: {}\n\n')
    assert isinstance(first, ErrorPayload)
    assert not isinstance(second, ErrorPayload)


def test_the_rest_is_a_last_event_without_its_blank_line() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"data: a\n\ndata: [DONE]") == [b"a"]
    assert decoder.rest() == [b"[DONE]"]
    assert decoder.rest() == []


STREAM = (
    b'\xef\xbb\xbf: hi\r\n\r\ndata:{"a":\r\ndata: 1}\r\rdata: caf\xc3\xa9 \xf0\x9f\x8c\x8d\n\nevent: error\ndata: x\n\n'
)


def test_every_pair_of_cuts_gives_the_same_payloads() -> None:
    whole = decode(STREAM)
    assert len(whole) == 3
    for first in range(len(STREAM) + 1):
        for second in range(first, len(STREAM) + 1):
            assert decode(STREAM[:first], STREAM[first:second], STREAM[second:]) == whole


LINES = st.lists(
    st.sampled_from(
        [b"data: x", b"data:y", b"data", b":c", b"event: error", b"", b"id: 1", b'data: {"k": "\xe4\xbd\xa0"}']
    )
)


@given(lines=LINES, end=st.sampled_from([b"\n", b"\r", b"\r\n"]), cuts=st.lists(st.integers(0, 400)))
def test_no_way_of_cutting_changes_what_is_read(lines: list[bytes], end: bytes, cuts: list[int]) -> None:
    stream = b"".join(line + end for line in lines)
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    parts = [stream[a:b] for a, b in itertools.pairwise(places)]
    assert decode(*parts) == decode(stream)
    bytewise = [stream[i : i + 1] for i in range(len(stream))]
    assert decode(*bytewise) == decode(stream)
