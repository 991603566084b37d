"""A profile is written whole or not at all, and read back only when it is one."""

from pathlib import Path

import msgspec
import pytest

from tests.measure.levels import level, sweep_report
from widelane.errors import UsageError
from widelane.measure.profile import Limit, SweepReport, load_profile, save_profile
from widelane.records import Span


def report() -> SweepReport:
    made = sweep_report([level(1, 20.0), level(2, None)], Limit.SLOTS, knee=1)
    span = Span(key="call-0", queued_ns=1, started_ns=2, first_token_ns=3, ended_ns=4)
    return SweepReport(**{**{f: getattr(made, f) for f in SweepReport.__dataclass_fields__}, "timeline": {"1": [span]}})


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    save_profile(report(), path)
    assert msgspec.json.encode(load_profile(path)) == msgspec.json.encode(report())
    assert [file.name for file in tmp_path.iterdir()] == ["profile.json"]


def test_a_profile_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        save_profile(report(), tmp_path / "missing" / "profile.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        save_profile(report(), tmp_path / "folder")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "no sweep profile"),
        ('{"schema": "widelane.sweep"}', "no sweep profile"),
        ('{"schema": {"name": "widelane.doctor", "version": 1}}', "widelane.doctor"),
        ('{"schema": {"name": "widelane.sweep", "version": 99}}', "version 99"),
        ('{"schema": {"name": "widelane.sweep", "version": 1}}', "damaged"),
    ],
)
def test_what_is_no_profile_is_told_apart(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        load_profile(path)


def test_a_missing_profile_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.json"):
        load_profile(tmp_path / "nothing.json")
