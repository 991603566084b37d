"""Who commits: a thread of its own that groups records, or the caller itself (virtual time, simple scripts)."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

GROUP_RECORDS = 16
"""Records in one commit. Measured on SQLite WAL FULL: 16 to a commit stores three times as many a second as one."""

Row = tuple[int, int, str, str, bytes]
"""session, t_ns, kind, key, value"""


class DuplicateRecord(Exception):
    """The record's kind and key are stored already."""


@dataclass(slots=True)
class Record:
    """One row on its way to the disk, and who waits for it.

    Attributes:
        failure: why it was not stored, once it is settled.
    """

    row: Row
    settled: Callable[[Record], None]
    failure: Exception | None = None


class Writer(Protocol):
    """Stores records in the order they are given."""

    def submit(self, record: Record) -> None:
        """Store it; `record.settled` is called, perhaps from another thread, when it is durable or has failed."""
        ...

    def close(self) -> None:
        """Store what was submitted, then stop."""
        ...


def commit(connection: sqlite3.Connection, records: Sequence[Record]) -> None:
    """Store records in one transaction. A record that is stored already fails alone; a failed commit fails all."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        for record in records:
            cursor = connection.execute(
                "INSERT INTO event (session, t_ns, kind, key, value) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                record.row,
            )
            if cursor.rowcount == 0:
                record.failure = DuplicateRecord(record.row[3])
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        for record in records:
            record.failure = error
        _roll_back(connection)


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            return  # the disk is gone; the transaction was never committed, so nothing of it will be read


class InlineWriter:
    """Commits each record at once, in the caller's thread: blocks for the length of one fsync."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def submit(self, record: Record) -> None:
        commit(self._connection, [record])
        record.settled(record)

    def close(self) -> None:
        self._connection.close()


class ThreadWriter:
    """One thread that commits whatever waits, at most 16 records at a time, at once when nothing else comes.

    A group never waits to become full: while one commit is on its way to the disk the next group gathers by itself.
    So a lone record is durable after one fsync, and none waits for longer than two.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._queue: queue.SimpleQueue[Record | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="widelane run store", daemon=True)
        self._thread.start()

    def submit(self, record: Record) -> None:
        self._queue.put(record)

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            records, stopping = self._gather()
            if records:
                commit(self._connection, records)
            for record in records:
                record.settled(record)
        self._connection.close()

    def _gather(self) -> tuple[list[Record], bool]:
        records: list[Record] = []
        item = self._queue.get()
        while item is not None:
            records.append(item)
            if len(records) == GROUP_RECORDS:
                return records, False
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return records, False
        return records, True


def settle_in(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None]) -> Callable[[Record], None]:
    """A callback that hands a record's fate to a waiting coroutine, from any thread."""

    def finish(record: Record) -> None:
        if waiter.done():  # the waiter was cancelled; the record is stored all the same
            return
        if record.failure is not None:
            waiter.set_exception(record.failure)
        else:
            waiter.set_result(None)

    def settled(record: Record) -> None:
        try:
            loop.call_soon_threadsafe(finish, record)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    return settled
