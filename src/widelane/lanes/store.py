"""A run on disk: one folder, one SQLite file. Killed at any instant it keeps every record that was acknowledged.

    store = RunStore.create(path, {"model": "m", "levels": [1, 2]}, clock=SystemClock())
    await store.put("level", "8", {...})      # durable when it returns
    ...
    store = RunStore.open(path, config={"model": "m", "levels": [1, 2]})
    store.get("level", "8")                   # what an interrupted run had finished

A finished call is never made again: its stored reply is the answer, since a server does not repeat itself even at
temperature 0. A call that was started and not finished is made anew.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from widelane.clock import Clock, SystemClock
from widelane.errors import RunNotResumable, UsageError, WidelaneError
from widelane.lanes import run_database as database
from widelane.lanes.run_folder import make_folder, take_away
from widelane.lanes.run_lock import RunLock
from widelane.lanes.store_writer import DuplicateRecord, InlineWriter, Record, Row, ThreadWriter, Writer, settle_in
from widelane.records import Reply, Span
from widelane.virtual_time import is_virtual

STARTED, FINISHED, FAILED, COMPLETE = "started", "finished", "failed", "complete"
_OWN_KINDS = frozenset({STARTED, FINISHED, FAILED, COMPLETE})


def _plain(value: Any) -> Any:
    if isinstance(value, array.array):
        return value.tolist()
    raise NotImplementedError(f"cannot store a {type(value).__name__}")


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=_plain)


def config_hash(config: Mapping[str, Any]) -> str:
    """SHA-256 of a run's settings, whatever their order."""
    return hashlib.sha256(msgspec.json.encode(config, order="deterministic", enc_hook=_plain)).hexdigest()


