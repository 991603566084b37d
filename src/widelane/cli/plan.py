"""`widelane plan MODEL`: what could this machine do?"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from widelane.cli.console import Terminal
from widelane.cli.plan_options import plan_of
from widelane.cli.run_dirs import check_writable_file
from widelane.report.json import to_json
from widelane.report.plan_page import plan_page
from widelane.report.plan_table import plan_table
from widelane.whole_file import write_whole


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Plan, print, write the page where one was asked for."""
    html = check_writable_file(args.html, "--html")
    terminal = Terminal(quiet=args.quiet)
    report = plan_of(args, env, terminal)
    if html is not None:
        write_whole(html, plan_page(report).encode())
    if args.json:
        terminal.data(to_json(report))
    else:
        terminal.out.print(plan_table(report, page_path=None if html is None else str(html)), crop=False)
    return 0
