"""Compressed bodies that were not asked for are read all the same."""

from __future__ import annotations

import gzip
import zlib

import pytest

from widelane.errors import MalformedReply
from widelane.wire.content_coding import decompressor_for

TEXT = b"data: {}\n\n" * 50
RAW = zlib.compressobj(wbits=-15)
CODED = {"gzip": gzip.compress(TEXT), "deflate": zlib.compress(TEXT)}


@pytest.mark.parametrize("coding", CODED)
def test_a_coded_body_comes_out_whole_however_it_is_cut(coding: str) -> None:
    data = CODED[coding]
    for step in (1, 7, len(data)):
        decompressor = decompressor_for(coding)
        assert decompressor is not None
        assert b"".join(decompressor.feed(data[i : i + step]) for i in range(0, len(data), step)) == TEXT


def test_deflate_without_its_header_is_read_too() -> None:
    decompressor = decompressor_for("deflate")
    assert decompressor is not None
    assert decompressor.feed(RAW.compress(TEXT) + RAW.flush()) == TEXT


@pytest.mark.parametrize("coding", ["", "identity", " Identity "])
def test_an_uncoded_body_needs_nothing(coding: str) -> None:
    assert decompressor_for(coding) is None


def test_unknown_and_broken_codings_are_malformed() -> None:
    with pytest.raises(MalformedReply, match="'br'"):
        decompressor_for("br")
    decompressor = decompressor_for("gzip")
    assert decompressor is not None
    with pytest.raises(MalformedReply):
        decompressor.feed(b"not compressed at all")
