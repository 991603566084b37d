"""Lanes of a setup are never more than its own pool takes."""

import pytest

from tests.plan.requests import request
from widelane.plan.footprint import parse_footprint
from widelane.plan.make import make_plan
from widelane.plan.outlook import as_stated


def test_a_pool_without_a_single_recurrent_state_runs_nothing():
    """SGLang takes its states from a part of the memory of their own; here none fits, though tokens would."""
    asked = request("qwen3.6-27b", "rtx-5090", quant="nvfp4", engine="sglang", draft_depth=2, memory_bytes=26 * 10**9)
    outlook = as_stated(asked)
    assert outlook.pool.max_sequences == 0 and outlook.pool.capacity > 0
    assert outlook.lanes.lanes == 0


def test_slots_too_short_for_a_usual_request_run_nothing():
    asked = request("qwen3-8b", "rtx-3090", engine="llama.cpp", typical="24576", max_tokens=32_768, slots=64)
    outlook = as_stated(asked).but(unified=False)
    assert outlook.pool.longest_tokens < 24_576 < outlook.pool.tokens
    assert outlook.lanes.lanes == 0


@pytest.mark.parametrize("engine", ["vllm", "llama.cpp", "sglang", "ollama"])
def test_lengths_cut_off_at_the_longest_do_not_add_lanes(engine):
    """Typical and longest the same: what is longer is cut off, so that the mean of what is left is below it."""
    asked = request("qwen3-8b", "rtx-3090", engine=engine, typical="1000", max_tokens=1000)
    fit = make_plan(asked).sequences_that_fit
    assert parse_footprint("1000").spread_tokens > 0
    assert 0 < fit.lanes.number <= fit.typical.number
