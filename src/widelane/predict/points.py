"""What the runs at each width, and the calls of each role, come to. Pure but for the runs that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from widelane.predict.figures import (
    factor_figure,
    mean_figure,
    rate_figure,
    seconds_figure,
    share_figure,
    speedup_figure,
    wall_figure,
)
from widelane.predict.report import Phase, WidthPoint
from widelane.predict.runs import Runs
from widelane.predict.simulate import Run
from widelane.predict.speedup import CostError, speedup
from widelane.predict.trace import busy, lane_path, output_tokens, phase_seconds


def width_point(runs: Runs, width: int, error: CostError) -> WidthPoint:
    """The job on one number of lanes."""
    made = runs.at(width)
    gain = speedup(runs.samples(width), error)
    busy_s = fmean(busy(run.spans).lane_s for run in made)
    tokens = fmean(output_tokens(run.spans) for run in made)
    return WidthPoint(
        lanes=width,
        wall_s=wall_figure(made, error),
        speedup=speedup_figure(gain, error),
        utilisation=share_figure(busy_s, width * runs.wall_s(width)),
        output_tok_s=rate_figure(tokens, runs.wall_s(width)),
        serial_tokens=mean_figure([output_tokens(lane_path(run.spans)) for run in made], "tokens"),
    )


def phases_of(one_lane: Sequence[Run], chosen: Sequence[Run], one_lane_s: float, wall_s: float) -> list[Phase]:
    """Where the time goes on one lane and on the lanes worth using, by role."""
    before, after = _mean_phases(one_lane), _mean_phases(chosen)
    return [
        Phase(
            role=role,
            one_lane_s=seconds_figure(before[role]),
            lanes_s=seconds_figure(after.get(role, 0.0)),
            gain=factor_figure(before[role], after.get(role, 0.0), "nothing of it was run"),
            share_one_lane=share_figure(before[role], one_lane_s),
            share=share_figure(after.get(role, 0.0), wall_s),
        )
        for role in before
    ]


def _mean_phases(runs: Sequence[Run]) -> dict[str, float]:
    each = [phase_seconds(run.spans) for run in runs]
    roles = dict.fromkeys(role for phases in each for role in phases)
    return {role: fmean(phases.get(role, 0.0) for phases in each) for role in roles}
