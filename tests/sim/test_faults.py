"""Every fault by name: the real client and the lanes see of the simulated server what the catalogue says they must.

The catalogue's names and expectations are read from its files, whatever they hold.
"""

import asyncio
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from tests.data_path import DATA, MISSING
from tests.faults.entry_request import build_request, poisoned, wall_clock_s
from tests.sim.small_server import small_server
from widelane.clock import LoopClock
from widelane.errors import UsageError, WidelaneError
from widelane.lanes.lanes import Lanes
from widelane.records import ChatRequest, Reply
from widelane.sim.faults.catalogue import FAULTS, QUEUE, in_turn
from widelane.testing.virtual_time import run_virtual


def _entries() -> list[dict[str, Any]]:
    files = sorted((DATA / "faults").glob("*.jsonl")) if DATA else []
    return [json.loads(line) for file in files for line in file.read_text().splitlines() if line.strip()]


ENTRIES = _entries()
CLIENT_SIDE = {name for name, fault in FAULTS.items() if fault.ours} | {QUEUE}
"""Faults of which a single call shows nothing."""


def test_every_name_of_the_catalogue_is_known() -> None:
    if DATA is None:
        pytest.skip(MISSING)
    assert {entry["name"] for entry in ENTRIES} <= set(FAULTS)


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e["name"] not in CLIENT_SIDE], ids=lambda entry: entry["name"])
def test_the_outcome_is_that_of_the_catalogue(entry: dict[str, Any]) -> None:
    """A call that the catalogue wants to succeed meets the fault once, another one always."""
    expect = entry["expect"]
    wanted = expect["outcome"]
    once = wanted == "ok" and (expect.get("attempts", 1) != 1 or FAULTS[entry["name"]].outage_s is not None)
    request = poisoned(build_request(entry)) if "request_check" in expect else build_request(entry)
    outcome, reply = run_virtual(lambda: _one_call(entry, request, once=once))
    if wanted in ("ok", "failed"):
        assert outcome == wanted, reply
    if "error" in expect and outcome == "failed":
        assert getattr(reply, "code", None) == expect["error"], reply
    if wanted == "ok":
        _check_warnings(expect, reply)


def _check_warnings(expect: dict[str, Any], reply: Any) -> None:
    assert isinstance(reply, Reply)
    shown = {"tool_call_recovered", "reasoning_in_content", "no_finish_reason", "not_streamed", "max_tokens_ignored",
             "special_token_leak", "n_ignored"}  # fmt: skip
    assert shown & set(expect.get("warn", ())) <= set(reply.warnings)


async def _one_call(entry: dict[str, Any], request: ChatRequest, *, once: bool) -> tuple[str, Any]:
    name = entry["name"]
    clock = LoopClock(wall_clock_s(entry))
    async with small_server(
        faults=lambda number: name if number == 0 or not once else None, clock=clock, context=200_000
    ) as server:
        if name == "stale_keepalive_socket":  # a connection that has served before is what goes stale
            await server.fetch("GET", "/health")
        async with Lanes(server, width=1, clock=clock, rng=random.Random(7)) as lanes:
            try:
                return "ok", await lanes.call(replace(request, model=None), key="call")
            except WidelaneError as error:
                return "failed", error


def test_faults_come_in_turn_and_none_is_none() -> None:
    choose = in_turn(["rate_429_seconds", "none"])
    assert choose is not None
    assert [choose(number) for number in range(4)] == ["rate_429_seconds", "none", "rate_429_seconds", "none"]
    assert in_turn([]) is None
    with pytest.raises(UsageError, match="no fault 'gremlins'"):
        in_turn(["gremlins"])


def test_an_outage_ends() -> None:
    """The server dies under the first call; the lanes wait for it and make the call again."""

    async def through() -> float:
        async with small_server(faults=lambda number: "connection_refused_restart" if number == 0 else None) as server:
            async with Lanes(server, width=1, clock=LoopClock(), rng=random.Random(7)) as lanes:
                await lanes.call(ChatRequest(prompt="a", max_tokens=1), key="call")
            return asyncio.get_running_loop().time()

    assert 20.0 < run_virtual(through) < 40.0
