"""Runs candidates against their tests: its own process, so that what it runs can do no harm to the test run.

Reads `[[code, test], …]` from stdin and prints how each ended: `passed` or the error's name. The argument is the
limit for each in seconds.
"""

import contextlib
import io
import json
import signal
import sys
import warnings
from types import FrameType


def _too_late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError


def judge(code: str, test: str, limit_s: float) -> str:
    """How the candidate ended."""
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            names: dict[str, object] = {"__name__": "candidate"}
            exec(code, names)
            exec(test, names)
    except SyntaxError:
        return "SyntaxError"  # the kinds of it too
    except BaseException as error:  # noqa: BLE001 - whatever a candidate raises is its result
        return type(error).__name__
    else:
        return "passed"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _too_late)
    json.dump([judge(code, test, float(sys.argv[1])) for code, test in json.load(sys.stdin)], sys.stdout)
