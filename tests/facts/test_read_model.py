"""What a path stands for: a file, an index, a config, or a folder that holds one of these."""

import json
import os
import shutil
import struct
from pathlib import Path

import pytest

from tests.facts.model_folders import (
    CONFIG,
    MATRICES,
    NORMS,
    TEMPLATE,
    write_checkpoint,
    write_config,
    write_hub_model,
    write_tiny_gguf,
)
from widelane.errors import UnreadableModel
from widelane.facts.read_model import read_model
from widelane.figures import Origin
from widelane.testing.model_files import write_gguf, write_sparse

BF16_BYTES = 2 * (MATRICES + NORMS)
Q8_0_BYTES = MATRICES // 32 * 34 + NORMS * 4
"""Of the tiny GGUF: 34 bytes for 32 elements, norms in F32."""


def refused(path: Path, **options: object) -> str:
    with pytest.raises(UnreadableModel) as caught:
        read_model(path, **options)
    return str(caught.value)


# --- what is read


@pytest.mark.parametrize(
    ("shards", "named"),
    [
        (1, "."),
        (1, "model.safetensors"),
        (3, "."),
        (3, "model.safetensors.index.json"),
        (3, "model-00001-of-00003.safetensors"),
        (3, "model-00003-of-00003.safetensors"),
    ],
)
def test_a_checkpoint_by_its_folder_its_index_or_any_shard(tmp_path, shards, named):
    folder = write_checkpoint(tmp_path / "Tiny-1", shards=shards)
    facts = read_model(folder / named)
    assert facts.name == "Tiny-1"
    assert facts.architecture == "llama"
    assert facts.parameters.total == MATRICES
    assert facts.weights.total_bytes == BF16_BYTES
    assert facts.weights.by_type == {"BF16": BF16_BYTES}
    assert facts.weights.origin is Origin.READ
    assert facts.n_layers == 2
    assert facts.assumed == ()


def test_shards_without_an_index_are_found_by_their_names(tmp_path):
    folder = write_checkpoint(tmp_path / "Tiny", shards=3)
    (folder / "model.safetensors.index.json").unlink()
    for path in (folder, folder / "model-00002-of-00003.safetensors"):
        assert read_model(path).weights.total_bytes == BF16_BYTES
    (folder / "model-00003-of-00003.safetensors").unlink()
    message = refused(folder / "model-00002-of-00003.safetensors")
    assert "model-00003-of-00003.safetensors is not beside it" in message


def test_a_config_alone_gives_the_same_model_with_inferred_bytes(tmp_path):
    facts = read_model(write_config(tmp_path / "Tiny-2"))
    assert facts.name == "Tiny-2"
    assert facts.parameters.total == MATRICES
    assert facts.weights.total_bytes == 2 * MATRICES
    assert facts.weights.origin is Origin.INFERRED
    assert read_model(tmp_path / "Tiny-2").weights.origin is Origin.INFERRED


def test_a_config_of_another_name_is_called_after_its_file(tmp_path):
    path = write_config(tmp_path).rename(tmp_path / "my-model.json")
    (tmp_path / "chat_template.jinja").write_text("somebody else's")
    facts = read_model(path)
    assert (facts.name, facts.chat_template) == ("my-model", None)


def test_a_gguf_by_its_file_or_its_folder(tmp_path):
    path = write_tiny_gguf(tmp_path / "tiny" / "tiny-Q8_0.gguf")
    for named in (path, path.parent):
        facts = read_model(named)
        assert facts.architecture == "llama"
        assert facts.parameters.total == MATRICES
        assert facts.weights.total_bytes == Q8_0_BYTES
        assert facts.chat_template == TEMPLATE


def test_words_of_a_file_can_only_be_read(tmp_path):
    """They go into commands, units and documents, and to terminals."""
    name = {"general.name": "--evil\nExecStartPre=/bin/evil\x1b[31m"}
    facts = read_model(write_tiny_gguf(tmp_path / os.fsdecode(b"m\xff.gguf"), **name))
    assert facts.name == "evil ExecStartPre=/bin/evil\ufffd[31m"
    assert facts.source.endswith("m\ufffd.gguf")
    odd = read_model(write_config(tmp_path / "odd", model_type="x\x1b[31m"))
    assert odd.architecture == "x\ufffd[31m" and not any("\x1b" in note for note in odd.assumed)


def test_a_gguf_is_known_by_its_first_bytes_whatever_it_is_called(tmp_path):
    """Ollama keeps them as `sha256-…`."""
    path = write_tiny_gguf(tmp_path / "sha256-0123")
    assert read_model(path).weights.total_bytes == Q8_0_BYTES


