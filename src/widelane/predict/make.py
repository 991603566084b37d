"""A prediction: the job on rising widths of a simulated server, beside what would be done instead.

report = predict(map_reduce(parse_calls("24x900", "--map")), server)
report.verdict, report.speedup.value, report.lanes.value
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from widelane.errors import UsageError
from widelane.figures import Figure, Origin, unknown
from widelane.predict import words
from widelane.predict.chance import Chance, chances
from widelane.predict.crossover import Crossover, find_crossover
from widelane.predict.figures import factor_figure, mean_figure, share_figure, wall_figure
from widelane.predict.points import phases_of, width_point
from widelane.predict.report import JobSummary, PredictReport
from widelane.predict.runs import Runs, run_count
from widelane.predict.server import PredictedServer
from widelane.predict.shape import Shape
from widelane.predict.simulate import Run
from widelane.predict.speedup import speedup
from widelane.predict.trace import busy, critical_path, output_tokens
from widelane.predict.widths import WIDEST, lanes_worth_using, widths_to_try
from widelane.records import Span

Told = Callable[[str], None]
_CROSSOVER_RUNS = 5
"""Runs of each arm at each length on the way to the crossover, where lengths vary."""


def predict(
    shape: Shape, server: PredictedServer, *, most_lanes: int | None = None, seed: int = 0, told: Told | None = None,
    made: Mapping[str, str] | None = None,
) -> PredictReport:  # fmt: skip
    """Run the job in virtual time and judge it. Not to be called from within a running event loop.

    Args:
        most_lanes: no more lanes than these are considered; None: as many as the job can use.
        seed: of everything that is drawn.
        told: called with what is being run.
        made: what else replays the prediction (version, command).

    Raises:
        UsageError: the server cannot serve a call of the job, or so many lanes make no sense.
    """
    check_lanes(most_lanes)
    count = run_count(shape, server)
    runs = Runs(shape, server.open_backend, chances(seed, count), told)
    open_ended = min(shape.calls, WIDEST)
    most = max(busy(run.spans).most for run in runs.at(open_ended))
    slots = server.slots.number
    widths = widths_to_try(min(most, most_lanes or most), None if slots is None else int(slots))
    lanes = lanes_worth_using({width: runs.wall_s(width) for width in widths})
    crossover = _crossover(shape, server, lanes, chances(seed, min(count, _CROSSOVER_RUNS)), told)
    made = {**(made or {}), "server": server.replay, "job": shape.words, "seed": str(seed)}
    return words.with_words(_Prediction(shape, server, runs, open_ended, widths, lanes).report(crossover, made))


predict_job = predict
"""The name under which the package offers it: `widelane.predict` is this folder."""


def check_lanes(most_lanes: int | None) -> None:
    """Refuse a bound on the lanes under which there is nothing to predict.

    Raises:
        UsageError: it is below 2.
    """
    if most_lanes is not None and most_lanes < 2:
        raise UsageError(f"At most {most_lanes} lanes: give 2 or more, as one lane is what they are held against.")


@dataclass(frozen=True, slots=True)
class _Prediction:
    """All runs, and the lanes worth using: what the report is made of.

    Attributes:
        open_ended: lanes of the run that never waits for one.
    """

    shape: Shape
    server: PredictedServer
    runs: Runs
    open_ended: int
    widths: Sequence[int]
    lanes: int

    def report(self, crossover: Figure, made: Mapping[str, str]) -> PredictReport:
        """The document, without its sentences."""
        shape, server, runs, lanes = self.shape, self.server, self.runs, self.lanes
        chosen, open_ended, error = runs.at(lanes), runs.at(self.open_ended), server.error(lanes)
        wall_s, one_lane_s = runs.wall_s(lanes), runs.wall_s(1)
        point = width_point(runs, lanes, error)
        alone_s = fmean(busy(run.spans).alone_s for run in open_ended)
        return PredictReport(
            server=server.words,
            job=self._job(),
            verdict=words.verdict_of(speedup(runs.samples(lanes), error), lanes),
            sentence="",
            why=(),
            wall_s=point.wall_s,
            instead_s=wall_figure(runs.instead(), server.error(1)),
            one_lane_s=wall_figure(runs.at(1), server.error(1)),
            speedup=point.speedup,
            lanes=Figure(lanes, "lanes", Origin.PREDICTED, reason=words.lanes_reason(lanes, self.widths)),
            serial_tokens=mean_figure([output_tokens(critical_path(run.spans)) for run in open_ended], "tokens"),
            serial_share_one_lane=share_figure(alone_s, one_lane_s),
            serial_share=share_figure(fmean(busy(run.spans).alone_s for run in chosen), wall_s),
            most_speedup=factor_figure(one_lane_s, alone_s, "no call has to run alone, so there is no such bound"),
            utilisation=point.utilisation,
            output_tok_s=point.output_tok_s,
            crossover_tokens=crossover,
            solved=_solved(shape, chosen),
            phases=phases_of(runs.at(1), chosen, one_lane_s, wall_s),
            widths=[width_point(runs, width, server.error(width)) for width in self.widths],
            server_slots=server.slots,
            notes=[*shape.assumed, *server.notes, *words.chance_note(len(chosen))],
            made=made,
            timeline=_timelines(runs.at(1), chosen, lanes),
        )

    def _job(self) -> JobSummary:
        tokens = [output_tokens(run.spans) for run in self.runs.at(self.lanes)]
        return JobSummary(
            kind=self.shape.kind,
            words=self.shape.words,
            instead=self.shape.instead_words,
            calls=self.shape.calls,
            output_tokens=mean_figure(tokens, "tokens"),
        )


def _crossover(shape: Shape, server: PredictedServer, lanes: int, drawn: Sequence[Chance], told: Told | None) -> Figure:
    if not shape.has_overhead or shape.scaled is None or shape.item_tokens is None:
        return unknown("tokens", "nothing is spent on splitting this job, so there is nothing to repay",
                       Origin.PREDICTED)  # fmt: skip
    if lanes == 1:
        return unknown("tokens", "no number of lanes makes the job faster here", Origin.PREDICTED)
    scaled = shape.scaled
    if told is not None:
        told("the crossover")

    def gain_at(factor: float) -> float | None:
        try:
            samples = Runs(scaled(factor), server.open_backend, drawn).samples(lanes)
        except UsageError:  # beyond what the server holds
            return None
        return sum(sample.instead_s for sample in samples) / sum(sample.wall_s for sample in samples)

    return _crossover_figure(find_crossover(gain_at, shape.item_tokens), shape, lanes)


def _crossover_figure(found: Crossover, shape: Shape, lanes: int) -> Figure:
    if found.tokens is None or shape.item_tokens is None:
        return unknown("tokens", found.reason, Origin.PREDICTED)
    in_all = round(found.tokens * shape.work_tokens / shape.item_tokens)
    reason = found.reason or f"an item, on {lanes} lanes; {in_all:,} tokens of all items together"
    return Figure(found.tokens, "tokens", Origin.PREDICTED, reason=reason)


def _solved(shape: Shape, chosen: Sequence[Run]) -> Figure:
    if shape.pass_rate is None:
        return unknown("share", "the job has no tries that could fail", Origin.PREDICTED)
    chance = 1.0 - (1.0 - shape.pass_rate) ** shape.calls
    seen = sum(run.solved for run in chosen)
    reason = f"1 - (1 - {shape.pass_rate:g})^{shape.calls}, each try by itself; {seen} of the {len(chosen)} runs were"
    return Figure(float(f"{chance:.4g}"), "share", Origin.PREDICTED, reason=reason)


def _timelines(one_lane: Sequence[Run], chosen: Sequence[Run], lanes: int) -> dict[str, Sequence[Span]]:
    drawn = {"1": one_lane[0].spans}
    return drawn if lanes == 1 else {**drawn, str(lanes): chosen[0].spans}
