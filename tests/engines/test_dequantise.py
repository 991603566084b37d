"""Quantised GGUF to float32: every key kept, every weight right, whole or not at all."""

import struct
import threading
from pathlib import Path
from typing import Any

import pytest

gguf = pytest.importorskip("gguf", reason="gguf is not installed here (it comes with the extra `embedded`)")
np = pytest.importorskip("numpy", reason="numpy is not installed here (it comes with the extra `embedded`)")

from widelane.engines import cache_files  # noqa: E402 - needs the packages above
from widelane.engines import dequantise as module  # noqa: E402
from widelane.engines.cache_files import Stopped  # noqa: E402
from widelane.engines.dequantise import dequantise  # noqa: E402
from widelane.errors import UsageError  # noqa: E402

Types = gguf.GGMLQuantizationType

# Blocks by hand, after ggml-quants.h. Q8_0: scale d (f16), 32 signed bytes; a weight is d * q.
Q8_0_BLOCK = struct.pack("<e32b", 0.5, *range(-16, 16))
Q8_0_WEIGHTS = [q / 2 for q in range(-16, 16)]
# Q4_1: scale d, minimum m (f16), 16 bytes; the low halves are weights 0-15, the high ones 16-31; a weight is d * q + m.
Q4_1_BLOCK = struct.pack("<2e16B", 2.0, -3.0, *[low | (15 - low) << 4 for low in range(16)])
Q4_1_WEIGHTS = [2.0 * q - 3.0 for q in [*range(16), *reversed(range(16))]]


def write_model(path: Path, *, split: int | None = None, alignment: int | None = None) -> Path:
    """A small model with every kind of key and four kinds of tensor."""
    writer = gguf.GGUFWriter(path, "llama")
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    writer.add_name("tiny – naïve")
    writer.add_file_type(3)
    writer.add_uint32("general.quantization_version", 2)
    writer.add_bool("tokenizer.ggml.add_bos_token", False)
    writer.add_float32("llama.rope.freq_base", 100000.0)
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "Ġthe", "é", ""])
    writer.add_array("tokenizer.ggml.token_type", [3, 1, 1, 1])
    writer.add_string("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}")
    if split is not None:
        writer.add_uint16("split.count", split)
    blocks = np.frombuffer(Q8_0_BLOCK * 6, dtype=np.uint8).reshape(3, -1)
    writer.add_tensor("q8", blocks, raw_dtype=Types.Q8_0)  # 3 rows of 64 weights
    writer.add_tensor("q4", np.frombuffer(Q4_1_BLOCK, dtype=np.uint8).reshape(1, -1), raw_dtype=Types.Q4_1)
    writer.add_tensor("half", np.array([0.5, -2.0, 65504.0], dtype=np.float16))
    writer.add_tensor("full", np.array([1.1, -2.2], dtype=np.float32))
    writer.add_tensor("index", np.array([7, 8, 9], dtype=np.int32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def keys(path: Path) -> dict[str, Any]:
    fields = gguf.GGUFReader(path).fields
    return {name: (field.types, field.contents()) for name, field in fields.items()}


@pytest.fixture(params=[None, 64], ids=["default alignment", "alignment 64"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_model(tmp_path / "small.gguf", alignment=request.param)


def test_every_key_is_kept_but_the_file_type(model: Path, tmp_path: Path) -> None:
    dequantise(model, tmp_path / "big.gguf")

    before, after = keys(model), keys(tmp_path / "big.gguf")
    assert after.pop("general.file_type")[1] == 0  # LLAMA_FTYPE_ALL_F32
    assert before.pop("general.file_type")[1] == 3
    assert after == before
    assert after["tokenizer.ggml.tokens"][1] == ["<s>", "Ġthe", "é", ""]
    assert list(after) == list(before)


def test_weights_become_float32_and_other_numbers_stay(model: Path, tmp_path: Path) -> None:
    dequantise(model, tmp_path / "big.gguf")

    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(tmp_path / "big.gguf").tensors}
    assert {name: tensor.tensor_type.name for name, tensor in tensors.items()} == {
        "q8": "F32",
        "q4": "F32",
        "half": "F32",
        "full": "F32",
        "index": "I32",
    }
    assert tensors["q8"].data.tolist() == [Q8_0_WEIGHTS * 2] * 3
    assert tensors["q4"].data.tolist() == [Q4_1_WEIGHTS]
    assert tensors["half"].data.tolist() == [0.5, -2.0, 65504.0]
    assert tensors["full"].data.tolist() == [np.float32(1.1), np.float32(-2.2)]
    assert tensors["index"].data.tolist() == [7, 8, 9]
    assert [int(size) for size in tensors["q8"].shape] == [64, 3]


def test_large_tensors_are_written_in_pieces(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of `q8` is 64 weights, 256 bytes: with pieces of 256 bytes its three rows are written one by one."""
    dequantise(model, tmp_path / "whole.gguf")
    monkeypatch.setattr(module, "PIECE_BYTES", 256)
    said: list[tuple[int, int]] = []

    dequantise(model, tmp_path / "pieces.gguf", progress=lambda done, total: said.append((done, total)))

    size = (tmp_path / "pieces.gguf").stat().st_size
    assert (tmp_path / "pieces.gguf").read_bytes() == (tmp_path / "whole.gguf").read_bytes()
    assert len(said) == 3 + 4 + 1  # the rows of q8, the other tensors, the end
    assert said == sorted(said)
    assert said[-1] == (size, size)


def test_being_stopped_leaves_nothing(model: Path, tmp_path: Path) -> None:
    stop = threading.Event()

    with pytest.raises(Stopped):
        dequantise(model, tmp_path / "big.gguf", progress=lambda *_: stop.set(), stop=stop)

    assert [path.name for path in tmp_path.iterdir()] == ["small.gguf"]


def test_one_part_of_a_split_model_is_refused(tmp_path: Path) -> None:
    part = write_model(tmp_path / "part.gguf", split=2)

    with pytest.raises(UsageError, match="one part of a split model"):
        dequantise(part, tmp_path / "big.gguf")


@pytest.mark.parametrize("kept_bytes", [10, 100, 400])
def test_a_file_cut_short_is_refused(tmp_path: Path, kept_bytes: int) -> None:
    whole = write_model(tmp_path / "small.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[:kept_bytes])

    with pytest.raises(UsageError, match="not a whole GGUF model"):
        dequantise(tmp_path / "cut.gguf", tmp_path / "big.gguf")

    assert not (tmp_path / "big.gguf").exists()


def test_a_type_that_the_package_cannot_read_is_refused_before_anything_is_written(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(gguf.quants, "dequantize", unknown)

    with pytest.raises(UsageError, match="weights of type Q8_0, which the `gguf` package cannot read"):
        dequantise(model, tmp_path / "big.gguf")

    assert not (tmp_path / "big.gguf").exists()


def test_too_little_room_is_noticed_first(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_files.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10})())

    with pytest.raises(UsageError, match="The model in float32 needs"):
        dequantise(model, tmp_path / "big.gguf")