class RunStore:
    """The records of one run. Make it with `create` or `open`; close it, or use `with`.

    Attributes:
        path: the run's folder.
        config: the settings that the run was made with.
        session: number of this opening, from 1; each resume is a new one.
    """

    def __init__(
        self, path: Path, lock: RunLock, meta: Mapping[str, str], writer: Writer, reader: sqlite3.Connection,
        clock: Clock, session: int,
    ) -> None:  # fmt: skip
        """For `create` and `open`."""
        self.path = path
        self.config: Mapping[str, Any] = msgspec.json.decode(meta["config"])
        self.session = session
        self._file = path / database.DATABASE
        self._lock = lock
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._failure: str | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<RunStore {self.path}, session {self.session}>"

    # --- making and opening

    @classmethod
    def create(
        cls,
        path: Path,
        config: Mapping[str, Any],
        *,
        clock: Clock | None = None,
        in_thread: bool = True,
        connect: database.Connect = database.connect,
    ) -> Self:
        """A new run in a folder that is new or empty.

        Args:
            in_thread: commit in a thread of its own; False commits in the caller's (virtual time).
            connect: opens the database; a test may inject faults here.

        Raises:
            UsageError: the folder holds something, cannot be written, or lies on a network file system. What was
                made is taken away again.
        """
        made = make_folder(path)
        try:
            database.refuse_network_file_system(path)
            lock = RunLock.take(path)
        except UsageError:
            take_away(path, made)
            raise
        text = _encode(config).decode()
        meta = {"format": str(database.FORMAT), "config": text, "config_sha256": config_hash(config)}
        try:
            connection = connect(path / database.DATABASE)
            try:
                database.prepare(connection)
                database.create_schema(connection, meta)
            except BaseException:
                _roll_back_and_close(connection)
                raise
            return cls._start(path, lock, meta, connection, clock, in_thread, connect)
        except (sqlite3.Error, OSError) as error:
            lock.release()
            take_away(path, made)
            raise database.explain(error, path) from None

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        config: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        in_thread: bool = True,
        connect: database.Connect = database.connect,
    ) -> Self:
        """Go on with a run.

        Args:
            config: the settings of now; they must be those of then. None: not compared.

        Raises:
            RunNotResumable: the folder holds no run, or one with other settings.
            UsageError: another process writes to it, or it cannot be written.
        """
        if not (path / database.DATABASE).is_file():
            raise RunNotResumable(f"{path} holds no run (no {database.DATABASE} in it)")
        lock = RunLock.take(path)
        try:
            connection = connect(path / database.DATABASE)
            try:
                meta = database.read_meta(connection, path)
                if config is not None:
                    _compare(path, msgspec.json.decode(meta["config"]), config)
                database.prepare(connection)
            except BaseException:
                _roll_back_and_close(connection)
                raise
            return cls._start(path, lock, meta, connection, clock, in_thread, connect)
        except (sqlite3.Error, OSError) as error:
            lock.release()
            raise database.explain(error, path) from None
        except (KeyError, msgspec.DecodeError) as error:
            lock.release()
            raise RunNotResumable(f"the run in {path} is damaged: {error}") from None
        except WidelaneError:
            lock.release()
            raise

    @classmethod
    def _start(
        cls, path: Path, lock: RunLock, meta: Mapping[str, str], connection: sqlite3.Connection, clock: Clock | None,
        in_thread: bool, connect: database.Connect,
    ) -> Self:  # fmt: skip
        clock = clock or SystemClock()
        reader: sqlite3.Connection | None = None
        try:
            cursor = connection.execute(
                "INSERT INTO session (wall_s, now_ns) VALUES (?, ?)", (clock.wall_s(), clock.now_ns())
            )
            session = int(cursor.lastrowid or 0)
            reader = connect(path / database.DATABASE)
            reader.execute("PRAGMA query_only=ON")
        except BaseException:
            _roll_back_and_close(connection)
            if reader is not None:
                reader.close()
            raise
        writer: Writer = ThreadWriter(connection) if in_thread else InlineWriter(connection)
        return cls(path, lock, meta, writer, reader, clock, session)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Store what was put, and let go of the folder. Blocks for one commit; cannot be cancelled half-way."""
        if self._closed:
            return
        self._closed = True
        self._reader.close()
        self._writer.close()
        self._lock.release()

    # --- writing

    async def put(self, kind: str, key: str, value: Any) -> None:
        """Store a value under kind and key; durable when this returns. Nothing is ever overwritten.

        Raises:
            UsageError: kind and key are stored already, or the disk is full or not writable.
        """
        if kind in _OWN_KINDS:
            raise UsageError(f"records of kind {kind!r} are the store's own")
        await self._write(kind, key, value)

    async def started(self, key: str) -> None:
        """A call is about to be sent."""
        await self._write(STARTED, key, None)

    async def finished(self, span: Span, reply: Reply | None) -> None:
        """A call is over. With a reply it is never made again; without one (it failed) a resumed run makes it anew."""
        await self._write(FAILED if reply is None else FINISHED, span.key, {"span": span, "reply": reply})

    async def mark_complete(self) -> None:
        """The whole run is done; there is nothing to resume."""
        if not self.complete:
            await self._write(COMPLETE, "", None)

    async def _write(self, kind: str, key: str, value: Any) -> None:
        if self._closed:
            raise UsageError(f"the run store of {self.path} is closed")
        if self._failure is not None:
            raise UsageError(self._failure)
        row: Row = (self.session, self._clock.now_ns(), kind, key, _encode(value))
        try:
            await self._settled(row)
        except DuplicateRecord:
            raise UsageError(f"{self.path} holds {kind!r} {key!r} already; records are never overwritten") from None
        except sqlite3.Error as error:
            failure = database.explain(error, self._file)
            self._failure = str(failure)  # from now on nothing is stored: a gap would look like a finished run
            raise failure from None

    async def _settled(self, row: Row) -> None:
        """Hand the record to the writer and wait for its fate."""
        loop = asyncio.get_running_loop()
        if is_virtual(loop):  # the writer's thread makes no progress there: everything stands still for it
            settled = threading.Event()
            record = Record(row, lambda _: settled.set())
            self._writer.submit(record)
            settled.wait()
            if record.failure is not None:
                raise record.failure
            return
        waiter: asyncio.Future[None] = loop.create_future()
        self._writer.submit(Record(row, settle_in(loop, waiter)))
        await waiter

    # --- reading

    @property
    def complete(self) -> bool:
        """Whether the run was marked as done."""
        return self._one("SELECT 1 FROM event WHERE kind = ? LIMIT 1", COMPLETE) is not None

    def get(self, kind: str, key: str) -> Any:
        """The stored value, None when there is none."""
        row = self._one("SELECT value FROM event WHERE kind = ? AND key = ? LIMIT 1", kind, key)
        return None if row is None else msgspec.json.decode(row[0])

    def items(self, kind: str) -> dict[str, Any]:
        """Every value of a kind by key, in the order they were stored."""
        rows = self._all("SELECT key, value FROM event WHERE kind = ? ORDER BY id", kind)
        return {key: msgspec.json.decode(value) for key, value in rows}

    def reply(self, key: str) -> Reply | None:
        """The reply of a finished call, None when it is to be made."""
        value = self.get(FINISHED, key)
        return None if value is None else msgspec.convert(value["reply"], Reply)

    def unfinished(self) -> list[str]:
        """Keys of calls that were started and never finished, in order."""
        rows = self._all("SELECT key FROM call WHERE starts > 0 AND finished = 0 ORDER BY key")
        return [key for (key,) in rows]

    def spans(self) -> list[Span]:
        """Spans of all sessions in the order of ending, on one time axis: that of the first session's clock.

        A monotonic clock begins anew with each process; the wall clock at each opening says how they lie.
        """
        openings = {number: (wall_s, now_ns) for number, wall_s, now_ns in self._all("SELECT * FROM session")}
        first_wall_s, first_ns = openings[min(openings)]
        spans = []
        rows = self._all("SELECT session, value FROM event WHERE kind IN (?, ?) ORDER BY id", FINISHED, FAILED)
        for session, value in rows:
            wall_s, now_ns = openings[session]
            shift_ns = round((wall_s - first_wall_s) * 1e9) - (now_ns - first_ns)
            span = msgspec.convert(msgspec.json.decode(value)["span"], Span)
            spans.append(_shifted(span, 0 if session == min(openings) else shift_ns))
        return spans

    def export_jsonl(self) -> Iterator[str]:
        """Every event as one line of JSON: `{"id", "session", "t_ns", "kind", "key", "value"}`, in order."""
        for number, session, t_ns, kind, key, value in self._all("SELECT * FROM event ORDER BY id"):
            yield _encode(
                {"id": number, "session": session, "t_ns": t_ns, "kind": kind, "key": key, "value": msgspec.Raw(value)}
            ).decode()

    def _one(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        return next(iter(self._all(query, *values)), None)

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self._reader.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise database.explain(error, self._file) from None


def _shifted(span: Span, shift_ns: int) -> Span:
    if shift_ns == 0:
        return span
    return replace(
        span,
        queued_ns=span.queued_ns + shift_ns,
        started_ns=None if span.started_ns is None else span.started_ns + shift_ns,
        first_token_ns=None if span.first_token_ns is None else span.first_token_ns + shift_ns,
        ended_ns=span.ended_ns + shift_ns,
    )


def _compare(path: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    now = msgspec.json.decode(_encode(now))  # as it would have been stored
    if config_hash(then) == config_hash(now):
        return
    differing = sorted(name for name in {*then, *now} if then.get(name) != now.get(name))
    words = "; ".join(f"{name}: {then.get(name)!r} then, {now.get(name)!r} now" for name in differing)
    raise RunNotResumable(f"the run in {path} was made with other settings ({words}); use those, or start a new run")


def _roll_back_and_close(connection: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        connection.close()
