"""A resumed sweep goes on with its own settings, and refuses other ones."""

import argparse

import pytest

from widelane.cli.server import ServerChoice
from widelane.cli.sweep_settings import asked, config_of, new_options, resumed
from widelane.errors import RunNotResumable, UsageError

NOTHING = {
    "levels": None,
    "max_level": None,
    "prompt_tokens": None,
    "output_tokens": None,
    "seconds": None,
    "precision": None,
    "endpoint": None,
    "seed": None,
}


def command_line(**stated) -> argparse.Namespace:
    return argparse.Namespace(**(NOTHING | stated))


CHOICE = ServerChoice(text="embedded:8", api_key="secret", weights="f32")
OPTIONS = new_options(asked(command_line(levels="4,1,2", seed=7)))


def test_only_what_stands_on_the_command_line_is_asked():
    assert asked(command_line()) == {}
    assert asked(command_line(levels="4,1,2", seed=0)) == {"levels": (1, 2, 4), "seed": 0}


def test_what_is_kept_names_the_server_and_never_its_key():
    config = config_of(CHOICE, OPTIONS)
    assert config["server"]["text"] == "embedded:8"
    assert "secret" not in repr(config)


def test_a_resumed_run_takes_its_own_settings():
    config = config_of(CHOICE, OPTIONS)
    choice, options = resumed(config, ServerChoice(text=None, api_key="new"), {}, server_stated=False)
    assert (choice.text, choice.weights, choice.api_key) == ("embedded:8", "f32", "new")
    assert options == OPTIONS


def test_the_same_settings_may_be_repeated():
    config = config_of(CHOICE, OPTIONS)
    stated = {"levels": (1, 2, 4), "seed": 7}
    assert resumed(config, CHOICE, stated, server_stated=True)[1] == OPTIONS


@pytest.mark.parametrize(
    ("stated", "choice", "word"),
    [
        ({"levels": (1, 2)}, CHOICE, "levels"),
        ({"output_tokens": 9}, CHOICE, "output_tokens"),
        ({}, ServerChoice(text="embedded:4"), "embedded:4"),
    ],
)
def test_other_settings_are_refused(stated, choice, word):
    with pytest.raises(RunNotResumable, match=word):
        resumed(config_of(CHOICE, OPTIONS), choice, stated, server_stated=True)


def test_another_commands_run_is_refused():
    with pytest.raises(RunNotResumable, match="no sweep"):
        resumed({"command": "demo"}, CHOICE, {}, server_stated=False)


@pytest.mark.parametrize(
    "stated",
    [
        {"output_tokens": 1},
        {"seconds": 0.0},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"precision": 0.0},
        {"precision": float("nan")},
        {"max_level": 0},
    ],
)
def test_impossible_options_are_refused(stated):
    with pytest.raises(UsageError):
        new_options(stated)
