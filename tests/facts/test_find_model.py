"""What a user may type as MODEL."""

import os
from pathlib import Path

import pytest

from tests.facts.model_folders import (
    CONFIG,
    MATRICES,
    write_checkpoint,
    write_config,
    write_hub_model,
    write_tiny_gguf,
)
from widelane.errors import UnreadableModel, UsageError
from widelane.facts.files.hub_cache import hub_dirs
from widelane.facts.find_model import find_model
from widelane.facts.known_models import known_names


def refused(text: str, **options: object) -> str:
    with pytest.raises(UsageError) as caught:
        find_model(text, **options)
    return str(caught.value)


# --- paths and known names


def test_a_path_that_is_there_is_read(tmp_path, monkeypatch):
    folder = write_checkpoint(tmp_path / "Tiny")
    gguf = write_tiny_gguf(tmp_path / "tiny.gguf")
    assert find_model(str(folder)).parameters.total == MATRICES
    assert find_model(str(gguf)).source == str(gguf)
    monkeypatch.chdir(tmp_path)
    assert find_model("Tiny").parameters.total == MATRICES


def test_every_known_name_is_found_in_any_case_with_or_without_its_organisation():
    names = known_names()
    assert names
    for name in names:
        for text in (name, name.lower(), name.upper(), name.partition("/")[2], name.partition("/")[2].lower()):
            assert find_model(text).name == name


def test_a_path_comes_before_a_known_name(tmp_path, monkeypatch):
    known = known_names()[0].partition("/")[2]
    write_config(tmp_path / known)
    monkeypatch.chdir(tmp_path)
    assert find_model(known).parameters.total == MATRICES


def test_a_folder_of_results_does_not_hide_a_known_name(tmp_path, monkeypatch):
    known = known_names()[0].partition("/")[2]
    (tmp_path / known).mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_model(known).name == known_names()[0]


def test_a_quantisation_can_follow_the_name():
    name = known_names()[0]
    assert find_model(f"{name}:q8_0").weights == find_model(name, quant="q8_0").weights
    assert find_model(f"{name}:q8_0", quant="Q8_0").weights.quant == "q8_0"
    assert "names the quantisation q8_0, and fp8 is stated as well" in refused(f"{name}:q8_0", quant="fp8")


# --- the local cache


def test_a_name_in_the_cache_with_or_without_its_organisation(tmp_path):
    write_config(write_hub_model(tmp_path, "some-org/Tiny-LM"))
    for text in ("some-org/Tiny-LM", "SOME-ORG/tiny-lm", "tiny-lm"):
        assert find_model(text, hub_dirs=[tmp_path / "none", tmp_path]).name == "some-org/Tiny-LM"


def test_names_with_dashes_are_told_apart(tmp_path):
    write_config(write_hub_model(tmp_path, "a-b/c--d"))
    assert find_model("a-b/c--d", hub_dirs=[tmp_path]).name == "a-b/c--d"


def test_a_full_name_in_the_cache_comes_before_a_known_one_and_a_bare_name_after(tmp_path):
    name = known_names()[0]
    write_config(write_hub_model(tmp_path, name))
    assert find_model(name, hub_dirs=[tmp_path]).parameters.total == MATRICES
    assert find_model(name.partition("/")[2], hub_dirs=[tmp_path]).parameters.total != MATRICES


def test_a_cache_with_only_the_tokenizer_does_not_hide_a_known_name(tmp_path):
    name = known_names()[0]
    (write_hub_model(tmp_path, name) / "tokenizer.json").write_text("{}")
    assert find_model(name, hub_dirs=[tmp_path]).parameters.total > MATRICES


def test_of_a_cached_gguf_repository_the_quantisation_says_which_file(tmp_path):
    snapshot = write_hub_model(tmp_path, "org/Tiny-GGUF")
    for kind in ("Q8_0", "Q4_0"):
        write_tiny_gguf(snapshot / f"Tiny-{kind}.gguf", kind)
    assert find_model("org/tiny-gguf:q4_0", hub_dirs=[tmp_path]).source.endswith("Tiny-Q4_0.gguf")
    assert "holds 2 GGUF models" in refused("org/tiny-gguf", hub_dirs=[tmp_path])


