"""The job of `widelane predict`, from its file or its options."""

from __future__ import annotations

import argparse

from widelane.cli.run_dirs import user_path
from widelane.errors import UsageError
from widelane.predict.job_file import read_job
from widelane.predict.shape import Calls, Shape, best_of, map_reduce, parse_calls

_OF_MAP = ("plan", "reduce", "instead")
_OF_TRIES = ("pass_rate", "verify_seconds")


def job_of(args: argparse.Namespace) -> Shape:
    """The job that was asked for.

    Raises:
        UsageError: there is none, more than one, or one that cannot be.
    """
    stated = [name for name in ("job", "map", "best_of") if getattr(args, name) is not None]
    if not stated:
        raise UsageError(
            "No job: name a job file, or describe one, e.g. --plan 800 --map 24x900 --reduce 1200, "
            "or --best-of 6x900 --pass-rate 0.3."
        )
    if len(stated) > 1:
        raise UsageError(f"{_option(stated[0])} and {_option(stated[1])} are two jobs: give one of them.")
    _refuse(args, [] if stated == ["map"] else [*_OF_MAP], stated[0])
    _refuse(args, [] if stated == ["best_of"] else [*_OF_TRIES], stated[0])
    if args.prompt_tokens is not None and args.prompt_tokens < 1:
        raise UsageError(f"--prompt-tokens {args.prompt_tokens}: give 1 or more.")
    if args.job is not None:
        return read_job(user_path(args.job), prompt_tokens=args.prompt_tokens)
    return _map_reduce(args) if args.map is not None else _best_of(args)


def _map_reduce(args: argparse.Namespace) -> Shape:
    return map_reduce(
        parse_calls(args.map, "--map"),
        plan=_calls(args, "plan"),
        reduce=_calls(args, "reduce"),
        instead=_calls(args, "instead"),
        prompt_tokens=args.prompt_tokens,
    )


def _best_of(args: argparse.Namespace) -> Shape:
    if args.pass_rate is None:
        raise UsageError("--best-of needs --pass-rate: the chance that one try passes, 0 to 1.")
    return best_of(
        parse_calls(args.best_of, "--best-of"),
        pass_rate=args.pass_rate,
        verify_s=args.verify_seconds or 0.0,
        prompt_tokens=args.prompt_tokens,
    )


def _calls(args: argparse.Namespace, name: str) -> Calls | None:
    text = getattr(args, name)
    return None if text is None else parse_calls(text, _option(name))


def _refuse(args: argparse.Namespace, names: list[str], job: str) -> None:
    for name in names:
        if getattr(args, name) is not None:
            raise UsageError(f"{_option(name)} says nothing about {_option(job)}: leave it out.")


def _option(name: str) -> str:
    return "a job file" if name == "job" else f"--{name.replace('_', '-')}"
