"""The one SQLite file of a run: its schema, how it is opened, and what its failures are called.

WAL with `synchronous=FULL`: every acknowledged commit survives a kill at any instant and a power cut. Events are only
ever added. `event_once` makes `(kind, key)` unique for all kinds but the two that may come again after a crash.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

from widelane.errors import RunNotResumable, UsageError, WidelaneError

DATABASE = "run.sqlite3"
FORMAT = 1
BUSY_TIMEOUT_S = 5.0

Connect = Callable[[Path], sqlite3.Connection]

_SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE session (id INTEGER PRIMARY KEY, wall_s REAL NOT NULL, now_ns INTEGER NOT NULL);
CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (id),
    t_ns INTEGER NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL
);
CREATE UNIQUE INDEX event_once ON event (kind, key) WHERE kind NOT IN ('started', 'failed');
CREATE INDEX event_by_kind ON event (kind, id);
CREATE VIEW call AS
    SELECT key,
           max(kind = 'finished') AS finished,
           sum(kind = 'started') AS starts,
           sum(kind = 'failed') AS failures
    FROM event WHERE kind IN ('started', 'finished', 'failed') GROUP BY key;
"""

# File systems on which SQLite's locks or its shared memory do not hold (https://www.sqlite.org/wal.html, "all
# processes must be on the same host"; https://www.sqlite.org/faq.html#q5).
NETWORK_FILE_SYSTEMS = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.glusterfs",
    "ceph", "fuse.ceph", "lustre", "beegfs", "gpfs", "davfs", "fuse.davfs2",
})  # fmt: skip


def connect(path: Path) -> sqlite3.Connection:
    """A connection that may be handed to another thread; transactions are ours to begin."""
    return sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)


def prepare(connection: sqlite3.Connection) -> None:
    """Set what makes a commit durable."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def create_schema(connection: sqlite3.Connection, meta: dict[str, str]) -> None:
    """Make the tables and store the run's settings, all or nothing."""
    for statement in _SCHEMA.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
    connection.execute("COMMIT")


def is_begun(connection: sqlite3.Connection) -> bool:
    """Whether the schema was committed: False after a kill in the very first moment."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is not None


def read_meta(connection: sqlite3.Connection, path: Path) -> dict[str, str]:
    """The run's settings.

    Raises:
        RunNotResumable: the file holds no run, or one of another format.
    """
    if not is_begun(connection):
        raise RunNotResumable(f"{path} holds no run: it was stopped before anything was stored; start anew")
    meta = dict(connection.execute("SELECT name, value FROM meta"))
    if meta.get("format") != str(FORMAT):
        raise RunNotResumable(
            f"{path} was written in format {meta.get('format')} and this version reads format {FORMAT}; "
            "use the version that made it"
        )
    return meta


def explain(error: Exception, path: Path) -> WidelaneError:
    """What a failure of the database means, and what to do."""
    words = str(error).lower()
    if "full" in words or "no space" in words or "file too large" in words:
        return UsageError(f"no space left for {path}; free some, then resume the run: what was stored is kept")
    if "readonly" in words or "read-only" in words or "unable to open" in words or isinstance(error, PermissionError):
        return UsageError(f"cannot write to {path}: {error}; name another folder, or change its permissions")
    if "locked" in words or "busy" in words:
        return UsageError(f"{path} is in use by another process; wait for it to end, or stop it")
    if isinstance(error, sqlite3.DatabaseError) and ("not a database" in words or "malformed" in words):
        return RunNotResumable(f"{path} is not a run's database: {error}")
    return UsageError(f"cannot store in {path}: {error}; check the disk, then resume the run: what was stored is kept")


def network_file_system(path: Path, mounts: str) -> str | None:
    """Type of the network file system that holds the path, by the text of `/proc/mounts`; None on a local one."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        inside = str(path) == point or str(path).startswith(point.rstrip("/") + "/")
        # Of two mounts on one point the later hides the earlier.
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind if kind in NETWORK_FILE_SYSTEMS else None


def refuse_network_file_system(path: Path) -> None:
    """Checked on Linux only, where it costs one small read.

    Raises:
        UsageError: the path lies on a network file system.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mounts = Path("/proc/self/mounts").read_text(errors="replace")
    except OSError:
        return
    kind = network_file_system(path.resolve(), mounts)
    if kind is not None:
        raise UsageError(
            f"{path} lies on a network file system ({kind}), where a kill can lose records; name a local folder"
        )
