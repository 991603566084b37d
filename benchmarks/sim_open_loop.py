"""How well the simulated server meets measured open-loop runs when it is told only what one request alone does.

    python benchmarks/sim_open_loop.py [ROWS.jsonl] [--json] [--rows] [--spread S] [--seeds N]

ROWS.jsonl holds one measured row a line (by default `measurements/calibration.jsonl` of the folder that WIDELANE_DATA
names). Each open-loop row is run on the simulator: arrivals at its rate and burstiness, prompts and outputs of its mean
length, the engine's defaults and the flags that it states. Of the configuration's speed two numbers are fed, both of
one request alone: its decode step, and the prefill rate of a prompt of about 4,096 tokens. All else is arithmetic of
`plan/`, with the shipped fits of a machine as the shape of a step.

Printed is the absolute percentage error of output tokens/s, of mean TPOT and of mean TTFT: median and 90th percentile
over the runs, and the same of the medians over calls. Rows tell only mean lengths: their spread is assumed (`--spread`,
standard deviation over mean). The prediction is a mean over draws of arrivals and lengths; `--seeds` says how many.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from open_loop_rows import OpenLoop, read_open_loops
from open_loop_run import SPREAD, Result, run
from step_scores import percentile
from widelane.errors import UsageError

FIGURES = ("output_tok_s", "tpot_s", "ttft_s", "tpot_p50_s", "ttft_p50_s")
SEEDS = 3
ASKED = {"output_tok_s": 9.0, "tpot_s": 14.0, "ttft_s": 28.0}
"""Median error in percent that the simulator is to stay within."""


def main() -> int:
    options = read_options()
    read, left_out = read_open_loops(options.rows)
    rows, results = simulate(read, left_out, options.spread, options.seeds)
    if not rows:
        print(f"{options.rows} holds no open-loop run that can be simulated: {dict(left_out)}", file=sys.stderr)
        return 2
    errors = [errors_of(row, result) for row, result in zip(rows, results, strict=True)]
    summary = {
        "rows": str(options.rows),
        "runs": len(rows),
        "configurations": len({row.configuration for row in rows}),
        "left_out": dict(left_out),
        "spread": options.spread,
        "seeds": options.seeds,
        "errors_percent": scores(errors),
        "by_test": by_test(rows, errors),
    }
    if options.json:
        each = [{"id": row.id} | one for row, one in zip(rows, errors, strict=True)]
        print(json.dumps(summary | {"each_percent": each}, indent=1))
    else:
        print(report(summary))
        if options.each:
            print(table(rows, results, errors))
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    folder = Path(os.environ.get("WIDELANE_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    default = folder / "measurements" / "calibration.jsonl"
    parser.add_argument("rows", nargs="?", type=Path, default=default, help=f"rows file (default: {default})")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rows", dest="each", action="store_true", help="also print each run's errors")
    parser.add_argument("--spread", type=float, default=SPREAD, help="of lengths, standard deviation over mean")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"draws of each row (default: {SEEDS})")
    options = parser.parse_args()
    if not options.rows.is_file():
        parser.error(f"{options.rows} is no file; name a rows file, or set WIDELANE_DATA to the data folder")
    if not 0.0 <= options.spread <= 3.0 or not 1 <= options.seeds <= 100:
        parser.error("--spread is a number from 0 to 3, --seeds one from 1 to 100")
    return options


def simulate(
    read: Sequence[OpenLoop], left_out: Counter[str], spread: float, seeds: int
) -> tuple[list[OpenLoop], list[Result]]:
    """The rows that can be simulated, with their results; `left_out` counts the others."""
    rows: list[OpenLoop] = []
    results: list[Result] = []
    for row in read:
        try:
            results.append(mean([run(row, spread=spread, seed=seed) for seed in range(seeds)]))
        except UsageError as error:
            left_out[str(error)] += 1
        else:
            rows.append(row)
    return rows, results


def mean(results: Sequence[Result]) -> Result:
    """Each figure's mean over the seeds."""
    figures = [asdict(result) for result in results]
    return Result(**{name: statistics.fmean(one[name] for one in figures) for name in figures[0]})


def errors_of(row: OpenLoop, result: Result) -> dict[str, float | None]:
    """Signed errors in percent; None for what the row does not report."""
    measured, simulated = asdict(row.measured), asdict(result)
    return {name: 100.0 * (simulated[name] / measured[name] - 1.0) if measured[name] else None for name in FIGURES}


def scores(errors: Sequence[dict[str, float | None]]) -> dict[str, dict[str, float | None]]:
    """Median and 90th percentile of the absolute errors of each figure, None where no row reports it."""
    found: dict[str, dict[str, float | None]] = {}
    for name in FIGURES:
        sizes = [abs(value) for one in errors if (value := one[name]) is not None]
        found[name] = {
            "median": statistics.median(sizes) if sizes else None,
            "p90": percentile(sizes, 0.9) if sizes else None,
        }
    return found


def by_test(rows: Sequence[OpenLoop], errors: Sequence[dict[str, float | None]]) -> dict[str, dict[str, float | None]]:
    """Median absolute error by test."""
    grouped: dict[str, list[dict[str, float | None]]] = defaultdict(list)
    for row, one in zip(rows, errors, strict=True):
        grouped[row.test or "?"].append(one)
    return {test: {name: own["median"] for name, own in scores(held).items()} for test, held in grouped.items()}


# --- output


def report(summary: dict[str, Any]) -> str:
    lines = [
        f"{summary['rows']}: {summary['runs']} open-loop runs of {summary['configurations']} configurations",
        "left out: " + (", ".join(f"{n} ({why})" for why, n in sorted(summary["left_out"].items())) or "none"),
        "",
        f"{'|error| in %':<26}{'tok/s':>9}{'TPOT':>9}{'TTFT':>9}{'TPOT p50':>11}{'TTFT p50':>11}",
    ]
    errors = summary["errors_percent"]
    lines += [f"{word:<26}" + cells([errors[name][word] for name in FIGURES]) for word in ("median", "p90")]
    lines.append(f"{'asked for (median)':<26}" + cells([ASKED.get(name) for name in FIGURES]))
    lines.append("")
    lines += [
        f"{test[:25]:<26}" + cells([own[name] for name in FIGURES]) for test, own in sorted(summary["by_test"].items())
    ]
    return "\n".join(lines)


def cells(values: Sequence[float | None]) -> str:
    widths = (9, 9, 9, 11, 11)
    return "".join(
        f"{'–':>{width}}" if value is None else f"{value:>{width}.1f}"
        for value, width in zip(values, widths, strict=True)
    )


def table(rows: Sequence[OpenLoop], results: Sequence[Result], errors: Sequence[dict[str, float | None]]) -> str:
    lines = ["", f"{'run, signed error in %':<64}{'tok/s':>9}{'TPOT':>9}{'TTFT':>9}{'TPOT p50':>11}{'TTFT p50':>11}"]
    for row, result, one in zip(rows, results, errors, strict=True):
        name = f"{row.id} {row.configuration[:34]} {row.test}"
        preempted = f"  {result.preemptions:g} preempted" if result.preemptions else ""
        lines.append(f"{name[:63]:<64}" + cells([one[figure] for figure in FIGURES]) + preempted)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
