"""safetensors headers and indexes: what is read, and what is refused."""

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widelane.errors import UnreadableModel
from widelane.facts.files.safetensors_header import read_index, read_safetensors
from widelane.facts.files.tensor_types import TensorInfo
from widelane.testing.model_files import tensor, write_safetensors


def file_of(text: bytes | str, folder: Path, *, data_bytes: int = 0, name: str = "model.safetensors") -> Path:
    header = text.encode() if isinstance(text, str) else text
    path = folder / name
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(data_bytes))
    return path


def index_of(folder: Path, weight_map: dict[str, str], **metadata: object) -> Path:
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": metadata, "weight_map": weight_map}))
    return path


def refused(path: Path) -> str:
    with pytest.raises(UnreadableModel) as caught:
        read_safetensors(path)
    return str(caught.value)


# --- what is read


def test_a_file_made_by_hand(tmp_path):
    """The example of the format's own description: a matrix of 2 × 3 in F16, and a vector of bytes."""
    text = '{"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[5],"data_offsets":[12,17]},'
    text += '"a":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]}}  '
    assert read_safetensors(file_of(text, tmp_path, data_bytes=17)) == (
        TensorInfo("a", (2, 3), "F16", 12),
        TensorInfo("b", (5,), "U8", 5),
    )


@pytest.mark.parametrize(
    ("kind", "shape", "size"),
    [
        ("F64", (3,), 24),
        ("F32", (3,), 12),
        ("BF16", (3, 3), 18),
        ("F8_E4M3", (10,), 10),
        ("F8_E8M0", (4,), 4),
        ("F4", (6,), 3),
        ("F6_E2M3", (4,), 3),
        ("I64", (), 8),
        ("BOOL", (0, 7), 0),
    ],
)
def test_bytes_of_a_tensor_by_its_type(tmp_path, kind, shape, size):
    path = write_safetensors(tmp_path / "model.safetensors", [tensor("w", shape, kind)])
    assert read_safetensors(path) == (TensorInfo("w", shape, kind, size),)


def test_a_type_that_is_not_known_takes_what_the_file_gives_it(tmp_path):
    text = '{"w":{"dtype":"F2_NEW","shape":[64],"data_offsets":[0,16]}}'
    assert read_safetensors(file_of(text, tmp_path, data_bytes=16)) == (TensorInfo("w", (64,), "F2_NEW", 16),)


def test_an_index_stands_for_all_its_shards(tmp_path):
    first = [tensor("embed", (10, 4), "BF16"), tensor("norm", (4,), "F32")]
    second = [tensor("head", (10, 4), "BF16")]
    write_safetensors(tmp_path / "model-00001-of-00002.safetensors", first, metadata={"format": "pt"})
    write_safetensors(tmp_path / "model-00002-of-00002.safetensors", second)
    (tmp_path / "unnamed.safetensors").write_bytes(b"not read")
    names = {each.name: "model-00001-of-00002.safetensors" for each in first}
    names["head"] = "model-00002-of-00002.safetensors"
    index = index_of(tmp_path, names, total_size=176)
    assert read_safetensors(index) == (*first, *second)


@pytest.mark.parametrize(("stated", "total"), [(176, 176), (176.0, 176), ("176", 176), ("many", None), (0, None)])
def test_the_size_that_an_index_states(tmp_path, stated, total):
    index = read_index(index_of(tmp_path, {"a": "x.safetensors", "b": "x.safetensors"}, total_size=stated))
    assert index.files == (tmp_path / "x.safetensors",)
    assert index.total_bytes == total


