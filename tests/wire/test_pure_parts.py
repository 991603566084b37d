"""The pure parts import no event loop, no HTTP and no process: they can be used, and tested, without any."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import widelane.wire

PURE = (
    "address",
    "assemble",
    "choice",
    "conditions",
    "content_coding",
    "context_words",
    "error_body",
    "failures",
    "json_text",
    "judge",
    "limits",
    "parameter_words",
    "reasoning",
    "repetition",
    "request_body",
    "retry_after",
    "special_tokens",
    "sse",
    "tool_calls",
    "tool_recovery",
    "usage",
)
FORBIDDEN = {"asyncio", "httptools", "socket", "ssl", "subprocess", "selectors", "threading", "http"}
FOLDER = Path(widelane.wire.__path__[0])


def imports_of(module: str) -> set[str]:
    """The modules that a file of the wire names in its imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("module", PURE)
def test_a_pure_part_imports_nothing_that_does_io(module: str) -> None:
    imported = imports_of(module)
    assert not {name.split(".")[0] for name in imported} & FORBIDDEN
    inner = {name.removeprefix("widelane.wire.") for name in imported if name.startswith("widelane.wire.")}
    assert inner <= set(PURE), "a pure part rests on pure parts only"


def test_every_file_is_either_pure_or_known_to_do_io() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")}
    assert files - set(PURE) == {"__init__", "client", "connection", "fetch_call", "http", "open_files", "stream_call"}
