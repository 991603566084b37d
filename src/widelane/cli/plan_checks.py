"""What a command line of `plan` and `launch` must not ask for: words no document can carry, commands no engine has."""

from __future__ import annotations

import argparse
import re

from widelane.errors import UsageError
from widelane.facts.devices.device import Device
from widelane.plan.drafting import NONE_NAMED, drafter_of
from widelane.plan.launch.address import is_ip_address
from widelane.plan.launch.changes import no_draft_model
from widelane.plan.launch.versions import is_version
from widelane.plan.pool.dtypes import AUTO, dtype_name
from widelane.plan.request import PlanRequest
from widelane.printable import is_plain

MOST_PORTS = 65535
_HOST_NAME = re.compile(r"\w[\w.-]*")
_STATE_TYPES = (AUTO, "f32", "f16", "bf16")
_PARSER = re.compile(r"\w[\w.-]*")


def check_words(args: argparse.Namespace) -> None:
    """Refuse words that a command line, a unit or a JSON document cannot carry as they are.

    Raises:
        UsageError: one of them holds a control character or bytes that are no UTF-8, or is no name of a parser.
    """
    words = [(f"--{name.replace('_', '-')}", value) for name, value in vars(args).items() if isinstance(value, str)]
    for option, word in (*words, *(("--", word) for word in getattr(args, "arguments", None) or ())):
        if not is_plain(word):
            what = "MODEL" if option == "--model" else option
            raise UsageError(
                f"{what} {word[:80]!r} holds characters that cannot be typed or shown, such as a line break. "
                "Rename the file, or link to it by another name."
            )
    for option, name in (("--tool-call-parser", args.tool_call_parser), ("--reasoning-parser", args.reasoning_parser)):
        if name is not None and not _PARSER.fullmatch(name):
            raise UsageError(f"{option} {name!r}: give the parser's name as the engine knows it, or none")


def check_address(args: argparse.Namespace) -> None:
    """Refuse what is no address, and one that is said where only the engine would hear it.

    Raises:
        UsageError: --host is no name and no IP address, --port no port, or one of them stands behind `--`.
    """
    if args.port is not None and not 1 <= args.port <= MOST_PORTS:
        raise UsageError(f"--port {args.port}: a port is a number from 1 to {MOST_PORTS}")
    if not (_HOST_NAME.fullmatch(args.host) or is_ip_address(args.host)):
        raise UsageError(f"--host {args.host!r} is no address; give a name or an IP address, such as 127.0.0.1 or ::1")
    for word in args.arguments or ():
        if word.partition("=")[0] in ("--host", "--port"):
            raise UsageError(f"{word} stands behind `--`, where only the engine reads it; say it before")


def check_state_type(dtype: str | None) -> None:
    """Refuse a type in which no engine keeps a recurrent state: its server would die while it loads.

    Raises:
        UsageError: it is none of the floats of 16 and 32 bits.
    """
    if dtype is not None and dtype_name(dtype) not in _STATE_TYPES:
        raise UsageError(f"--state-dtype {dtype}: a recurrent state is kept in float32, float16 or bfloat16")


def check_memory(gigabytes: float | None, device: Device) -> None:
    """Refuse more memory than there is: the plan would fill what no server can have.

    Raises:
        UsageError: it is more than the device has.
    """
    if gigabytes is not None and gigabytes * 1e9 > device.memory_bytes:
        raise UsageError(
            f"--memory-gb {gigabytes:g}: {device.name} has {device.memory_bytes / 1e9:.0f} GB (10^9 bytes)"
        )


def check_version(engine: str, version: str | None) -> None:
    """Refuse a version that cannot be read: it would count as the newest, without a word.

    Raises:
        UsageError: it is no build of llama.cpp, or no release of another engine.
    """
    if version is not None and not is_version(engine, version):
        such = "a build, such as b9180" if engine == "llama.cpp" else "a release, such as 0.20.0"
        raise UsageError(f"--engine-version {version}: for {engine} give {such}; left out, it is the newest one known")


def check_drafts(request: PlanRequest) -> None:
    """Refuse drafts that no command of this engine and version could start: the plan would promise what nobody gets.

    Raises:
        UsageError: the engine takes none, or nothing is there that could draft.
    """
    if request.draft_model is not None and (why := no_draft_model(request.engine, request.engine_version)):
        raise UsageError(f"--draft-model {request.draft_model}: {why}")
    if request.draft_depth and request.engine == "ollama":
        raise UsageError(f"--draft-depth {request.draft_depth}: Ollama decides by itself whether to draft")
    if request.draft_depth and drafter_of(request).kind == NONE_NAMED:
        raise UsageError(
            f"--draft-depth {request.draft_depth}: nothing drafts for {request.model.name} here; name a small model of "
            "its family with --draft-model"
        )