def test_an_index_without_metadata(tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text('{"weight_map": {"a": "x.safetensors"}}')
    assert read_index(path).total_bytes is None


# --- what is refused

ONE = '{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'


@pytest.mark.parametrize(
    ("text", "data_bytes", "words"),
    [
        (ONE, 15, "cut off: its tensor 'w' ends 16 bytes into the weights, of which 15"),
        (ONE, 17, "its tensors take 16 bytes, and 17 follow the header"),
        (ONE.replace("[4]", "[5]"), 16, "shape (5,) takes 20 bytes, the header gives it 16"),
        (ONE.replace("[4]", "[4611686018427387904,4611686018427387904]"), 16, "takes 85,070,591,730,234,615,865,"),
        (ONE.replace("[4]", "[-4]"), 16, "not of the safetensors form"),
        (ONE.replace("[4]", "[" + "1," * 40 + "4]"), 16, "not of the safetensors form"),
        (ONE.replace("[0,16]", "[16,0]"), 16, "'w' lies at 16 to 0"),
        (ONE.replace("[0,16]", "[8,24]"), 24, "'w' lies at 8 to 24, and the one before ends at 0"),
        (ONE.replace("[0,16]", "[0,9e99]"), 16, "not of the safetensors form"),
        (ONE.replace(',"shape":[4]', ""), 16, "'w' lacks its type, shape or place"),
        (ONE.replace('"F32"', "7"), 16, "not of the safetensors form"),
        (ONE[:-1] + ',"v":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}}', 24, "'v' lies at 8 to 24"),
        (ONE[:-1] + ',"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 16, "its tensors take 4 bytes, and 16"),
        ("[]", 0, "not of the safetensors form"),
        ('{"w"', 0, "not of the safetensors form"),
        ('{"w":' * 50_000, 0, "is damaged"),
        ('{"w":{"x":' + "[" * 100_000, 0, "not of the safetensors form"),
        (b'{"\xff":{}}', 0, "not of the safetensors form"),
    ],
)
def test_a_header_that_cannot_be_right_is_refused(tmp_path, text, data_bytes, words):
    assert words in refused(file_of(text, tmp_path, data_bytes=data_bytes))


@pytest.mark.parametrize("length", [0, 2**30, 2**63])
def test_a_header_longer_than_the_file_is_refused(tmp_path, length):
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + (b"" if length == 0 else b"{}"))
    assert "safetensors" in refused(path)


def test_a_file_cut_anywhere_is_refused(tmp_path):
    whole = file_of(ONE, tmp_path, data_bytes=16).read_bytes()
    path = tmp_path / "cut.safetensors"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert str(path) in refused(path)


@pytest.mark.parametrize(
    "name", ["../secret.safetensors", "/etc/x.safetensors", "a/b.safetensors", "..", "x.bin", "", "a\0.safetensors"]
)
def test_an_index_never_leads_out_of_its_folder(tmp_path, name):
    folder = tmp_path / "model"
    folder.mkdir()
    file_of(ONE, tmp_path, data_bytes=16, name="secret.safetensors")
    assert "no safetensors file in its own folder" in refused(index_of(folder, {"w": name}))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"weight_map": []}', '{"weight_map": {}}', '{"weight_map": {"a": 1}}', '{"a":' * 100_000]
)
def test_an_index_of_another_form_is_refused(tmp_path, text):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(text)
    assert str(path) in refused(path)


def test_a_missing_shard_is_named(tmp_path):
    message = refused(index_of(tmp_path, {"a": "model-00001-of-00001.safetensors"}))
    assert f"There is no file {tmp_path}/model-00001-of-00001.safetensors" in message


def test_two_shards_with_the_same_tensor_are_no_model(tmp_path):
    for name in ("one", "two"):
        write_safetensors(tmp_path / f"{name}.safetensors", [tensor("w", (4,), "F32")])
    message = refused(index_of(tmp_path, {"w": "one.safetensors", "v": "two.safetensors"}))
    assert "holds the tensor 'w' twice" in message


@settings(max_examples=200, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=6)), min_size=1, max_size=4))
def test_a_damaged_header_is_read_or_refused_and_nothing_else(tmp_path_factory, changes):
    folder = tmp_path_factory.mktemp("damaged")
    tensors = [tensor(f"model.layers.{layer}.mlp.weight", (8, 8), "BF16") for layer in range(4)]
    path = write_safetensors(folder / "model.safetensors", tensors, metadata={"format": "pt"})
    whole = bytearray(path.read_bytes())
    for place, data in changes:
        whole[place : place + len(data)] = data
    path.write_bytes(whole)
    try:
        found = read_safetensors(path)
    except UnreadableModel as error:
        assert str(path) in str(error)
    else:
        assert sum(each.bytes for each in found) <= len(whole)
