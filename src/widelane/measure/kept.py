"""What a sweep has so far, in memory and in its run's store: enough to go on from, and to report from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from widelane.errors import RunNotResumable
from widelane.measure.calls import CallRecord
from widelane.measure.first_calls import FirstCalls
from widelane.measure.level import Repeat
from widelane.measure.level_plan import Ending
from widelane.records import Span

_FIRST, _REPEAT, _LEVEL = "first-calls", "repeat", "level"


class SweepStore(Protocol):
    """Where a sweep keeps its records (`lanes.store.RunStore`)."""

    async def put(self, kind: str, key: str, value: Any) -> None:
        """Durable when it returns."""
        ...

    def items(self, kind: str) -> Mapping[str, Any]:
        """Every value of a kind by key."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How the sweep began: what a resumed one must go on with."""

    seed: int
    first: FirstCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelEnd:
    """A finished level; a resumed sweep leaves it alone.

    Attributes:
        tail: calls that ended after its last window.
    """

    concurrency: int
    ending: Ending
    tail: tuple[CallRecord, ...] = ()
    spans: tuple[Span, ...] = ()


@dataclass(slots=True)
class Kept:
    """Everything finished, by width; kept in memory, and in the store where there is one."""

    store: SweepStore | None = None
    start: Start | None = None
    repeats: dict[int, list[Repeat]] = field(default_factory=dict)
    ends: dict[int, LevelEnd] = field(default_factory=dict)

    @classmethod
    def load(cls, store: SweepStore | None) -> Kept:
        """What the store holds; nothing for a new one.

        Raises:
            RunNotResumable: its records are not those of a sweep of this version.
        """
        kept = cls(store)
        if store is None:
            return kept
        try:
            for value in store.items(_FIRST).values():
                kept.start = msgspec.convert(value, Start)
            for key, value in store.items(_REPEAT).items():
                kept.repeats.setdefault(int(key.partition("/")[0]), []).append(msgspec.convert(value, Repeat))
            for key, value in store.items(_LEVEL).items():
                kept.ends[int(key)] = msgspec.convert(value, LevelEnd)
        except (msgspec.ValidationError, ValueError) as error:
            raise RunNotResumable(f"The run's records are not those of a sweep of this version: {error}.") from error
        for repeats in kept.repeats.values():
            repeats.sort(key=lambda repeat: repeat.number)
        return kept

    async def put_start(self, start: Start) -> None:
        """Keep how the sweep began."""
        self.start = start
        await self._put(_FIRST, "first", start)

    async def put_repeat(self, concurrency: int, repeat: Repeat) -> None:
        """Keep a finished repeat."""
        self.repeats.setdefault(concurrency, []).append(repeat)
        await self._put(_REPEAT, f"{concurrency}/{repeat.number}", repeat)

    async def put_end(self, end: LevelEnd) -> None:
        """Keep that a level is finished."""
        self.ends[end.concurrency] = end
        await self._put(_LEVEL, str(end.concurrency), end)

    async def _put(self, kind: str, key: str, value: Any) -> None:
        if self.store is not None:
            await self.store.put(kind, key, msgspec.to_builtins(value))
