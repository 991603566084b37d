"""Runs full of faults, through the real lanes and the real store, on the simulated server, in virtual time.

A seed decides everything: server, job, limits, faults of the catalogue, cancellations, changes of width, deaths of the
server, full disks, and the instant at which the process is killed. `--chaos-seeds 1000` runs a thousand.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos import invariants
from tests.chaos.conftest import USUAL_SEEDS
from tests.chaos.endings import Ending
from tests.chaos.history import History, draw_cut, play_run
from tests.chaos.plan import REQUEST_FAULTS, draw_plan


@pytest.fixture(scope="module")
def met() -> Counter[str]:
    """Faults and endings that the seeds of this round have met, and the number of seeds."""
    return Counter()


def test_whatever_befalls_a_run_nothing_is_lost_leaked_or_overspent(
    chaos_seed: int, tmp_path: Path, met: Counter[str]
) -> None:
    """Played whole, and once more with a kill at a random instant: both keep every promise, and end alike."""
    plan = draw_plan(chaos_seed)
    whole = play_run(plan, tmp_path / "whole")
    _check(whole)
    number, cut = draw_cut(plan, whole)
    killed = play_run(plan, tmp_path / "killed", cut=(number, cut))
    _check(killed)
    invariants.check_resumed(whole, killed, number)
    met["seeds"] += 1
    for session in (*whole.sessions, *killed.sessions):
        met[session.ending] += 1
        met.update(fault for _, what, *values in session.witness.trace if what == "fault" and (fault := values[-1]))


def test_the_usual_seeds_meet_every_fault_and_every_ending(met: Counter[str]) -> None:
    """A round that met nothing would prove nothing. To be run after the seeds."""
    if met["seeds"] < USUAL_SEEDS:
        pytest.skip(f"{met['seeds']} seeds were run and passed before this: too few to ask")
    assert set(Ending) <= met.keys()
    assert set(REQUEST_FAULTS) <= met.keys()


def _check(history: History) -> None:
    invariants.check_promises(history)
    invariants.check_records(history)
    invariants.check_answers(history)
    invariants.check_budgets(history)
    invariants.check_spans(history)


_DIGESTS = """
import sys, tempfile
from pathlib import Path
from tests.chaos.history import play_run
from tests.chaos.plan import draw_plan
with tempfile.TemporaryDirectory() as folder:
    for seed in map(int, sys.argv[1:]):
        print(play_run(draw_plan(seed), Path(folder) / str(seed)).digest)
"""


def test_the_same_seed_gives_the_same_trace_in_any_process(tmp_path: Path) -> None:
    seeds = range(12)
    here = [play_run(draw_plan(seed), tmp_path / str(seed)).digest for seed in seeds]
    assert len(set(here)) == len(here)
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", _DIGESTS, *map(str, seeds)],
            capture_output=True, text=True, timeout=100, check=False,
            cwd=Path(__file__).parents[2], env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == here
