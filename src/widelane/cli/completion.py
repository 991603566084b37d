"""`widelane completion SHELL`: a script to source, made from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import shtab

from widelane.cli.parser import build_parser


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Print the completion script."""
    print(shtab.complete(build_parser(), shell=args.shell))
    return 0
