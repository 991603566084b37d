"""Every recorded stream of every engine: read alike in whatever pieces it arrives, and as the server meant it."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.data_path import DATA, MISSING
from tests.wire.streams import read_stream, untimed
from widelane.errors import CallError, ServerFailed
from widelane.records import ChatRequest, UsageOrigin
from widelane.wire.sse import SSEDecoder

STREAMS = sorted((DATA / "fixtures").rglob("*.sse")) if DATA else []
NAMES = [str(path.relative_to(DATA / "fixtures")) for path in STREAMS] if DATA else []

if not STREAMS:
    pytest.skip(MISSING, allow_module_level=True)


def request_of(path: Path) -> ChatRequest:
    """The request that was recorded with a stream."""
    entries = json.loads((path.parent / "index.json").read_text())["files"]
    body: dict[str, Any] = next(entry["request"] for entry in entries if entry["file"] == path.name)
    known = {key: body[key] for key in ("messages", "prompt", "max_tokens", "n", "tools") if key in body}
    return ChatRequest(**known, raw=True)


def outcome(parts: list[bytes], request: ChatRequest) -> Any:
    try:
        return untimed(read_stream(parts, request))
    except CallError as error:
        return error.code, str(error), untimed(error.partial) if error.partial else None


@pytest.mark.parametrize("path", STREAMS, ids=NAMES)
def test_every_cut_in_two_gives_the_same_payloads(path: Path) -> None:
    """The assembler sees nothing but payloads, so this holds for the replies as well."""
    stream = path.read_bytes()
    whole = SSEDecoder().feed(stream)
    assert whole
    for place in range(len(stream) + 1):
        decoder = SSEDecoder()
        assert decoder.feed(stream[:place]) + decoder.feed(stream[place:]) == whole, f"cut at byte {place}"


@pytest.mark.parametrize("path", STREAMS, ids=NAMES)
def test_bytewise_and_in_random_pieces_it_reads_the_same(path: Path) -> None:
    stream, request = path.read_bytes(), request_of(path)
    whole = outcome([stream], request)
    assert outcome([stream[i : i + 1] for i in range(len(stream))], request) == whole
    rng = random.Random(f"pieces of {path.name}")
    for _ in range(20):
        places = sorted({0, len(stream), *(rng.randrange(len(stream)) for _ in range(rng.randrange(1, 60)))})
        assert outcome([stream[a:b] for a, b in itertools.pairwise(places)], request) == whole


@pytest.mark.parametrize("path", STREAMS, ids=NAMES)
def test_text_is_what_the_deltas_say(path: Path) -> None:
    """An independent, naive reading of the stream agrees with the assembled reply."""
    stream, request = path.read_bytes(), request_of(path)
    lines = [line[6:] for line in stream.decode().split("\n") if line.startswith("data: {")]
    chunks = [json.loads(line) for line in lines]
    if any("error" in chunk for chunk in chunks):
        with pytest.raises(ServerFailed) as failed:
            read_stream([stream], request)
        assert failed.value.partial is not None
        return
    content = {0: "", **dict.fromkeys(range(request.n), "")}
    reasoning = ""
    finish = None
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        delta = choice.get("delta", choice)
        content[choice["index"]] += delta.get("content", delta.get("text")) or ""
        reasoning += delta.get("reasoning_content") or delta.get("reasoning") or ""
        finish = choice["finish_reason"] or finish
    reply = read_stream([stream], request)
    assert reply.finish == finish
    if "reasoning_in_content" in reply.warnings:
        assert content[0].endswith(reply.text)
        assert reply.reasoning in content[0]
    else:
        assert list(reply.choices) == [content[index] for index in sorted(content)]
        assert reply.reasoning == reasoning
    usage = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
    if usage:
        assert reply.usage is not None
        assert reply.usage.origin is UsageOrigin.READ
        assert reply.usage.completion_tokens == usage[-1]["completion_tokens"]
        assert reply.usage.prompt_tokens == usage[-1]["prompt_tokens"]
