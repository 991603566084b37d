"""A run on disk: what is acknowledged is there, whatever happens next."""

import asyncio
import dataclasses
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lanes.doubles import ASK, lanes_over, reply
from widelane import errors
from widelane.clock import LoopClock
from widelane.lanes import RunStore
from widelane.lanes.run_database import DATABASE, connect, network_file_system
from widelane.records import Outcome, Span, ToolCall
from widelane.testing.fake_backend import FakeBackend
from widelane.testing.virtual_time import run_virtual

CONFIG = {"model": "m", "levels": [1, 2, 4]}


class Ticks:
    """A clock that is told what to show."""

    def __init__(self, now_ns: int = 0, wall_s: float = 0.0) -> None:
        self._now_ns, self._wall_s = now_ns, wall_s

    def now_ns(self) -> int:
        return self._now_ns

    def wall_s(self) -> float:
        return self._wall_s


def span(key="a", **fields):
    return Span(key=key, queued_ns=1, started_ns=2, first_token_ns=3, ended_ns=4, **fields)


# --- round trips


async def test_what_was_put_is_there_after_opening_again(tmp_path):
    with RunStore.create(tmp_path / "run", CONFIG) as store:
        await store.put("level", "1", {"tok_s": 31.5})
        await store.put("level", "2", {"tok_s": 55.0})
        assert store.get("level", "1") == {"tok_s": 31.5}
        assert not store.complete
        await store.mark_complete()
        await store.mark_complete()
    with RunStore.open(tmp_path / "run", config=CONFIG) as store:
        assert store.items("level") == {"1": {"tok_s": 31.5}, "2": {"tok_s": 55.0}}
        assert store.get("level", "4") is None
        assert store.complete
        assert store.config == CONFIG
        assert store.session == 2


async def test_a_finished_call_comes_back_as_it_was(tmp_path):
    whole = reply("yes", tool_calls=[ToolCall("c1", "read", {"path": "a"})], reasoning="hm", warnings=["n_ignored"])
    with RunStore.create(tmp_path / "run", CONFIG) as store:
        await store.started("a")
        await store.started("b")
        await store.finished(span("a", attempts=2), whole)
        await store.finished(span("b", outcome=Outcome.FAILED, error="overloaded"), None)
        kept = store.reply("a")
        assert (kept.text, kept.reasoning, kept.warnings) == ("yes", "hm", ["n_ignored"])
        assert kept.tool_calls == [ToolCall("c1", "read", {"path": "a"})]
        assert kept.usage == whole.usage
        assert kept.timing.first_token_ns == whole.timing.first_token_ns
        assert store.reply("b") is None
        assert store.unfinished() == ["b"]
        assert [(one.key, one.outcome, one.attempts) for one in store.spans()] == [
            ("a", Outcome.OK, 2), ("b", Outcome.FAILED, 1)
        ]  # fmt: skip


def test_in_virtual_time_the_writing_thread_is_waited_for_standing_still(tmp_path):
    """A thread makes no progress there, and no timer waits for it: the record is durable, and no time has passed."""

    async def keep():
        with RunStore.create(tmp_path / "run", CONFIG) as store:
            await store.put("level", "1", {"tok_s": 4.5})
            with pytest.raises(errors.UsageError, match="already"):
                await store.put("level", "1", {"tok_s": 9.0})
            return store.get("level", "1"), asyncio.get_running_loop().time()

    assert run_virtual(keep) == ({"tok_s": 4.5}, 0.0)


async def test_nothing_is_overwritten(tmp_path):
    with RunStore.create(tmp_path / "run", CONFIG) as store:
        await store.put("level", "1", 1)
        with pytest.raises(errors.UsageError, match="never overwritten"):
            await store.put("level", "1", 2)
        assert store.get("level", "1") == 1
        await store.put("level", "2", 2)  # a mistake of the caller does not spoil the store
        with pytest.raises(errors.UsageError, match="store's own"):
            await store.put("finished", "x", 1)


