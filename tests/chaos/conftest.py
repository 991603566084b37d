"""Which seeds run. A failing test names its seed; `pytest tests/chaos --chaos-from SEED --chaos-seeds 1` replays it."""

from __future__ import annotations

import pytest

USUAL_SEEDS = 80
"""Enough to meet every fault and every ending, in about half a minute. `--chaos-seeds 1000` is the whole round."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("chaos", "seeded runs with faults, cancellations and cuts")
    group.addoption("--chaos-seeds", type=int, default=USUAL_SEEDS, metavar="N", help="how many seeds to run")
    group.addoption("--chaos-from", type=int, default=0, metavar="SEED", help="the first of them")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chaos_seed" in metafunc.fixturenames:
        # Options of a folder's conftest are known only where the folder is named on the command line.
        first = metafunc.config.getoption("--chaos-from", 0)
        count = metafunc.config.getoption("--chaos-seeds", USUAL_SEEDS)
        metafunc.parametrize("chaos_seed", range(first, first + count), ids=lambda seed: f"seed {seed}")
