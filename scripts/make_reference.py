"""Write the generated pages of the documentation: `docs/reference/cli.md` and `docs/reference/schemas/*.json`.

usage: make_reference.py            (tests/test_docs.py fails when the pages lag behind the code)
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from widelane.cli.parser import build_parser
from widelane.cli.schema import DOCUMENTS, schema_of

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
COLUMNS = "100"


def pages() -> dict[Path, str]:
    """Every generated page by its path."""
    os.environ["COLUMNS"] = COLUMNS  # argparse wraps its help to the terminal
    schemas = {
        REFERENCE / "schemas" / f"{name}.json": json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n"
        for name in DOCUMENTS
    }
    return {REFERENCE / "cli.md": command_line(build_parser()), **schemas}


def command_line(parser: argparse.ArgumentParser) -> str:
    """The help of every command as one page."""
    parts = ["# Command line", "", "Generated from the parser by `scripts/make_reference.py`.", "", *_block(parser)]
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for name, command in commands.choices.items():
        parts += [f"## widelane {name}", "", *_block(command)]
    return "\n".join(parts).rstrip() + "\n"


def _block(parser: argparse.ArgumentParser) -> list[str]:
    return ["```text", parser.format_help().rstrip(), "```", ""]


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(REFERENCE.parents[1]))