async def test_spans_of_two_sessions_lie_on_one_axis(tmp_path):
    with RunStore.create(tmp_path / "run", CONFIG, clock=Ticks(now_ns=1_000, wall_s=100.0)) as store:
        await store.finished(span("a"), reply())
    # Sixty seconds later, in a process whose monotonic clock began anew at 5 ns.
    with RunStore.open(tmp_path / "run", clock=Ticks(now_ns=5, wall_s=160.0)) as store:
        await store.finished(Span(key="b", queued_ns=5, started_ns=5, first_token_ns=None, ended_ns=7), reply())
        first, second = store.spans()
    assert first.queued_ns == 1
    assert (second.queued_ns, second.ended_ns) == (60_000_001_000, 60_000_001_002)
    assert second.first_token_ns is None


async def test_the_export_has_every_event_in_order(tmp_path):
    with RunStore.create(tmp_path / "run", CONFIG) as store:
        await store.put("level", "1", {"a": 1})
        await store.started("x")
        lines = [json.loads(line) for line in store.export_jsonl()]
    assert [(line["kind"], line["key"], line["value"]) for line in lines] == [
        ("level", "1", {"a": 1}),
        ("started", "x", None),
    ]


async def test_many_writers_at_once_are_grouped_and_each_is_told(tmp_path):
    with RunStore.create(tmp_path / "run", CONFIG) as store:
        await asyncio.gather(*(store.put("k", str(number), number) for number in range(300)))
        assert len(store.items("k")) == 300


async def test_a_cancelled_writer_loses_nothing_and_closing_flushes(tmp_path):
    with RunStore.create(tmp_path / "run", CONFIG) as store:
        task = asyncio.create_task(store.put("k", "a", 1))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    with pytest.raises(errors.UsageError, match="closed"):
        await store.put("k", "b", 2)
    with RunStore.open(tmp_path / "run") as store:
        assert store.items("k") == {"a": 1}


# --- refused


async def test_other_settings_are_refused_and_named(tmp_path):
    RunStore.create(tmp_path / "run", CONFIG).close()
    RunStore.open(tmp_path / "run", config={"levels": [1, 2, 4], "model": "m"}).close()  # the order is no setting
    with pytest.raises(errors.RunNotResumable, match=r"levels: \[1, 2, 4\] then, \[1\] now"):
        RunStore.open(tmp_path / "run", config={**CONFIG, "levels": [1]})
    RunStore.open(tmp_path / "run").close()  # the refusal left no lock behind


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(errors.RunNotResumable, match="holds no run"):
        RunStore.open(tmp_path / "nothing")
    (tmp_path / DATABASE).write_bytes(b"not a database at all, but long enough to be one" * 50)
    with pytest.raises(errors.RunNotResumable):
        RunStore.open(tmp_path)


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(errors.UsageError, match=r"letter\.txt"):
        RunStore.create(tmp_path, CONFIG)
    assert [item.name for item in tmp_path.iterdir()] == ["letter.txt"]
    RunStore.create(tmp_path / "run", CONFIG).close()
    with pytest.raises(errors.UsageError, match="resume"):
        RunStore.create(tmp_path / "run", CONFIG)


def test_a_run_killed_before_its_first_commit_can_be_begun_anew(tmp_path):
    connection = connect(tmp_path / DATABASE)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    with pytest.raises(errors.RunNotResumable, match="start anew"):
        RunStore.open(tmp_path)
    RunStore.create(tmp_path, CONFIG).close()


def test_two_writers_at_once_are_refused(tmp_path):
    with (
        RunStore.create(tmp_path / "run", CONFIG),
        pytest.raises(errors.UsageError, match="in use by another process"),
    ):
        RunStore.open(tmp_path / "run")


