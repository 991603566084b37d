"""How a session can end, and which error of its job means which ending."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from widelane.errors import ServerDown, ServerLoading, UsageError


class Ending(StrEnum):
    """How a session ended."""

    COMPLETE = "complete"
    UNFINISHED = "unfinished"
    DISK_FULL = "disk-full"
    SERVER_LOST = "server-lost"
    BUDGET_USED = "budget-used"
    STOPPED = "stopped"
    KILLED = "killed"


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group of groups."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from leaves(part)
    else:
        yield error


def ending_of(error: BaseException) -> Ending:
    """What an error of the job means for the session; one that no session may end with is raised."""
    if isinstance(error, ServerDown | ServerLoading):
        return Ending.SERVER_LOST
    if isinstance(error, UsageError) and "free some" in str(error):
        return Ending.DISK_FULL
    raise error
