"""GGUF models in several files: any of them stands for all, and what does not belong together is refused."""

from pathlib import Path

import pytest

from widelane.errors import UnreadableModel
from widelane.facts.files.gguf_header import gguf_to_load, read_gguf_header
from widelane.testing.model_files import Typed, tensor, write_gguf


def write_split(folder: Path, count: int = 3, **changes: dict[int, int]) -> list[Path]:
    """A model in `count` files with two tensors each; the changes replace what single files say, by their number."""
    files = []
    for number in range(count):
        said = {"no": number, "of": count, "tensors": 2 * count}
        said |= {key: by_number[number] for key, by_number in changes.items() if number in by_number}
        metadata = {
            "split.no": Typed(2, said["no"]),
            "split.count": Typed(2, said["of"]),
            "split.tensors.count": Typed(5, said["tensors"]),
        }
        if number == 0:
            metadata["general.architecture"] = "llama"
        path = folder / f"model-{number + 1:05}-of-{count:05}.gguf"
        tensors = [tensor(f"blk.{number}.{name}", (64,), "F32") for name in ("a", "b")]
        files.append(write_gguf(path, metadata, tensors))
    return files


@pytest.mark.parametrize("named", [0, 1, 2])
def test_any_file_of_a_split_model_stands_for_all(tmp_path, named):
    files = write_split(tmp_path)
    header = read_gguf_header(files[named])
    assert header.path == files[named]
    assert header.files == tuple(files)
    assert header.metadata["general.architecture"] == "llama"
    names = [each.name for each in header.tensors]
    assert names == ["blk.0.a", "blk.0.b", "blk.1.a", "blk.1.b", "blk.2.a", "blk.2.b"]


def split_refused(path: Path) -> str:
    with pytest.raises(UnreadableModel) as caught:
        read_gguf_header(path)
    return str(caught.value)


def test_a_missing_file_of_a_split_model_is_named(tmp_path):
    files = write_split(tmp_path)
    files[1].unlink()
    assert "model-00002-of-00003.gguf is not beside it" in split_refused(files[0])


def test_a_file_that_stands_in_for_another_is_noticed(tmp_path):
    """A split whose second file is the first again, as a link."""
    files = write_split(tmp_path)
    files[1].unlink()
    files[1].symlink_to(files[0].name)
    message = split_refused(files[0])
    assert "model-00002-of-00003.gguf does not belong here" in message
    assert "split.no 0" in message


def test_links_in_a_circle_are_no_files(tmp_path):
    files = write_split(tmp_path)
    files[1].unlink()
    files[2].unlink()
    files[1].symlink_to(files[2].name)
    files[2].symlink_to(files[1].name)
    assert "model-00002-of-00003.gguf and 1 more are not beside it" in split_refused(files[0])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"no": {2: 1}}, "split.no 1"),
        ({"of": {1: 2}}, "split.count 2"),
        ({"tensors": {0: 7}}, "the first file says 7"),
    ],
)
def test_files_that_contradict_each_other_are_no_model(tmp_path, changes, words):
    assert words in split_refused(write_split(tmp_path, **changes)[0])


def test_files_with_the_same_tensor_are_no_model(tmp_path):
    files = write_split(tmp_path, 2)
    metadata = {"split.no": Typed(2, 1), "split.count": Typed(2, 2)}
    write_gguf(files[1], metadata, [tensor("blk.0.a", (64,), "F32"), tensor("c", (64,), "F32")])
    assert "(3 different ones)" in split_refused(files[0])


def test_a_renamed_file_of_a_split_model_says_what_is_wrong(tmp_path):
    renamed = write_split(tmp_path)[0].rename(tmp_path / "mine.gguf")
    message = split_refused(renamed)
    assert "one of 3 files" in message
    assert "-00001-of-00003.gguf" in message


def test_an_engine_loads_the_first_file(tmp_path):
    files = write_split(tmp_path)
    assert [gguf_to_load(file) for file in files] == [files[0]] * 3
    files[0].unlink()
    assert gguf_to_load(files[2]) == files[2]


def test_what_is_no_gguf_file_is_not_loaded(tmp_path):
    other = tmp_path / "m.gguf"
    other.write_bytes(b"GGU")
    assert gguf_to_load(other) is None and gguf_to_load(tmp_path) is None and gguf_to_load(tmp_path / "none") is None
