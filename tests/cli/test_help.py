"""Help, version, completion and schema need no server."""

import json

import pytest

from tests.cli.run_widelane import environment, widelane
from widelane import __version__
from widelane.cli.parser import build_parser


@pytest.fixture
def env(tmp_path):
    return environment(tmp_path)


def commands() -> list[str]:
    action = next(action for action in build_parser()._actions if action.dest == "command")
    return list(action.choices)


def test_version(env):
    assert widelane("--version", env=env).stdout == f"widelane {__version__}\n"


@pytest.mark.parametrize("command", commands())
def test_every_command_explains_itself(command, env):
    result = widelane(command, "--help", env=env)
    assert result.returncode == 0
    assert result.stdout.startswith(f"usage: widelane {command}")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_completion_knows_every_command(shell, env):
    script = widelane("completion", shell, env=env).stdout
    assert all(command in script for command in commands())


@pytest.mark.parametrize("document", ["sweep", "doctor"])
def test_the_schema_is_one_json_schema(document, env):
    schema = json.loads(widelane("schema", document, env=env).stdout)
    assert "$ref" in schema
    assert "Figure" in schema["$defs"]
