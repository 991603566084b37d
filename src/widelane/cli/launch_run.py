"""`widelane launch --run`: start the server here, wait until it answers, stay until it ends or Ctrl-C ends it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from widelane.cli.console import Terminal
from widelane.cli.event_loop import run_async, unless_stopped
from widelane.cli.run_dirs import check_writable_file, folder_made, runs_root
from widelane.engines.embedded import EmbeddedServer
from widelane.engines.installed import INSTALL, program_path
from widelane.engines.launch_line import parse_launch
from widelane.engines.supervise import LaunchedServer, require_free_port
from widelane.errors import EmbeddedServerFailed, UsageError, WidelaneError
from widelane.plan.launch.address import bracketed
from widelane.plan.launch.builder import words_of
from widelane.plan.launch.choice import HEALTH_PATHS, LOOPBACK
from widelane.plan.launch.command import missing_model
from widelane.plan.report import LaunchPlan

MOST_START_S = 86_400.0
LOOK_S = 0.5
"""Between two looks at whether the embedded server still runs."""
_LOG_COLUMNS = 60
_UNSPECIFIED = ("0.0.0.0", "::")  # noqa: S104 - compared with, never listened on by itself


@dataclass(frozen=True, slots=True)
class _Started:
    """A server that answers. `failure` says why it ended, None while it runs."""

    url: str
    log_path: Path
    failure: Callable[[], WidelaneError | None]

    async def died(self) -> WidelaneError:
        """Return, with the reason, when it has ended by itself."""
        while (failure := self.failure()) is None:
            await asyncio.sleep(LOOK_S)
        return failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A start that nothing stands in the way of.

    Attributes:
        path: of the installed program, None where the embedded llama.cpp stands in for it.
        log: where the server's output goes.
    """

    launch: LaunchPlan
    path: str | None
    log: Path
    start_limit_s: float


def ready_to_run(args: argparse.Namespace, env: Mapping[str, str], launch: LaunchPlan) -> Run:
    """The start as it will be, before anything is printed or made.

    Raises:
        UsageError: the engine is not installed, no model is named, the port is taken, or the log cannot be written.
    """
    words = words_of(launch)
    if (placeholder := missing_model(launch)) is not None:
        raise UsageError(f"--run needs the weights in place of {placeholder}: give MODEL as a file, folder or org/name")
    if not 0 < args.start_timeout < MOST_START_S:
        raise UsageError(f"--start-timeout {args.start_timeout:g}: give seconds above 0, up to {MOST_START_S:g}")
    path = program_path(words)
    if path is None and not _can_embed(launch, args):
        raise UsageError(f"{' '.join(words[:3])} is not installed here. Install {INSTALL[launch.engine]}")
    require_free_port(launch.host, launch.port or 0)
    return Run(launch=launch, path=path, log=_log_path(args, env, launch), start_limit_s=args.start_timeout)


def run_server(run: Run, env: Mapping[str, str], terminal: Terminal) -> int:
    """0 when Ctrl-C or SIGTERM ended a server that had answered.

    Raises:
        LaunchFailed, EmbeddedServerFailed: it did not come up, or ended by itself.
        UsageError: the log's folder cannot be written to.
    """
    with folder_made(run.log.parent):
        server = _embedded(run, terminal) if run.path is None else _installed(run, run.path, env, terminal)
        return run_async(lambda stop: _kept(server, run.launch, stop, terminal))


async def _kept(
    server: AbstractAsyncContextManager[_Started], launch: LaunchPlan, stop: asyncio.Event, terminal: Terminal
) -> int:
    async with contextlib.AsyncExitStack() as stack:
        started = await unless_stopped(stop, stack.enter_async_context(server))
        terminal.note(f"{launch.engine} answers at {started.url} (log: {started.log_path}); Ctrl-C ends it")
        for command in launch.afterwards:
            terminal.note(f"next: {command}")
        terminal.note(f"to measure it: widelane doctor {started.url}")
        try:
            failure = await unless_stopped(stop, started.died())
        except KeyboardInterrupt:
            terminal.note(f"ending {launch.engine}")
            return 0
        raise failure


@contextlib.asynccontextmanager
async def _installed(run: Run, path: str, env: Mapping[str, str], terminal: Terminal) -> AsyncIterator[_Started]:
    launch = run.launch
    with terminal.progress(f"starting {launch.engine}") as step:
        server = LaunchedServer(
            [path, *words_of(launch)[1:]],
            environ={**env, **{part.flag or "": part.value or "" for part in launch.environ}},
            url=_url(launch),
            health_path=HEALTH_PATHS[launch.engine],
            log_path=run.log,
            start_limit_s=run.start_limit_s,
            progress=lambda _, line: step.update(detail=line[:_LOG_COLUMNS]),
        )
        await server.__aenter__()
    try:
        yield _Started(server.url, run.log, server.failure)
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def _embedded(run: Run, terminal: Terminal) -> AsyncIterator[_Started]:
    """llama.cpp within a Python package, where there is no `llama-server`: the same server with the same settings."""
    line = parse_launch(run.launch.command, engine="llama.cpp")
    settings = line.settings
    terminal.note("llama-server is not installed: the embedded llama.cpp (xllamacpp) is started with the same settings")
    if left := sorted(name for name in settings if name in _NOT_EMBEDDED):
        terminal.note(f"the embedded server leaves out: {', '.join(left)}")
    with terminal.progress("starting llama.cpp"):
        server = EmbeddedServer(
            log_dir=run.log.parent,
            model=Path(str(settings["model"])),
            slots=line.number("parallel"),
            context=line.number("ctx_size"),
            unified=True if settings.get("kv_unified") is True else None,
            kv_type=str(settings.get("cache_type_k", "f16")),
            threads=line.number("threads"),
            port=run.launch.port or 0,
            start_limit_s=run.start_limit_s,
        )
        await server.__aenter__()
    try:
        yield _Started(server.url, server.log_path, lambda: _embedded_failure(server))
    finally:
        await server.__aexit__(None, None, None)


_NOT_EMBEDDED = ("spec_type", "draft_model", "draft_max", "kv_unified_per_slot")
"""Settings of the command that the embedded server does not take."""


def _embedded_failure(server: EmbeddedServer) -> EmbeddedServerFailed | None:
    try:
        server.check_alive()
    except EmbeddedServerFailed as failure:
        return failure
    return None


def _can_embed(launch: LaunchPlan, args: argparse.Namespace) -> bool:
    """Whether the embedded llama.cpp can stand in: for a file, on this machine, and when no program was named."""
    settings = parse_launch(launch.command, engine=launch.engine).settings
    return (
        launch.engine == "llama.cpp"
        and args.program is None
        and launch.host == LOOPBACK
        and Path(str(settings.get("model", ""))).is_file()
        and importlib.util.find_spec("xllamacpp") is not None
    )


def _log_path(args: argparse.Namespace, env: Mapping[str, str], launch: LaunchPlan) -> Path:
    if (stated := check_writable_file(args.log_file, "--log-file")) is not None:
        return stated
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    return runs_root(env) / f"{stamp}-launch-{launch.engine}-{os.getpid()}" / "server.log"


def _url(launch: LaunchPlan) -> str:
    """Where this machine reaches the server."""
    host = LOOPBACK if launch.host in _UNSPECIFIED else launch.host
    return f"http://{bracketed(host)}:{launch.port}"
