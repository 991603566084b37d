"""All faults by name, and which request gets which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from widelane.errors import UsageError
from widelane.sim.faults.answers import SAYINGS
from widelane.sim.faults.fault import Fault
from widelane.sim.faults.refusals import REFUSALS
from widelane.sim.faults.streams import REASONING_FIELDS, STREAMS

NONE = "none"
"""In a list of faults: a request that is answered well."""
QUEUE = "silent_queue_slots"
"""Not of one request: so few slots that the fifth waits, with its headers sent."""
QUEUE_SLOTS = 4

_QUEUE_FAULT = Fault(name=QUEUE, what="four slots: further requests get headers at once and wait for their tokens")
FAULTS: Mapping[str, Fault] = {
    fault.name: replace(fault, bend=REASONING_FIELDS.get(fault.name, fault.bend))
    for fault in (*STREAMS, *REFUSALS, *SAYINGS, _QUEUE_FAULT)
}
"""Name -> fault."""

FaultChoice = Callable[[int], str | None]
"""The name of the fault that the request with this number (from 0) gets; None or `none`: it is answered well."""


def in_turn(names: Sequence[str]) -> FaultChoice | None:
    """The named faults, one a request, again and again; None where no name is given.

    Raises:
        UsageError: a name is not known.
    """
    for name in names:
        find_fault(name)
    of_requests = [name for name in names if name != QUEUE]
    if not of_requests:
        return None
    return lambda number: of_requests[number % len(of_requests)]


def find_fault(name: str | None) -> Fault | None:
    """The fault of this name; None for `none`.

    Raises:
        UsageError: there is no such fault.
    """
    if name is None or name == NONE:
        return None
    fault = FAULTS.get(name)
    if fault is None:
        raise UsageError(f"There is no fault {name!r}. There are: {NONE}, {', '.join(sorted(FAULTS))}.")
    return fault