def test_the_snapshot_that_main_points_to(tmp_path):
    old = write_hub_model(tmp_path, "org/tiny", revision="aaaa")
    new = write_hub_model(tmp_path, "org/tiny", revision="bbbb")
    write_config(old)
    write_config(new, num_hidden_layers=5)
    assert find_model("org/tiny", hub_dirs=[tmp_path]).n_layers == 5
    main = tmp_path / "models--org--tiny" / "refs" / "main"
    main.write_text("aaaa")
    assert find_model("org/tiny", hub_dirs=[tmp_path]).n_layers == CONFIG["num_hidden_layers"]


@pytest.mark.parametrize("revision", ["../../../outside", "..", "/outside", "", "cccc", "\0"])
def test_a_revision_that_is_no_name_of_a_snapshot_is_not_followed(tmp_path, revision):
    hub = tmp_path / "hub"
    write_config(write_hub_model(hub, "org/tiny", revision="aaaa"))
    (hub / "models--org--tiny" / "refs" / "main").write_text(revision)
    write_config(tmp_path / "outside", num_hidden_layers=9)
    assert find_model("org/tiny", hub_dirs=[hub]).n_layers == CONFIG["num_hidden_layers"]


def test_without_main_the_newest_snapshot_is_taken(tmp_path):
    for age, revision in ((100, "zzzz"), (50, "aaaa")):
        snapshot = write_hub_model(tmp_path, "org/tiny", revision=revision)
        write_config(snapshot, num_hidden_layers=age)
        os.utime(snapshot, (10**9 - age, 10**9 - age))
    (tmp_path / "models--org--tiny" / "refs" / "main").unlink()
    assert find_model("org/tiny", hub_dirs=[tmp_path]).n_layers == 50


def test_a_name_that_two_organisations_have_is_not_guessed(tmp_path):
    for org in ("one", "two"):
        write_config(write_hub_model(tmp_path, f"{org}/tiny"))
    assert "one/tiny, two/tiny are in the local cache" in refused("tiny", hub_dirs=[tmp_path])


def test_a_download_that_never_finished_says_so(tmp_path):
    write_hub_model(tmp_path, "org/tiny")
    assert "Of org/tiny the local cache holds neither config.json nor weights" in refused("tiny", hub_dirs=[tmp_path])


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({"HF_HOME": ""}, "/home/me/.cache/huggingface/hub"),
        ({}, "/home/me/.cache/huggingface/hub"),
    ],
)
def test_where_the_cache_is(environ, folder):
    assert hub_dirs(environ, Path("/home/me")) == (Path(folder),)


# --- nothing found


def test_a_misspelled_name_is_told_its_neighbours():
    name = known_names()[0]
    wrong = name.partition("/")[2].lower()[:-1] + "x"
    message = refused(wrong)
    assert f"No model {wrong!r} is known or found here. Near it:" in message
    assert name in message
    assert "Give a GGUF file" in message


def test_a_name_from_the_cache_is_a_neighbour_too(tmp_path):
    write_config(write_hub_model(tmp_path, "org/unheard-of-model"))
    assert "org/unheard-of-model" in refused("unheard-of-modl", hub_dirs=[tmp_path])


@pytest.mark.parametrize("text", ["./model", "/no/such/model.gguf", "model.gguf", "a/b/c", "~/model", "config.json/x"])
def test_a_path_that_is_not_there_is_not_taken_for_a_name(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path)
    assert f"There is no file or folder {text}" in refused(text)


@pytest.mark.parametrize("text", ["", "  ", "no-such-model", "a\0b", "x" * 200, "::", "org/", "/"])
def test_anything_else_is_one_clear_error(text):
    assert refused(text)


def test_a_link_to_nothing_is_named(tmp_path):
    link = tmp_path / "qwen"
    link.symlink_to("gone")
    with pytest.raises(UnreadableModel, match="is a link to a file that is not there"):
        find_model(str(link))
