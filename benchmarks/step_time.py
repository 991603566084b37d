"""How well the step-time model predicts measured decode steps.

    python benchmarks/step_time.py [ROWS.jsonl] [--json] [--fit] [--configurations]

ROWS.jsonl holds one measured row a line (by default `measurements/calibration.jsonl` of the folder that WIDELANE_DATA
names); devices, engines and models that are not known are fine. Rows without a pure decode step are left out, and the
reasons counted. Printed is the absolute percentage error of the step time, median and 90th percentile:

  - bandwidth only: weights of one token over the nominal bandwidth, the same at any batch;
  - no fit: the model with what is assumed of every machine;
  - shipped fits: with the two numbers a (machine, engine) that the package ships, no fit where it ships none;
  - two numbers fitted: on these very rows, for each (machine, engine);
  - leave one configuration out, leave one source out: fitted on the other rows of the same (machine, engine), no fit
    where none are left. Only the two numbers are left out: on the calibration rows, where the traits of the kernels
    were chosen too (`plan/engine_traits.py`), this flatters; on other rows it does not.

Rows whose total does not fit their rate (requests queued behind the server's slots) never enter a fit; they are scored
in the first two columns and left out of the next two. The last column says how much of the predicted time nine in ten
steps really took. Below, how often two configurations are ordered rightly by
tokens/s at the same batch and about the same context, by how much they really differ.

`--fit` prints the fits as `plan/fitted.py` holds them; `--configurations` the errors of each configuration.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from step_rows import Step, read_steps
from step_scores import ordered, scores
from widelane.plan.fit import MachineFit, Observation, fit_machine, median_error
from widelane.plan.rates import USUAL, known_fit, observation, step_rates
from widelane.plan.step_time import step_seconds

Group = tuple[str, str]
FEWEST_ROWS = 3
"""Rows behind a fit worth shipping."""


def main() -> int:
    options = read_options()
    steps, left_out = read_steps(options.rows)
    if not steps:
        print(f"{options.rows} holds no measured decode step: {dict(left_out)}", file=sys.stderr)
        return 2
    predictions = {name: predict(steps) for name, predict in METHODS.items()}
    if options.fit:
        print("\n".join(fit_lines(steps)))
        return 0
    result = {
        "rows": str(options.rows),
        "steps": len(steps),
        "configurations": len({step.configuration for step in steps}),
        "doubtful": sum(step.doubtful for step in steps),
        "left_out": dict(left_out),
        "errors": {name: scores(steps, predicted) for name, predicted in predictions.items()},
        "ordered_rightly": {name: ordered(steps, predicted) for name, predicted in predictions.items()},
    }
    print(json.dumps(result, indent=1) if options.json else report(result))
    if options.configurations and not options.json:
        print(by_configuration(steps, predictions))
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    folder = Path(os.environ.get("WIDELANE_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    default = folder / "measurements" / "calibration.jsonl"
    parser.add_argument("rows", nargs="?", type=Path, default=default, help=f"rows file (default: {default})")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--fit", action="store_true", help="print fits as plan/fitted.py holds them")
    parser.add_argument("--configurations", action="store_true", help="also print each configuration's errors")
    options = parser.parse_args()
    if not options.rows.is_file():
        parser.error(f"{options.rows} is no file; name a rows file, or set WIDELANE_DATA to the data folder")
    return options


# --- predictions, in seconds, one a step


def bandwidth_only(steps: Sequence[Step]) -> list[float]:
    return [step.naive_s for step in steps]


def no_fit(steps: Sequence[Step]) -> list[float]:
    return [predicted_s(step, USUAL) for step in steps]


def shipped(steps: Sequence[Step]) -> list[float]:
    known = [known_fit(step.device, step.engine) for step in steps]
    return [predicted_s(step, one.fit if one else USUAL) for step, one in zip(steps, known, strict=True)]


def two_fitted(steps: Sequence[Step]) -> list[float]:
    fits = {group: fitted(members) for group, members in by_machine(steps).items()}
    return [predicted_s(step, fits[step.machine]) for step in steps]


def without_own(key: Callable[[Step], str]) -> Callable[[Sequence[Step]], list[float]]:
    """Predict each step by a fit of its machine's steps that differ from it in `key`."""

    def predict(steps: Sequence[Step]) -> list[float]:
        groups = by_machine(steps)
        fits = {
            (group, own): fitted([one for one in members if key(one) != own])
            for group, members in groups.items()
            for own in {key(one) for one in members}
        }
        return [predicted_s(step, fits[step.machine, key(step)]) for step in steps]

    return predict


