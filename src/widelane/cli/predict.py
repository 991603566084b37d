"""`widelane predict JOB --server SERVER`: would this job gain from width?"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import widelane
from widelane.cli.console import Terminal
from widelane.cli.predict_job import job_of
from widelane.cli.predict_server import predicted_server
from widelane.cli.run_dirs import check_writable_file
from widelane.predict.make import check_lanes, predict
from widelane.report.json import to_json
from widelane.report.predict_page import predict_page
from widelane.report.predict_table import predict_table
from widelane.whole_file import write_whole


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Predict, print, write the page where one was asked for."""
    html = check_writable_file(args.html, "--html")
    check_lanes(args.lanes)
    terminal = Terminal(quiet=args.quiet)
    shape = job_of(args)
    server = predicted_server(args, env, shape, terminal)
    with terminal.progress("predicting") as step:
        report = predict(
            shape,
            server,
            most_lanes=args.lanes,
            seed=args.seed,
            told=lambda what: step.update(None, what),
            made={"widelane": widelane.__version__},
        )
    if html is not None:
        write_whole(html, predict_page(report).encode())
    if args.json:
        terminal.data(to_json(report))
    else:
        terminal.out.print(predict_table(report, page_path=None if html is None else str(html)))
    return 0
