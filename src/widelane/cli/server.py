"""From what a person typed to a server that answers: the one place where servers are found, started and read."""

from __future__ import annotations

import argparse
import contextlib
import re
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast
from urllib.parse import unquote

from widelane.cli.console import Terminal
from widelane.cli.run_dirs import cache_root, user_path
from widelane.clock import Clock, LoopClock, SystemClock
from widelane.engines.address import EmbeddedServerSpec, ServerAddress, SimServerSpec, UrlServer, parse_server
from widelane.engines.detect import detect
from widelane.engines.discover import find_local, nothing_found
from widelane.engines.embedded import EmbeddedServer
from widelane.engines.engine import Engine, Hints
from widelane.engines.launch_line import parse_launch
from widelane.engines.local_process import find_owner
from widelane.engines.model_cache import require_gguf
from widelane.engines.server_facts import ServerFacts
from widelane.errors import UsageError
from widelane.facts.files.hub_cache import hub_dirs
from widelane.figures import Figure, Origin
from widelane.measure.doctor import DoctorBackend
from widelane.measure.profile import load_profile
from widelane.report.text import bytes_text
from widelane.sim.open_server import Assembled, assemble
from widelane.sim.spec import PREFIX as SIM_PREFIX
from widelane.sim.spec import ProfiledServer, parse_sim
from widelane.wire.client import HttpBackend
from widelane.wire.open_files import raise_open_files_limit

