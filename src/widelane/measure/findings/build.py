"""The five ways a check can end, each as a `Finding`.

`not_checked` is for what could not be found out: it is never a pass, and always says why.
"""

from __future__ import annotations

from widelane.figures import Figure, Finding, Fix, Severity

RANK = (Severity.ERROR, Severity.WARNING, Severity.INFO, Severity.OK, Severity.NOT_CHECKED)
"""The order in which findings are shown: what is broken first, what is unknown last."""


def error(code: str, title: str, evidence: str, fix: Fix | None = None, gain: Figure | None = None) -> Finding:
    """Answers are wrong or lost, or most of the width is."""
    return Finding(code, Severity.ERROR, title, evidence, fix, gain)


def warning(code: str, title: str, evidence: str, fix: Fix | None = None, gain: Figure | None = None) -> Finding:
    """Something is wasted, or breaks under a use that is likely."""
    return Finding(code, Severity.WARNING, title, evidence, fix, gain)


def info(code: str, title: str, evidence: str, fix: Fix | None = None, gain: Figure | None = None) -> Finding:
    """Worth knowing; nothing is broken."""
    return Finding(code, Severity.INFO, title, evidence, fix, gain)


def healthy(code: str, title: str, evidence: str) -> Finding:
    """Checked, and in order."""
    return Finding(code, Severity.OK, title, evidence)


def not_checked(code: str, why: str) -> Finding:
    """Not found out; `why` completes "not checked: …", which the severity says."""
    return Finding(code, Severity.NOT_CHECKED, why, why)


def is_problem(finding: Finding) -> bool:
    """True for an error or a warning."""
    return finding.severity in (Severity.ERROR, Severity.WARNING)
