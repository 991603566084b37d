"""Which levels of a saved sweep are decode steps that a plan may be fitted to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report import samples
from widelane.cli.profile_steps import steps_of_profile
from widelane.errors import UsageError
from widelane.figures import Figure, Origin
from widelane.measure.profile import SweepReport, save_profile


def saved(report: SweepReport, tmp_path):
    path = tmp_path / "sweep.json"
    save_profile(report, path)
    return path


def with_speculation(report: SweepReport, value: object) -> SweepReport:
    facts = replace(report.server.facts, speculation=Figure(value, "", Origin.READ))  # type: ignore[arg-type]
    return replace(report, server=replace(report.server, facts=facts))


def test_a_level_beyond_the_slots_is_a_step_of_the_slots(tmp_path) -> None:
    """16 offered into 4 slots decode 4 at a time."""
    report = with_speculation(
        samples.sweep([samples.level(1, 10.0), samples.level(4, 34.0), samples.level(16, 34.0)]), False
    )
    steps = steps_of_profile(saved(report, tmp_path))
    slots = report.server.facts.slots.number
    assert slots == 4
    assert [step.batch for step in steps] == [1, 4, 4]
    assert all(step.step_s > 0 for step in steps)


def test_a_drafting_server_tells_no_step_times(tmp_path) -> None:
    report = with_speculation(samples.sweep([samples.level(1, 10.0)]), "draft-mtp")
    with pytest.raises(UsageError, match="drafts"):
        steps_of_profile(saved(report, tmp_path))


def test_what_is_no_profile_is_said(tmp_path) -> None:
    path = tmp_path / "notes.json"
    path.write_text("{}")
    with pytest.raises(UsageError, match=r"notes\.json"):
        steps_of_profile(path)