def test_a_read_only_place_is_one_clear_error_and_nothing_stays(tmp_path):
    parent = tmp_path / "locked"
    parent.mkdir()
    # Root may write anywhere, so the refusal is also brought about by a file where a folder should be.
    (parent / "file").write_text("")
    with pytest.raises(errors.UsageError, match="cannot make a run"):
        RunStore.create(parent / "file" / "run", CONFIG)
    if os.geteuid() != 0:
        parent.chmod(0o500)
        with pytest.raises(errors.UsageError, match="cannot make a run"):
            RunStore.create(parent / "a" / "b", CONFIG)
        parent.chmod(0o700)
    assert [item.name for item in parent.iterdir()] == ["file"]


def test_the_file_system_is_read_from_the_mounts():
    mounts = "\n".join([
        "/dev/vda / ext4 rw 0 0", "server:/home /home nfs4 rw 0 0", "/dev/vdb /home/me/local ext4 rw 0 0",
        "//nas/share /mnt/with\\040space cifs rw 0 0",
    ])  # fmt: skip
    assert network_file_system(Path("/home/me/run"), mounts) == "nfs4"
    assert network_file_system(Path("/home/me/local/run"), mounts) is None
    assert network_file_system(Path("/homestead/run"), mounts) is None
    assert network_file_system(Path("/mnt/with space/run"), mounts) == "cifs"


# --- faults of the disk


class Disk:
    """Lets a number of statements through, then fails each one as SQLite would."""

    def __init__(self, good: int, words: str = "database or disk is full") -> None:
        self.good = good
        self.words = words

    def connect(self, path: Path) -> sqlite3.Connection:
        disk = self

        class Failing(sqlite3.Connection):
            def execute(self, *args):
                disk._use()
                return super().execute(*args)

            def executemany(self, *args):
                disk._use()
                return super().executemany(*args)

        return sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=Failing)

    def _use(self) -> None:
        self.good -= 1
        if self.good < 0:
            raise sqlite3.OperationalError(self.words)


async def _write_until_it_fails(path: Path, disk: Disk) -> list[str]:
    """Keys that were acknowledged."""
    kept: list[str] = []
    with RunStore.create(path, CONFIG, connect=disk.connect, in_thread=False) as store:
        for number in range(6):
            try:
                await store.put("k", str(number), number)
            except errors.UsageError as error:
                assert "free some" in str(error)
                break
            kept.append(str(number))
        else:
            return kept
        with pytest.raises(errors.UsageError, match="free some"):
            await store.put("k", "later", 0)  # no gap: after a failure nothing is stored any more
    return kept


async def test_whichever_statement_fails_first_what_was_acknowledged_is_there_and_no_more(tmp_path):
    begun = 0
    for good in range(60):
        path = tmp_path / f"run-{good}"
        try:
            kept = await _write_until_it_fails(path, Disk(good))
        except errors.UsageError as error:
            assert "free some" in str(error)
            assert not path.exists(), "a run that could not be begun left something behind"
            continue
        begun += 1
        with RunStore.open(path, config=CONFIG) as store:
            assert list(store.items("k")) == kept
        if len(kept) == 6:
            break
    assert begun > 6
    assert len(kept) == 6


async def test_a_locked_database_is_named_as_that(tmp_path):
    disk = Disk(10_000, "database is locked")
    with RunStore.create(tmp_path / "run", CONFIG, connect=disk.connect) as store:
        disk.good = 0
        with pytest.raises(errors.UsageError, match="in use by another process"):
            await store.put("k", "a", 1)


_FILL = """
import asyncio, resource, signal, sys
from pathlib import Path
from widelane.errors import UsageError
from widelane.lanes import RunStore

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write then fails with EFBIG, as on a full disk with ENOSPC

async def main():
    with RunStore.create(Path(sys.argv[1]), {"a": 1}) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
        for number in range(1000):
            try:
                await store.put("k", str(number), "x" * 20_000)
            except UsageError as error:
                print("refused:", str(error).splitlines()[0])
                return
            print("kept", number, flush=True)

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limit on file sizes here")
def test_a_full_disk_stops_the_run_and_keeps_what_is_stored(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _FILL, str(tmp_path / "run")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    *kept, last = done.stdout.splitlines()
    assert len(kept) > 3
    assert last.startswith("refused: ")
    with RunStore.open(tmp_path / "run") as store:
        assert list(store.items("k")) == [line.split()[1] for line in kept]


# --- kill -9

_WRITE = """
import asyncio, sys
from pathlib import Path
from widelane.lanes import RunStore

