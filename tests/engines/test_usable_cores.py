"""Cores that may really be used."""

from pathlib import Path

import pytest

from widelane.engines.usable_cores import usable_cores


@pytest.mark.parametrize(("content", "at_most"), [("100000 100000\n", 1), ("50000 100000\n", 1)])
def test_a_containers_quota_counts(tmp_path: Path, content: str, at_most: int) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text(content)

    assert usable_cores(quota) == at_most


@pytest.mark.parametrize("content", ["max 100000\n", "", "nonsense"])
def test_no_quota_is_no_limit(tmp_path: Path, content: str) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text(content)

    assert usable_cores(quota) == usable_cores(tmp_path / "missing") >= 1
