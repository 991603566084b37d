"""What a sweep was asked to do, from the command line or from the run that is resumed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import msgspec

from widelane.cli.server import ServerChoice
from widelane.errors import RunNotResumable
from widelane.measure.options import SweepOptions, parse_levels

SERVER_KEYS = ("text", "model", "weights", "threads", "hide_endpoints")
"""What of the server belongs to the run: never a key, and nothing that only describes the server."""
DEFAULT_SECONDS = 600.0


def asked(args: argparse.Namespace) -> dict[str, Any]:
    """The options that stand on the command line, by SweepOptions' names.

    Raises:
        UsageError: the levels cannot be read.
    """
    stated = {
        "levels": parse_levels(args.levels) if args.levels is not None else None,
        "max_level": args.max_level,
        "prompt_tokens": args.prompt_tokens,
        "output_tokens": args.output_tokens,
        "seconds": args.seconds,
        "precision": args.precision,
        "endpoint": args.endpoint,
        "seed": args.seed,
    }
    return {name: value for name, value in stated.items() if value is not None}


def new_options(stated: Mapping[str, Any]) -> SweepOptions:
    """The options of a new sweep.

    Raises:
        UsageError: a value is out of range.
    """
    return replace(SweepOptions(seconds=DEFAULT_SECONDS, seed=0), **stated)


def config_of(choice: ServerChoice, options: SweepOptions) -> dict[str, Any]:
    """What is kept in the run, and what a resumed run goes on with."""
    return {
        "command": "sweep",
        "server": {key: getattr(choice, key) for key in SERVER_KEYS},
        "options": dict(options.as_config()),
    }


def resumed(
    config: Mapping[str, Any], choice: ServerChoice, stated: Mapping[str, Any], *, server_stated: bool
) -> tuple[ServerChoice, SweepOptions]:
    """The settings of the saved run. What stands on the command line must be what stood there then.

    Raises:
        RunNotResumable: it is no sweep, or a stated setting differs.
    """
    if config.get("command") != "sweep":
        raise RunNotResumable("this run is no sweep: start a new one without --resume")
    try:
        return _resumed(config, choice, stated, server_stated=server_stated)
    except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise RunNotResumable(f"the run's settings are damaged ({error}): start a new one without --resume") from None


def _resumed(
    config: Mapping[str, Any], choice: ServerChoice, stated: Mapping[str, Any], *, server_stated: bool
) -> tuple[ServerChoice, SweepOptions]:
    saved: dict[str, Any] = dict(config["options"])
    for name, value in stated.items():
        then = tuple(saved[name]) if name == "levels" and saved[name] is not None else saved[name]
        if then != value:
            raise RunNotResumable(
                f"the run was started with {name} {_words(then)}, not {_words(value)}: "
                "leave the option out to go on with the run, or start a new one without --resume"
            )
    then_text = config["server"]["text"]
    if server_stated and choice.text != then_text:
        raise RunNotResumable(f"the run measured {then_text}, not {choice.text}: start a new one without --resume")
    known = {field.name for field in fields(SweepOptions)}
    options = msgspec.convert({name: value for name, value in saved.items() if name in known}, SweepOptions)
    return replace(choice, **{key: config["server"][key] for key in SERVER_KEYS}), options


def _words(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