METHODS: dict[str, Callable[[Sequence[Step]], list[float]]] = {
    "bandwidth only": bandwidth_only,
    "no fit": no_fit,
    "shipped fits": shipped,
    "two numbers fitted": two_fitted,
    "leave one configuration out": without_own(lambda step: step.configuration),
    "leave one source out": without_own(lambda step: step.source),
}


def predicted_s(step: Step, fit: MachineFit) -> float:
    rates = step_rates(step.device, step.engine, step.cost, fit)
    return step_seconds(step.cost, rates, batch=step.batch, context=step.context, draft_depth=step.draft_depth)


def fitted(steps: Iterable[Step]) -> MachineFit:
    """The fit of the steps that are not doubtful; what is assumed where there are none."""
    rows = observations(steps)
    return fit_machine(rows) if rows else USUAL


def observations(steps: Iterable[Step]) -> list[Observation]:
    return [
        observation(
            step.device,
            step.engine,
            step.cost,
            batch=step.batch,
            context=step.context,
            draft_depth=step.draft_depth,
            measured_s=step.measured_s,
        )
        for step in steps
        if not step.doubtful
    ]


def by_machine(steps: Iterable[Step]) -> dict[Group, list[Step]]:
    groups: dict[Group, list[Step]] = defaultdict(list)
    for step in steps:
        groups[step.machine].append(step)
    return groups


# --- output


def report(result: dict[str, Any]) -> str:
    lines = [
        f"{result['rows']}: {result['steps']} decode steps of {result['configurations']} configurations, "
        f"{result['doubtful']} of them doubtful",
        "left out: " + ", ".join(f"{count} ({reason})" for reason, count in sorted(result["left_out"].items())),
        "",
        f"{'step time, |error| in %':<30}{'median':>9}{'p90':>8}{'without doubtful':>20}{'p90':>8}{'9 in 10 take':>18}",
    ]
    lines += [
        f"{name:<30}{one['median']:>9.1f}{one['p90']:>8.1f}"
        f"{one['median_without_doubtful']:>20.1f}{one['p90_without_doubtful']:>8.1f}"
        f"{one['measured_over_predicted_p5']:>10.2f}–{one['measured_over_predicted_p95']:.2f} ×"
        for name, one in result["errors"].items()
    ]
    bands = next(iter(result["ordered_rightly"].values()))
    lines += ["", f"{'ordered rightly, %':<30}" + "".join(f"{band_name(band):>10}" for band in bands)]
    lines.append(f"{'pairs':<30}" + "".join(f"{band['pairs']:>10}" for band in bands))
    lines += [
        f"{name:<30}"
        + "".join("         –" if band["rightly"] is None else f"{band['rightly']:>10.0%}" for band in own)
        for name, own in result["ordered_rightly"].items()
    ]
    return "\n".join(lines)


def band_name(band: dict[str, float]) -> str:
    return f"> {band['from']:.0%}" if band["to"] is None else f"{band['from']:.0%}–{band['to']:.0%}"


def by_configuration(steps: Sequence[Step], predictions: dict[str, list[float]]) -> str:
    """Signed median error of each configuration under each method but the first."""
    names = [name for name in predictions if name != "bandwidth only"]
    rows: dict[str, list[int]] = defaultdict(list)
    for index, step in enumerate(steps):
        rows[step.configuration].append(index)
    lines = ["", "median signed error in %: " + ", ".join(names)]
    for configuration, indices in rows.items():
        errors = [
            statistics.median(100.0 * (predictions[name][i] / steps[i].measured_s - 1.0) for i in indices)
            for name in names
        ]
        lines.append(f"{configuration:<60}{len(indices):>4}" + "".join(f"{error:>8.1f}" for error in errors))
    return "\n".join(lines)


def fit_lines(steps: Sequence[Step]) -> list[str]:
    """The body of `FITTED` in plan/fitted.py."""
    lines = ["FITTED: tuple[FittedMachine, ...] = ("]
    for (device, engine), members in by_machine(steps).items():
        rows = observations(members)
        if len(rows) < FEWEST_ROWS:
            continue
        fit = fit_machine(rows)
        sure = [step for step in members if not step.doubtful]
        lines += [
            "    FittedMachine(",
            f'        device="{device}",',
            f'        engine="{engine}",',
            f"        fit=MachineFit(efficiency={fit.efficiency:.3f}, overhead_scale={fit.overhead_scale:.3f}),",
            f"        rows={len(rows)},",
            f"        configurations={len({step.configuration for step in sure})},",
            f"        median_error={median_error(rows, fit):.3f},",
            f'        sources="{", ".join(sorted({step.source for step in sure}))}",',
            "    ),",
        ]
    return [*lines, ")"]


if __name__ == "__main__":
    raise SystemExit(main())
