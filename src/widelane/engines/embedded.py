"""A real llama.cpp server, started for you: `async with EmbeddedServer(log_dir=…) as server: server.url`.

The server lives in a child process (see `embedded_child`), listens on 127.0.0.1 only, on a port that the system
picks, and ends with this process, however that ends. It is in its own process group, so that Ctrl-C in a terminal
reaches only us, and we end it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from widelane.engines.cache_files import Progress, usable_folder
from widelane.engines.embedded_launch import EmbeddedLaunch, default_context, default_threads
from widelane.engines.embedded_process import POLL_S, ServerProcess
from widelane.engines.health import is_healthy
from widelane.engines.model_cache import ModelCache, Weights, require_gguf
from widelane.engines.usable_cores import usable_cores
from widelane.errors import EmbeddedServerFailed, UsageError

START_LIMIT_S: Final = 300.0
"""Longest wait for a start. A child that fails is noticed at once; this bounds only one that hangs."""
HEALTH_LIMIT_S: Final = 30.0
"""Longest wait for the first healthy answer, once the child has said that it listens."""
LOG_NAME: Final = "llama-server"


class EmbeddedServer:
    """One embedded llama.cpp server. Start it from a thread that outlives it (on Linux it ends with that thread).

    Args:
        log_dir: where its log goes, made when missing.
        slots: places in the batch; None is llama.cpp's default (4 slots that share one KV pool).
        model: a GGUF file; None is the default model, fetched once.
        weights: `f32` serves a float32 copy of the model, made once.
        context: tokens of the whole KV pool, as `-c`; 0 is the model's own; None is chosen by `default_context`.
        threads: compute threads; None is chosen by `default_threads`.
        unified: one KV pool for all slots; None is llama.cpp's default for these slots.
        kv_type: type of the KV cache, as `-ctk` and `-ctv` have it.
        port: where it listens; 0 lets the system pick a free one.
        cache_dir: where models are kept; None is the user's cache directory.
        progress: bytes done and in total while a model is fetched or converted. Called from another thread.

    Attributes:
        url: root of the server, without `/v1`.
        launch_line: the `llama-server` command that starts the same server.
        version: of xllamacpp; its last part is llama.cpp's build number, which this build does not tell over HTTP.
    """

    def __init__(
        self,
        *,
        log_dir: Path,
        slots: int | None = None,
        model: Path | None = None,
        weights: Weights = "q4_1",
        context: int | None = None,
        threads: int | None = None,
        unified: bool | None = None,
        kv_type: str = "f16",
        port: int = 0,
        endpoint_slots: bool = True,
        endpoint_metrics: bool = True,
        chat_template: str | None = None,
        reasoning_format: str | None = None,
        slot_save_dir: Path | None = None,
        cache_dir: Path | None = None,
        progress: Progress | None = None,
        start_limit_s: float = START_LIMIT_S,
    ) -> None:
        self._log_dir = log_dir
        self._model = model
        self._weights: Weights = weights
        self._cache = ModelCache(cache_dir)
        self._progress = progress
        self._start_limit_s = start_limit_s
        # Checked here, before anything is fetched or started; the model's path is known only then.
        self._launch = EmbeddedLaunch(
            model=model or Path(),
            threads=default_threads(usable_cores()) if threads is None else threads,
            slots=slots,
            context=default_context(slots) if context is None else context,
            unified=unified,
            kv_type=kv_type,
            port=port,
            endpoint_slots=endpoint_slots,
            endpoint_metrics=endpoint_metrics,
            chat_template=chat_template,
            reasoning_format=reasoning_format,
            slot_save_dir=slot_save_dir,
        )
        self._process: ServerProcess | None = None
        self.url = ""
        self.launch_line = ""
        self.version = ""

    @property
    def pid(self) -> int:
        """Of the process that holds the model: what its memory and CPU use are read from."""
        return self._running().pid

    @property
    def log_path(self) -> Path:
        """The server's log, kept after its end."""
        return self._running().log_path

    @property
    def slots(self) -> int | None:
        """The slots that were asked for; None left them to llama.cpp."""
        return self._launch.slots

    def check_alive(self) -> None:
        """Nothing while the server runs.

        Raises:
            EmbeddedServerFailed: it has ended by itself; says how, with its last log lines.
        """
        failure = self._running().failure()
        if failure is not None:
            raise failure

    async def __aenter__(self) -> Self:
        """Fetch the model when it is missing, start the server, and wait until it answers.

        Raises:
            UsageError: llama.cpp is not installed, the model cannot be had or is none, or a folder is unusable.
            EmbeddedServerFailed: the server did not start.
        """
        _require_xllamacpp()
        if self._model is not None:
            require_gguf(self._model)
        self._launch = replace(self._launch, model=await self._fetch_model())
        with usable_folder(self._log_dir, what="The log folder"):
            log_path = _new_log(self._log_dir)
        self._process = ServerProcess(self._launch.settings(), log_path)
        try:
            said = await self._process.report(self._start_limit_s)
            await _wait_until_healthy(self._process, said["url"])
        except BaseException:
            await self._process.stop()
            raise
        self.url = said["url"]
        self.version = said["version"]
        self.launch_line = self._launch.command(urlsplit(self.url).port or 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running().stop()

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise RuntimeError("the embedded server was not started: use it with `async with`")
        return self._process

    async def _fetch_model(self) -> Path:
        """The model's path. The work is done on a thread, which is told to stop when this is cancelled."""
        stop = threading.Event()
        work = asyncio.ensure_future(
            asyncio.to_thread(self._cache.model, self._model, self._weights, progress=self._progress, stop=stop)
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([work])
            raise


def _require_xllamacpp() -> None:
    if importlib.util.find_spec("xllamacpp") is None:
        raise UsageError(
            "The embedded server needs the `xllamacpp` package, which is not installed.\n"
            'Install it with: python -m pip install "widelane[embedded]", or give the URL of a server that runs.'
        )


def _new_log(folder: Path) -> Path:
    """A new empty file `llama-server.log`, `llama-server-2.log`, …: every start keeps its own log."""
    number = 1
    while True:
        path = folder / (f"{LOG_NAME}.log" if number == 1 else f"{LOG_NAME}-{number}.log")
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return path


async def _wait_until_healthy(process: ServerProcess, url: str) -> None:
    """Return when `/health` answers 200.

    Raises:
        EmbeddedServerFailed: the process ended, or it did not answer in time.
    """
    try:
        async with asyncio.timeout(HEALTH_LIMIT_S):
            while not await is_healthy(url):
                if (failure := process.failure()) is not None:
                    raise failure
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        raise EmbeddedServerFailed(
            f"The embedded server listens on {url} and does not answer /health.\nIts log: {process.log_path}"
        ) from error
