"""What a user notices of the package itself: it is light, quiet, and its layers hold."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
HEAVY = ("asyncio", "rich", "jinja2", "msgspec", "psutil", "httptools", "numpy", "xllamacpp", "gguf")


def loaded_by(statement: str) -> set[str]:
    """Names of the modules that a fresh interpreter holds after a statement."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(out.stdout.splitlines()[-1].split())


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_by("import widelane").isdisjoint(HEAVY)


def test_help_loads_nothing_heavy():
    assert loaded_by("from widelane.cli.parser import build_parser; build_parser().format_help()").isdisjoint(HEAVY)


def test_importing_the_package_prints_nothing():
    out = subprocess.run([sys.executable, "-c", "import widelane"], capture_output=True, text=True, check=True)
    assert out.stdout + out.stderr == ""


def test_the_import_contracts_hold():
    lint = Path(sys.executable).parent / "lint-imports"
    out = subprocess.run([lint], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stdout + out.stderr
