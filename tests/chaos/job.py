"""The job under test: chains of questions over lanes, asked again when they failed, as a patient caller would."""

from __future__ import annotations

import asyncio

from tests.chaos.items import Item, said
from tests.chaos.mishaps import Mishaps
from tests.chaos.watch import WatchedStore, Witness
from widelane.errors import BudgetExhausted, CallError, ServerDown
from widelane.lanes.lanes import Lanes
from widelane.records import Reply

MOST_OFFERS = 6
PAUSE_S = 2.0


class Job:
    """All items, each as soon as the one before it is done.

    Attributes:
        offered: calls that were made and not answered from the store.
        budget_used: a call was refused because a budget of the run is used up.
    """

    def __init__(self, items: tuple[Item, ...], lanes: Lanes, store: WatchedStore, mishaps: Mishaps, witness: Witness):
        self.offered = 0
        self.budget_used = False
        self._items = items
        self._lanes = lanes
        self._store = store
        self._mishaps = mishaps
        self._witness = witness
        self._done = {item.key: asyncio.Event() for item in items}

    async def run(self) -> None:
        """Every item that can be had.

        Raises:
            ExceptionGroup: the server stayed away, or the disk is full.
        """
        # A TaskGroup cancels in the order of a set, which is another one in every process.
        tasks = [asyncio.create_task(self._one(item), name=f"item {item.key}") for item in self._items]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        errors = [error for error in ended if isinstance(error, Exception)]
        if errors:
            raise ExceptionGroup("items of the job failed", errors)

    async def _one(self, item: Item) -> None:
        if item.after is not None:
            await self._done[item.after].wait()
        reply = await self._asked(item)
        if reply is not None and self._store.get("note", item.key) is None:
            await self._store.put("note", item.key, said(reply).text)
        self._done[item.key].set()

    async def _asked(self, item: Item) -> Reply | None:
        """The reply; None when it could not be had in this session."""
        for _ in range(MOST_OFFERS):
            call = asyncio.create_task(self._call(item), name=f"call {item.key}")
            try:
                return await self._ended(item.key, call)
            except BudgetExhausted as error:
                self._witness.note("budget", item.key)
                self.budget_used = self.budget_used or "the run's budget" in str(error)
                return None  # others may be smaller, and fit
            except CallError as error:
                self._witness.note("failed", item.key, error.code)
                if "the run can be resumed" in str(error) or isinstance(error, ServerDown):
                    raise  # the lanes have given the server up
            except asyncio.CancelledError:
                if not call.cancelled() or _stopping():
                    raise
                self._witness.note("cancelled", item.key)
            await asyncio.sleep(PAUSE_S)
        return None

    async def _call(self, item: Item) -> Reply:
        if self._store.reply(item.key) is None:
            self.offered += 1
        return await self._lanes.call(item.request(), key=item.key, role="work", priority=item.priority)

    async def _ended(self, key: str, call: asyncio.Task[Reply]) -> Reply:
        self._mishaps.calls[key] = call
        try:
            return await call
        finally:
            del self._mishaps.calls[key]


def _stopping() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
