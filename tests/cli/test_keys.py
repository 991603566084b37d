"""A key in a URL is taken out at the edge: nothing shows or stores it."""

import sqlite3

import pytest

from tests.cli.run_widelane import environment, widelane
from widelane.cli.server import without_login

KEY = "sk-SECRET/KEY"


@pytest.mark.parametrize(
    ("text", "clean", "key"),
    [
        ("http://user:sk-1@host:8080/v1", "http://host:8080/v1", "sk-1"),
        ("http://sk-1@host", "http://host", "sk-1"),
        ("http://:sk%2F1@host", "http://host", "sk/1"),
        ("sk-1@host:9", "host:9", "sk-1"),
        ("http://host:8080", "http://host:8080", None),
        ("embedded:8", "embedded:8", None),
        (None, None, None),
    ],
)
def test_the_login_is_the_key(text, clean, key):
    assert without_login(text) == (clean, key)


@pytest.mark.parametrize(
    "server", [f"http://user:{KEY}@127.0.0.1:9", f"http://user:{KEY}@127.0.0.1:99999", f"{KEY}@x y"]
)
@pytest.mark.parametrize("command", ["doctor", "sweep"])
def test_no_message_and_no_document_holds_it(command, server, tmp_path):
    result = widelane(command, server, "--json", env=environment(tmp_path / "runs"))
    assert result.returncode == 2
    assert "SECRET" not in result.stdout + result.stderr


def test_a_run_does_not_hold_it(tmp_path):
    from widelane.cli.server import ServerChoice
    from widelane.cli.sweep_settings import config_of, new_options
    from widelane.lanes.store import RunStore

    text, key = without_login(f"http://user:{KEY}@127.0.0.1:9")
    with RunStore.create(tmp_path / "run", config_of(ServerChoice(text=text, api_key=key), new_options({}))):
        pass
    dump = "\n".join(sqlite3.connect(tmp_path / "run" / "run.sqlite3").iterdump())
    assert "127.0.0.1" in dump
    assert "SECRET" not in dump
