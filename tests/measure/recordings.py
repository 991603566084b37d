"""Recorded bursts (`sweeps/*.json` of the shared data) as the rows that a sweep makes."""

import json
import re
from pathlib import Path
from typing import Any

from widelane.measure.calls import CallRecord, decoding_together
from widelane.measure.client_watch import ClientLoad
from widelane.measure.known import Known
from widelane.measure.level import Repeat, level_row
from widelane.measure.profile import Level

NO_LOAD = ClientLoad(0.01, 0.0, 0.0)


def load(path: Path) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads(path.read_text())
    return recording


def stated_sequences(recording: dict[str, Any]) -> int:
    """How many sequences the recorded server was started for: `-np N` or `--max-num-seqs N`."""
    found = re.search(r"(?:-np|--max-num-seqs) (\d+)", recording["recorded_with"]["args"])
    assert found is not None
    return int(found[1])


def calls(level: dict[str, Any]) -> list[CallRecord]:
    return [
        CallRecord(
            sent_ns=_ns(request["start_ms"]),
            ended_ns=_ns(request["end_ms"]),
            chunk_ns=tuple(_ns(t) for t in request["chunk_ms"]),
            output_tokens=request["tokens"],
            failure=None if request["status"] == 200 else f"status_{request['status']}",
        )
        for request in level["requests"]
    ]


def rows(recording: dict[str, Any]) -> list[Level]:
    found: list[Level] = []
    for level in recording["levels"]:
        burst = calls(level)
        alone = found[0].ttft_s.p50.number if found else None
        repeat = Repeat(
            number=0,
            window_s=level["wall_s"],
            output_tokens=float(sum(call.output_tokens or 0 for call in burst)),
            calls=tuple(burst),
            decoding_together=decoding_together(burst),
            unfinished=0,
            client=NO_LOAD,
        )
        known = Known(output_tokens=recording["max_tokens"], alone_ttft_s=alone, steady=False)
        found.append(level_row(level["concurrency"], [repeat], known))
    return found


def _ns(ms: float) -> int:
    return round(ms * 1e6)