LOG_BYTES = 64 * 2**20
"""Of a start log: what matters stands near its beginning."""
Weights = Literal["q4_1", "f32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChoice:
    """What was asked for, as resolved from the command line and the environment.

    Attributes:
        text: the server argument, None when there is none.
        model: model name on a server, or a GGUF file for the embedded one.
        slots, context: of the embedded server; win over the argument's own.
    """

    text: str | None
    api_key: str | None = None
    model: str | None = None
    launch: str | None = None
    log: str | None = None
    weights: Weights = "q4_1"
    threads: int | None = None
    hide_endpoints: bool = False
    context: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenServer:
    """A server that answered.

    Attributes:
        clock: the one its replies are timed by: the machine's, or that of virtual time.
    """

    url: str
    backend: DoctorBackend
    engine: Engine
    facts: ServerFacts
    embedded: EmbeddedServer | None
    clock: Clock


def chosen(args: argparse.Namespace, env: Mapping[str, str], *, server: str | None) -> ServerChoice:
    """The choice of one command line. An argument wins over OPENAI_BASE_URL.

    Raises:
        UsageError: an option's value cannot be used.
    """
    if args.threads is not None and args.threads < 1:
        raise UsageError(f"--threads {args.threads}: give 1 or more")
    text, login = without_login(server or env.get("OPENAI_BASE_URL") or None)
    return ServerChoice(
        text=text,
        api_key=getattr(args, "api_key", None) or login or env.get("OPENAI_API_KEY") or None,
        model=args.model,
        launch=getattr(args, "launch", None),
        log=_text_of(getattr(args, "log", None)),
        weights=cast("Weights", args.weights or "q4_1"),
        threads=args.threads,
        hide_endpoints=args.hide_endpoints,
    )


def without_login(text: str | None) -> tuple[str | None, str | None]:
    """(server argument, key) with the key of `http://:KEY@host` taken out: from here on it is never shown or stored."""
    found = re.fullmatch(r"([A-Za-z][\w+.-]*://)?([^\s?#]*)@([^@]*)", text) if text else None
    if found is None:
        return text, None
    scheme, login, rest = found.groups()
    return f"{scheme or ''}{rest}", unquote(login.rpartition(":")[2]) or None


def check(choice: ServerChoice, env: Mapping[str, str]) -> None:
    """Refuse what cannot be used before anything is made or started.

    Raises:
        UsageError: the server argument follows no form, the model file is none, or what is to be simulated cannot be.
    """
    if choice.launch is not None:
        parse_launch(choice.launch)
    address = parse_server(choice.text) if choice.text is not None else None
    if isinstance(address, SimServerSpec):
        if choice.model is not None:
            raise UsageError(f"--model {choice.model}: a simulated server's model stands in its name, {address.text}")
        simulated_server(address.text, env)
    if not isinstance(address, EmbeddedServerSpec):
        return
    model = _model_file(choice)
    if model is not None:
        require_gguf(model)


def is_simulated(text: str | None) -> bool:
    """Whether the server argument names a simulated server, which runs in virtual time."""
    return text is not None and text.strip().startswith(SIM_PREFIX)


def simulated_server(text: str, env: Mapping[str, str]) -> Assembled:
    """The simulated server that an argument names.

    Raises:
        UsageError: it cannot be.
    """
    spec = parse_sim(text)
    if isinstance(spec.source, ProfiledServer):
        spec = replace(spec, source=ProfiledServer(path=user_path(str(spec.source.path))))
    caches = hub_dirs(env, Path(env.get("HOME") or Path.home()))
    return assemble(spec, load_profile=load_profile, hub_dirs=caches)


def _text_of(file: str | None) -> str | None:
    if file is None:
        return None
    path = user_path(file)
    if path.exists() and not path.is_file():
        raise UsageError(f"--log {file} is no ordinary file; name one")
    try:
        with path.open("rb") as log:
            return log.read(LOG_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"--log {file}: {error.strerror or error}") from None


@contextlib.asynccontextmanager
async def open_server(
    choice: ServerChoice, env: Mapping[str, str], log_dir: Path, terminal: Terminal, *, widest: int
) -> AsyncIterator[OpenServer]:
    """Find or start the server, say what it is, and take it down again if it was ours.

    Args:
        widest: most calls that will be in flight; room for their connections is made.

    Raises:
        UsageError: no server was named and none was found; the argument or the model file cannot be used.
        CallError: the server does not answer as a model server.
        EmbeddedServerFailed: llama.cpp did not start.
    """
    raise_open_files_limit(widest)
    address = parse_server(choice.text) if choice.text else await _local_server(terminal)
    if isinstance(address, SimServerSpec):
        async with _simulated(simulated_server(address.text, env), choice, terminal) as simulated:
            yield simulated
        return
    async with contextlib.AsyncExitStack() as stack:
        embedded: EmbeddedServer | None = None
        if isinstance(address, UrlServer):
            url, model, key = address.url, choice.model, choice.api_key
            hints = Hints(launch=choice.launch, log=choice.log, process=find_owner(url).process)
        else:
            embedded = await stack.enter_async_context(_embedded(choice, address, env, log_dir, terminal))
            url, model, key = embedded.url, None, None
            hints = Hints(launch=embedded.launch_line, log=embedded.log_path.read_text(errors="replace"))
        backend = await stack.enter_async_context(HttpBackend(url, api_key=key, model=model))
        engine = await detect(backend.fetch, hints)
        facts = await engine.facts(hints)
        if embedded is not None:
            facts = replace(facts, version=_build(embedded))
        yield OpenServer(url=url, backend=backend, engine=engine, facts=facts, embedded=embedded, clock=SystemClock())


@contextlib.asynccontextmanager
async def _simulated(assembled: Assembled, choice: ServerChoice, terminal: Terminal) -> AsyncIterator[OpenServer]:
    """A simulated server on the running loop, whose time is virtual. What hides from HTTP is known: we started it."""
    terminal.note(f"simulated: {assembled.words}")
    known = assembled.hints
    hints = Hints(launch=choice.launch or known.launch, log=choice.log or known.log)
    clock = LoopClock(time.time())
    async with assembled.server(clock=clock) as server:
        engine = await detect(server.fetch, hints)
        facts = await engine.facts(hints)
        yield OpenServer(url=server.url, backend=server, engine=engine, facts=facts, embedded=None, clock=clock)


async def _local_server(terminal: Terminal) -> ServerAddress:
    found = await find_local()
    if found is None:
        raise UsageError(f"{nothing_found()}. OPENAI_BASE_URL is read too.")
    terminal.note(f"using {found.url}, the usual port of {found.usual_for}")
    return UrlServer(found.url)


def _build(embedded: EmbeddedServer) -> Figure:
    """llama.cpp's build, which this packaging does not tell over HTTP: the last part of xllamacpp's version."""
    return Figure(
        f"b{embedded.version.rsplit('.', 1)[-1]}", "", Origin.READ, reason=f"from xllamacpp {embedded.version}"
    )


def _model_file(choice: ServerChoice) -> Path | None:
    return user_path(choice.model) if choice.model else None


@contextlib.asynccontextmanager
async def _embedded(
    choice: ServerChoice, spec: EmbeddedServerSpec, env: Mapping[str, str], log_dir: Path, terminal: Terminal
) -> AsyncIterator[EmbeddedServer]:
    """The embedded server, with a progress line while its model is fetched or made and while it loads."""
    with terminal.progress("starting llama.cpp") as step:

        def progress(done: int, total: int) -> None:
            step.update(done / max(1, total), f"{bytes_text(done)} of {bytes_text(total)}", "preparing the model")

        server = EmbeddedServer(
            slots=spec.slots,
            context=choice.context,
            model=_model_file(choice),
            weights=choice.weights,
            threads=choice.threads,
            endpoint_slots=not choice.hide_endpoints,
            endpoint_metrics=not choice.hide_endpoints,
            log_dir=log_dir,
            cache_dir=cache_root(env),
            progress=progress,
        )
        await server.__aenter__()
    try:
        yield server
    finally:
        await server.__aexit__(None, None, None)
