"""The real embedded server for the tests of this folder, or a loud skip."""

import asyncio
import contextlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from widelane.engines.embedded import EmbeddedServer
from widelane.engines.model_cache import ModelCache
from widelane.errors import UsageError


@pytest.fixture(scope="session")
def cache_dir() -> Path | None:
    """Where the default model is kept: WIDELANE_CACHE_DIR, None for the user's cache. Fetches what is missing."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed: no real server to test with (pip install 'widelane[embedded]')")
    stated = os.environ.get("WIDELANE_CACHE_DIR")
    folder = Path(stated) if stated else None
    try:
        ModelCache(folder).model()
    except UsageError as error:
        pytest.skip(f"no model to serve: {error}")
    return folder


def one_thread(log_dir: Path, cache_dir: Path | None, **options: Any) -> EmbeddedServer:
    """A server, not yet started, with one compute thread: the other core is the client's."""
    return EmbeddedServer(log_dir=log_dir, cache_dir=cache_dir, threads=1, **options)


@contextlib.contextmanager
def running(log_dir: Path, cache_dir: Path | None, **options: Any) -> Iterator[EmbeddedServer]:
    """A running server that belongs to no event loop, so that many tests may share it."""
    server = one_thread(log_dir, cache_dir, **options)
    with asyncio.Runner() as runner:
        runner.run(server.__aenter__())
        try:
            yield server
        finally:
            runner.run(server.__aexit__(None, None, None))
