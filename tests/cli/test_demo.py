"""The demo restarts the server exactly as its own diagnosis advises."""

import pytest

from tests.report import samples
from widelane.cli.demo import advised_restart, prediction_words
from widelane.cli.server import ServerChoice
from widelane.figures import Figure, Finding, Fix, Origin, Severity


def finding(severity: Severity, flag: str = "-np 16 -c 32768") -> Finding:
    return Finding("too-few-slots", severity, "4 slots", "seen", Fix(flag, engine="llama.cpp"))


@pytest.mark.parametrize("severity", [Severity.ERROR, Severity.WARNING])
def test_the_flags_of_the_fix_become_the_next_server(severity):
    advice = advised_restart([finding(severity)])
    assert advice is not None
    choice = advice.applied_to(ServerChoice(text="embedded", weights="f32"))
    assert (choice.text, choice.context, choice.weights) == ("embedded:16", 32768, "f32")


def test_slots_without_a_context_leave_it_to_the_server():
    advice = advised_restart([finding(Severity.WARNING, "-np 8")])
    assert advice is not None
    assert advice.applied_to(ServerChoice(text="embedded")).context is None


def test_a_healthy_server_is_not_restarted():
    healthy = Finding("enough-slots", Severity.OK, "16 slots", "seen")
    assert advised_restart([healthy]) is None
    assert advised_restart([]) is None


def test_the_prediction_stands_beside_what_was_measured():
    gain = Figure(44.0, "tok/s", Origin.PREDICTED, 34.0, 62.0)
    found = [Finding("too-few-slots", Severity.WARNING, "4 slots", "seen", gain=gain)]
    after = samples.sweep([samples.level(4, 30.0), samples.level(16, 43.7)])
    said = prediction_words(found, 16, after)
    assert "44 tok/s (34.0–62.0, predicted)" in said
    assert "Measured: 43.7 tok/s" in said
    assert prediction_words(found, 8, after) == ""
