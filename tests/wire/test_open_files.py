"""The open-files limit is raised when it can be, and the number needed is named when it cannot."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from widelane.errors import OpenFilesLimit
from widelane.wire.open_files import raise_open_files_limit


@pytest.fixture(autouse=True)
def limits_as_found() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0], resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def test_the_soft_limit_is_raised_to_what_is_needed() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    raise_open_files_limit(128)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft >= 128 + 32


def test_a_limit_that_suffices_is_left_alone() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_open_files_limit(1)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_a_hard_limit_that_is_too_low_is_refused_with_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 100))
    with pytest.raises(OpenFilesLimit, match=r"128 connections .* need 192 open files") as refused:
        raise_open_files_limit(128)
    assert "192" in (refused.value.hint or "")
