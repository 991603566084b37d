"""The documentation follows the code: generated pages are fresh, links lead somewhere, and every code is explained."""

import importlib.util
import re
from pathlib import Path

import pytest

from widelane.measure.doctor import PROBES

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(?:#[^)]*)?\)")


def generated_pages() -> dict[Path, str]:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "scripts" / "make_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


def test_generated_pages_are_what_the_code_says():
    for path, text in generated_pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is old: run scripts/make_reference.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_finding_a_probe_can_make_is_explained():
    explained = (ROOT / "docs" / "reference" / "findings.md").read_text(encoding="utf-8")
    codes = {code for probe in PROBES for code in probe.codes}
    assert codes <= set(re.findall(r"^\| `([a-z0-9-]+)`", explained, re.MULTILINE))
