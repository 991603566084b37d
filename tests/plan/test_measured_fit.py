"""A sweep of the very server replaces what is usual for its like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan.requests import request
from widelane.plan.fit import MachineFit
from widelane.plan.make import make_plan
from widelane.plan.measured_fit import MeasuredStep, fit_of
from widelane.plan.outlook import as_stated
from widelane.plan.rates import step_rates
from widelane.plan.step_time import step_seconds


def measured(asked, fit: MachineFit) -> list[MeasuredStep]:
    """Steps of a machine that is exactly like `fit`."""
    cost = as_stated(asked).cost
    rates = step_rates(asked.device, asked.engine, cost, fit)
    return [
        MeasuredStep(batch, 512, step_seconds(cost, rates, batch=batch, context=512)) for batch in (1, 2, 4, 8, 16, 32)
    ]


def test_the_machine_is_found_again() -> None:
    asked = request("qwen3-8b", "rtx-4090", quant="q4", engine="llama.cpp")
    found = fit_of(asked, measured(asked, MachineFit(efficiency=0.6, overhead_scale=1.4)))
    assert found.efficiency == pytest.approx(0.6, rel=0.05)


def test_a_slower_machine_is_planned_slower_and_said_to_be_measured() -> None:
    asked = request("qwen3-8b", "rtx-4090", quant="q4", engine="llama.cpp")
    slow = replace(asked, fit=fit_of(asked, measured(asked, MachineFit(efficiency=0.4, overhead_scale=1.0))))
    usual, own = make_plan(asked).expected_tok_s, make_plan(slow).expected_tok_s
    assert own.number is not None
    assert usual.number is not None
    assert 0.45 < own.number / usual.number < 0.65, "0.4 of the bandwidth instead of 0.8, and the same overhead"
    assert "fitted to steps measured here" in (own.reason or "")
