"""The entry point: one command in, one exit status out, and never a traceback for a user's mistake."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from widelane.cli.parser import parse
from widelane.errors import WidelaneError
from widelane.printable import printable

if TYPE_CHECKING:
    import argparse

STDERR = 2
INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    args = parse(argv)
    try:
        return _run(args)
    except WidelaneError as error:
        print(f"widelane: {printable(str(error))}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("widelane: interrupted; what was finished is kept", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) is gone: nothing left to say, and the interpreter must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"widelane: the output cannot be written: {error.strerror or error}", file=sys.stderr)
        return 1


def _run(args: argparse.Namespace) -> int:
    command = importlib.import_module(f"widelane.cli.{args.command}")
    status: int = command.run(args, os.environ)
    return status


def entry() -> None:
    """What the `widelane` script calls."""
    # A closed standard stream (`2>&-`) is filled: else the first socket would take its number.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    os.close(descriptor)
    sys.exit(main())