def test_weights_are_read_beside_a_config_and_not_from_it(tmp_path):
    """A config may say bf16 where the files hold something else."""
    folder = write_checkpoint(tmp_path / "Tiny")
    write_config(folder, torch_dtype="float32")
    assert read_model(folder).weights.total_bytes == BF16_BYTES


def test_what_is_stated_of_the_weights_reaches_a_bare_config(tmp_path):
    path = write_config(tmp_path)
    assert read_model(path, quant="fp8", weights_bytes=150_000.0).weights.total_bytes == 150_000
    assert read_model(path, quant="fp8").weights.quant == "fp8"


def test_all_configs_of_the_data_are_models(data_dir):
    paths = sorted((data_dir / "models").glob("*.json"))
    assert paths, "the data folder holds no model configs"
    for path in paths:
        facts = read_model(path)
        assert facts.name == path.stem
        assert facts.parameters.total > 0, path.stem


# --- folders with several models


def quants(folder: Path) -> Path:
    for kind in ("Q8_0", "Q4_0", "BF16"):
        write_tiny_gguf(folder / f"Tiny-{kind}.gguf", kind)
    write_gguf(folder / "mmproj-F16.gguf", {"general.architecture": "clip"})
    write_gguf(folder / "imatrix_unsloth.gguf", {"general.type": "imatrix"})
    return folder