async def main():
    path = Path(sys.argv[1])
    make = RunStore.open if path.exists() else lambda path, config: RunStore.create(path, config)
    with make(path, config={"a": 1}) as store:
        async def writer(name):
            for number in range(100_000):
                key = f"{store.session}.{name}.{number}"
                await store.put("k", key, "x" * 3000)
                print(key, flush=True)
        await asyncio.gather(*(writer(name) for name in range(8)))

asyncio.run(main())
"""


def test_killed_ten_times_at_any_moment_every_acknowledged_record_is_there(tmp_path):
    rng = random.Random(20)
    path = tmp_path / "run"
    acknowledged: list[str] = []
    for _ in range(10):
        child = subprocess.Popen([sys.executable, "-c", _WRITE, str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        acknowledged += [child.stdout.readline().strip() for _ in range(rng.randrange(1, 60))]
        child.send_signal(signal.SIGKILL)
        acknowledged += [line.strip() for line in child.stdout if line.endswith("\n")]
        child.wait()
        child.stdout.close()
    with RunStore.open(path, config={"a": 1}) as store:
        held = store.items("k")
        assert store.session == 11
    assert "" not in acknowledged
    missing = [key for key in acknowledged if key not in held]
    assert missing == []
    assert set(held.values()) == {"x" * 3000}
    connection = sqlite3.connect(path / DATABASE)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


# --- resuming


@settings(max_examples=25, deadline=None)
@given(stops=st.lists(st.floats(0.05, 4.0), max_size=4), seed=st.integers(0, 1000))
def test_a_run_stopped_anywhere_and_resumed_ends_as_one_that_was_not(tmp_path_factory, stops, seed):
    path = tmp_path_factory.mktemp("resume") / "run"
    made: list[str] = []

    async def work(stop_s):
        """The job: twelve calls, each answered with its own number and never twice."""

        def answer(request, _number):
            made.append(request.prompt)
            return f"answer {request.prompt}"

        opened = RunStore.open if path.exists() else RunStore.create
        with opened(path, config=CONFIG, clock=LoopClock(), in_thread=False) as store:
            async with lanes_over(FakeBackend(answer, delay_s=0.7), width=3, seed=seed, store=store) as lanes:
                calls = [lanes.call(numbered(number), key=f"call {number}") for number in range(12)]
                replies = await asyncio.wait_for(asyncio.gather(*calls), stop_s)
            await store.mark_complete()
            return [one.text for one in replies]

    def numbered(number):
        return dataclasses.replace(ASK, prompt=str(number))

    for stop_s in stops:
        try:
            run_virtual(lambda stop_s=stop_s: work(stop_s))
        except TimeoutError:
            continue
    finished_before = _finished(path)
    made_before = len(made)
    texts = run_virtual(lambda: work(None))
    assert texts == [f"answer {number}" for number in range(12)]
    # What was finished was not asked again.
    assert len(made) - made_before == 12 - len(finished_before)
    assert set(made[made_before:]).isdisjoint(finished_before)
    with RunStore.open(path, config=CONFIG) as store:
        assert store.complete
        assert sorted(one.key for one in store.spans() if one.outcome is Outcome.OK) == sorted(
            f"call {number}" for number in range(12)
        )


def _finished(path):
    if not path.exists():
        return set()
    with RunStore.open(path) as store:
        return {key.removeprefix("call ") for key in store.items("finished")}


def test_the_store_closes_its_threads_and_files(tmp_path):
    before = threading.active_count()
    store = RunStore.create(tmp_path / "run", CONFIG)
    assert threading.active_count() == before + 1
    store.close()
    store.close()
    assert threading.active_count() == before
