"""A whole run: sessions one after the other until everything is finished, and what its database holds after each."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.chaos.endings import Ending
from tests.chaos.plan import Plan
from tests.chaos.session import Cut, Session, play
from widelane.lanes.run_database import DATABASE

MOST_SESSIONS = 4
"""After these comes a last one in which nothing goes wrong."""


class Row(NamedTuple):
    """One stored event."""

    session: int
    t_ns: int
    kind: str
    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class History:
    """One run.

    Attributes:
        rows: what the database held after each session.
    """

    plan: Plan
    sessions: list[Session]
    rows: list[list[Row]]

    @property
    def digest(self) -> str:
        """Of all that happened, with its times."""
        trace = [(session.number, *entry) for session in self.sessions for entry in session.witness.trace]
        return hashlib.sha256(repr([trace, self.rows]).encode()).hexdigest()

    def answers(self) -> dict[str, Any]:
        """The stored replies by key, without those of the roll calls."""
        found = {row.key: msgspec.json.decode(row.value)["reply"] for row in self.rows[-1] if row.kind == "finished"}
        return {key: reply for key, reply in found.items() if not key.startswith("roll-")}

    def fault_of(self, key: str) -> str | None:
        """What the server did to the answer that is stored under this key."""
        stored = next(row.session for row in self.rows[-1] if (row.kind, row.key) == ("finished", key))
        return self.sessions[stored - 1].witness.faults.get(key)


def play_run(plan: Plan, folder: Path, *, cut: tuple[int, Cut] | None = None) -> History:
    """The run, in new folders beside `folder`.

    Args:
        cut: number of the session that is killed, and when.
    """
    sessions: list[Session] = []
    rows: list[list[Row]] = []
    while not sessions or sessions[-1].ending is not Ending.COMPLETE:
        number = len(sessions) + 1
        assert number <= MOST_SESSIONS + 3, f"seed {plan.seed}: even a session without faults does not end the run"
        cut_now = cut[1] if cut is not None and cut[0] == number else None
        session = play(plan, number, folder, cut=cut_now, calm=number > MOST_SESSIONS)
        folder = session.folder
        sessions.append(session)
        rows.append(_rows(folder))
    return History(plan, sessions, rows)


def draw_cut(plan: Plan, whole: History) -> tuple[int, Cut]:
    """A cut inside one of the sessions that the uninterrupted run had."""
    which, how_far, at_write, left = plan.cut
    session = whole.sessions[int(which * len(whole.sessions))]
    if at_write and session.writes:
        return session.number, Cut(at_write=1 + int(how_far * session.writes), left=left)
    return session.number, Cut(at_event=1 + int(how_far * session.events))


def _rows(folder: Path) -> list[Row]:
    """Every stored event in order."""
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = database.execute("SELECT session, t_ns, kind, key, value FROM event ORDER BY id").fetchall()
    return [Row(*row) for row in found]
