"""Virtual time for tests of asyncio code: waiting costs nothing, and a deadlock is an error: `widelane.virtual_time`.

reply = run_virtual(main)          # `await asyncio.sleep(240)` inside returns in microseconds
"""

from __future__ import annotations

from widelane.virtual_time import (
    DEADLOCK_GRACE_S,
    LONGEST_RUN_S,
    Deadlock,
    VirtualTimeError,
    VirtualTimeLoop,
    is_virtual,
    run_virtual,
)

__all__ = [
    "DEADLOCK_GRACE_S",
    "LONGEST_RUN_S",
    "Deadlock",
    "VirtualTimeError",
    "VirtualTimeLoop",
    "is_virtual",
    "run_virtual",
]
