"""A real browser for the pages, and what every page must be: quiet, and alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report.devtools import NAMES, Browser, Page, Show, find_browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    executable = find_browser()
    if executable is None:
        pytest.skip(f"no browser to open the report in: none of {', '.join(NAMES)} is installed")
    with Browser(executable, tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a page's text; whatever a test does, the page must have been quiet and alone at the end."""
    opened: list[Page] = []

    def open_text(text: str, **options: Any) -> Page:
        path = tmp_path / f"report-{len(opened)}.html"
        path.write_text(text, encoding="utf-8")
        opened.append(browser.open(path, **options))
        return opened[-1]

    yield open_text
    for one in opened:
        assert one.complaints() == []
        assert [url for url in one.requests() if not url.startswith(("file:", "data:"))] == []
        assert len([url for url in one.requests() if url.startswith("file:")]) == 1
        one.close()