@pytest.mark.parametrize(
    ("quant", "size"),
    [
        ("q8_0", Q8_0_BYTES),
        ("Q4_0", MATRICES // 32 * 18 + NORMS * 4),
        ("bf16", MATRICES * 2 + NORMS * 4),
        ("BF16", MATRICES * 2 + NORMS * 4),
    ],
)
def test_of_several_gguf_files_the_quantisation_says_which(tmp_path, quant, size):
    assert read_model(quants(tmp_path), quant=quant).weights.total_bytes == size


@pytest.mark.parametrize("quant", [None, "q5_k_m"])
def test_of_several_gguf_files_none_is_guessed(tmp_path, quant):
    message = refused(quants(tmp_path), quant=quant)
    assert "holds 3 GGUF models: Tiny-BF16.gguf, Tiny-Q4_0.gguf, Tiny-Q8_0.gguf" in message


def test_a_quantisation_is_a_word_of_the_name(tmp_path):
    """`q4_k` names neither of Q4_K_M and Q4_K_S before the other."""
    for name in ("Tiny-Q4_K_M.gguf", "Tiny-Q4_K_S.gguf", "Tiny-IQ4_K.gguf"):
        write_tiny_gguf(tmp_path / name)
    assert "holds 2 GGUF models of q4_k" in refused(tmp_path, quant="q4_k")
    assert read_model(tmp_path, quant="q4_k_s").source.endswith("Tiny-Q4_K_S.gguf")
    assert read_model(tmp_path, quant="iq4_k").source.endswith("Tiny-IQ4_K.gguf")


def test_quantisations_in_folders_of_their_own(tmp_path):
    write_tiny_gguf(tmp_path / "Q8_0" / "Tiny-Q8_0.gguf")
    write_tiny_gguf(tmp_path / "BF16" / "Tiny-BF16.gguf", "BF16")
    write_config(tmp_path)
    assert read_model(tmp_path, quant="bf16").weights.total_bytes == MATRICES * 2 + NORMS * 4


def test_a_split_gguf_is_one_model(tmp_path):
    for number in (1, 2):
        write_tiny_gguf(tmp_path / f"Tiny-{number:05}-of-00002.gguf", **{"split.count": 2, "split.no": number - 1})
    assert "Tiny-00001-of-00002.gguf" in refused(tmp_path)  # both hold all tensors: read as one, and refused as such


def test_checkpoints_come_before_the_gguf_beside_them(tmp_path):
    folder = write_checkpoint(tmp_path / "Tiny")
    write_tiny_gguf(folder / "tiny-q8_0.gguf")
    assert read_model(folder).weights.by_type == {"BF16": BF16_BYTES}


def test_what_is_no_part_of_the_checkpoint_is_left_out(tmp_path):
    folder = write_checkpoint(tmp_path / "Tiny")
    shutil.copy(folder / "model.safetensors", folder / "consolidated.safetensors")
    (folder / "adapter_model.safetensors").write_bytes(b"a LoRA")
    assert read_model(folder).weights.total_bytes == BF16_BYTES


# --- not all is there


def test_shards_that_are_not_fetched_yet_are_taken_from_the_index(tmp_path):
    folder = write_checkpoint(tmp_path / "Tiny", shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    facts = read_model(folder)
    assert facts.weights.total_bytes == BF16_BYTES
    assert any("1 of the 3 weight files" in note for note in facts.assumed)


def test_missing_shards_of_an_index_without_a_size_are_an_error(tmp_path):
    folder = write_checkpoint(tmp_path / "Tiny", shards=2)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": json.loads(index.read_text())["weight_map"]}))
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert "names 2 files, of which 1 are not beside it" in refused(folder)


def test_weights_without_a_config_say_what_is_missing(tmp_path):
    folder = write_checkpoint(tmp_path / "Tiny", shards=2)
    (folder / "config.json").unlink()
    for path in (folder, folder / "model.safetensors.index.json", folder / "model-00001-of-00002.safetensors"):
        assert "config.json" in refused(path)


# --- the chat template


@pytest.mark.parametrize(
    ("files", "template"),
    [
        ({"chat_template.jinja": "A", "tokenizer_config.json": '{"chat_template": "B"}'}, "A"),
        ({"chat_template.json": '{"chat_template": "C"}', "tokenizer_config.json": '{"chat_template": "B"}'}, "C"),
        ({"tokenizer_config.json": '{"chat_template": "B", "model_max_length": 1000000000000000019884624838656}'}, "B"),
        (
            {
                "tokenizer_config.json": '{"chat_template": [{"name": "tool_use", "template": "T"},'
                '{"name": "default", "template": "D"}]}'
            },
            "D",
        ),
        ({"tokenizer_config.json": '{"chat_template": [{"name": "rag", "template": "R"}]}'}, "R"),
        ({"tokenizer_config.json": '{"eos_token": "x"}'}, None),
        ({"tokenizer_config.json": '{"chat_template": null}'}, None),
        ({}, None),
    ],
)
def test_the_chat_template_that_transformers_takes(tmp_path, files, template):
    write_config(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    facts = read_model(tmp_path)
    assert facts.chat_template == template
    assert facts.assumed == ()


def test_an_unreadable_template_is_no_silent_guess(tmp_path):
    write_config(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": ')
    facts = read_model(tmp_path)
    assert facts.chat_template is None
    assert "No chat template was taken" in facts.assumed[0]


# --- names


def test_a_snapshot_is_called_as_on_the_hub(tmp_path):
    snapshot = write_hub_model(tmp_path, "some-org/Tiny-3")
    write_config(snapshot)
    assert read_model(snapshot).name == "some-org/Tiny-3"
    assert read_model(snapshot / "config.json").name == "some-org/Tiny-3"


def test_files_of_a_cache_are_links_and_that_is_right(tmp_path):
    blobs = write_checkpoint(tmp_path / "blobs", shards=2)
    folder = tmp_path / "snapshot"
    folder.mkdir()
    for path in blobs.iterdir():
        (folder / path.name).symlink_to(path)
    assert read_model(folder).weights.total_bytes == BF16_BYTES


def test_the_folder_one_stands_in_has_its_name(tmp_path, monkeypatch):
    write_config(tmp_path / "Tiny-4")
    monkeypatch.chdir(tmp_path / "Tiny-4")
    assert read_model(Path()).name == "Tiny-4"
    assert read_model(Path("config.json")).name == "Tiny-4"


# --- what is refused


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is empty"),
        (b"PK\x03\x04", "begins with b'PK\\x03\\x04'"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\n", "Git LFS pointer"),
        (b"<!doctype html>", "a folder is needed"),
        (b"[1, 2]", "is no model file"),
        (b"{", "is not JSON"),
        (b'{"model_type": "llama"}', "num_hidden_layers"),
        (b"{" + b'"a":{' * 100_000, "is not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b'{"a": "\xff"}', "is not JSON"),
        (struct.pack("<Q", 2**31) + b"{}", "no whole safetensors file"),
    ],
)
def test_a_file_that_is_no_model_is_refused(tmp_path, data, words):
    path = tmp_path / "model"
    path.write_bytes(data)
    write_config(tmp_path)
    assert words in refused(path)


def test_a_config_of_gigabytes_is_not_read(tmp_path):
    path = write_sparse(tmp_path / "config.json", json.dumps(CONFIG).encode(), data_bytes=10**10)
    assert "has 10,000,000," in refused(path)


def test_what_is_not_there_or_no_file_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to("nothing")
    assert "There is no file" in refused(tmp_path / "missing.gguf")
    assert "There is no file" in refused(tmp_path / "gone")
    assert "holds no model" in refused(tmp_path / "empty")
    assert "is a pipe" in refused(tmp_path / "pipe")
    assert "cannot be read" in refused(tmp_path / "loop")
    assert "cannot be read" in refused(Path("a\0b"))
    assert "is a device" in refused(Path("/dev/zero"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_says_so(tmp_path):
    path = write_tiny_gguf(tmp_path / "secret.gguf")
    path.chmod(0)
    assert "Permission denied" in refused(path)


def test_a_pipe_in_place_of_a_part_does_not_block(tmp_path):
    folder = write_checkpoint(tmp_path / "Tiny")
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        assert "is a pipe" in refused(folder)
        (folder / name).unlink()
        write_config(folder)
