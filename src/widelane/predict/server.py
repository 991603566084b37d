"""A simulated server as a prediction uses it: how one is opened, how many it decodes together, how well it is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from widelane.figures import Figure, Origin
from widelane.measure.knee import SINGLE_WINDOW_ERROR
from widelane.measure.profile import Level
from widelane.plan.rates import ExpectedRates
from widelane.predict.simulate import OpenBackend
from widelane.predict.speedup import CostError

OTHER_WORK_ERROR = 0.10
"""Further relative error of a measured server on a job of other lengths than those of its sweep: between levels, and
with other contexts, the step time is interpolated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedServer:
    """What a prediction needs to know of a server.

    Attributes:
        words: the server for a person.
        open_backend: a fresh one for a seed.
        slots: sequences it decodes together, unknown with the reason.
        error: how far its steps may be from the prediction, by lanes.
        notes: what a reader must know about it, a sentence each.
        replay: the argument of `--server` that gives it again.
        varies: whether one start of it differs from another.
    """

    words: str
    open_backend: OpenBackend
    slots: Figure
    error: Callable[[int], CostError]
    notes: tuple[str, ...] = ()
    replay: str = ""
    varies: bool = False


def planned_error(expected: ExpectedRates) -> Callable[[int], CostError]:
    """The bounds of a step time that follows from arithmetic: the same at every width."""
    error = CostError(low=expected.low, high=expected.high, words=expected.words)
    return lambda _: error


def measured_error(levels: Sequence[Level]) -> Callable[[int], CostError]:
    """The bounds of a measured server: intervals of one request alone and of the nearest level, and other work."""
    rated = [level for level in levels if level.output_tok_s.number]

    def at(lanes: int) -> CostError:
        if not rated:
            return CostError(low=1 - OTHER_WORK_ERROR, high=1 + OTHER_WORK_ERROR, words="no level has a throughput")
        nearest = min(rated, key=lambda level: (abs(math.log(level.concurrency / lanes)), level.concurrency))
        share = math.hypot(_half_width(rated[0].output_tok_s), _half_width(nearest.output_tok_s), OTHER_WORK_ERROR)
        words = (
            f"measured at {rated[0].concurrency} and {nearest.concurrency} at once, ±{OTHER_WORK_ERROR * 100:.0f} % for"
            " work of other lengths than the sweep's"
        )
        return CostError(low=1 / (1 + share), high=1 + share, words=words)

    return at


def slots_figure(slots: int | None) -> Figure:
    """Sequences that the simulated server decodes together."""
    if slots is None:
        return Figure(None, "slots", Origin.PREDICTED, reason="this server does not say how many it has")
    return Figure(slots, "slots", Origin.PREDICTED)


def _half_width(figure: Figure) -> float:
    """The larger half of the interval as a share of the value."""
    value = figure.number or 0.0
    if figure.low is None or figure.high is None or value <= 0:
        return SINGLE_WINDOW_ERROR
    return max(figure.high - value, value - figure.low) / value
