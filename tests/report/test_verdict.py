"""The sentence on top says what was found, or why there is no verdict."""

from __future__ import annotations

from dataclasses import replace

from tests.report import samples
from tests.report.samples import client, level, measured, sweep
from widelane.figures import Origin, unknown
from widelane.measure.profile import Knee, Limit
from widelane.report.verdict import LIMIT_WORDS, client_text, sweep_verdict, unknown_cells


def test_knee_and_limit_are_in_it() -> None:
    assert sweep_verdict(samples.np4()) == (
        "4 concurrent requests get all this server gives: 34.1 tok/s (33.5–34.7). "
        "More lanes add nothing; the limit is the server's slots."
    )


def test_a_knee_at_one_request() -> None:
    one = Knee(concurrency=measured(1, "requests"), output_tok_s=measured(17.0, "tok/s"))
    text = sweep_verdict(sweep([level(1, 17.0), level(2, 17.0)], knee=one, limit=Limit.COMPUTE))
    assert (
        text
        == "One request at a time gets all this server gives: 17.0 tok/s. More lanes add nothing; the limit is compute."
    )


def test_a_limit_that_was_not_reached_promises_nothing() -> None:
    text = sweep_verdict(replace(samples.np4(), limit=Limit.NOT_REACHED))
    assert text.startswith("Throughput still rose at 4 concurrent requests")


def test_a_plateau_without_a_known_cause_is_not_given_one() -> None:
    assert sweep_verdict(replace(samples.np4(), limit=Limit.UNKNOWN)).endswith(
        "More lanes add nothing; what limits it is not known."
    )


def test_every_limit_has_its_words() -> None:
    assert LIMIT_WORDS.keys() == set(Limit)


def test_no_figures_no_verdict() -> None:
    dead = level(1, 1, output_tok_s=unknown("tok/s", "all failed", Origin.MEASURED))
    assert sweep_verdict(sweep([dead], knee=None)).startswith("No verdict: no level gave a throughput")
    assert sweep_verdict(sweep([], knee=None)).startswith("No verdict")


def test_figures_that_the_client_spoiled_get_no_verdict() -> None:
    spoiled = level(8, 100, client=client(0.9, spoiled=True))
    assert sweep_verdict(sweep([spoiled])).startswith("No verdict: this client could not keep up")
    assert sweep_verdict(replace(samples.np4(), limit=Limit.CLIENT)).startswith("No verdict: this client")


def test_a_sweep_cut_short_says_so() -> None:
    assert "cut short" in sweep_verdict(replace(samples.np4(), complete=False))


def test_the_client_is_judged_by_its_worst_level() -> None:
    levels = [level(1, 10, client=client(0.01, 0.0002)), level(8, 40, client=client(0.031, 0.0016))]
    assert client_text(levels) == "3.10 % of one core, lag p99 1.60 ms: the figures are the server's"


def test_dashes_with_the_same_reason_share_a_line() -> None:
    reason = "fewer than two output tokens"
    levels = [level(n, 10, tpot_s=samples.no_percentiles(reason)) for n in (1, 2, 4)]
    assert [(cell.what, cell.reason) for cell in unknown_cells(levels)] == [("TPOT at 1, 2 and 4", reason)]
