"""GGUF headers: what is read, what is skipped, and what is refused."""

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widelane.errors import UnreadableModel
from widelane.facts.files import byte_window
from widelane.facts.files.gguf_header import ArrayInfo, read_gguf_header
from widelane.facts.files.tensor_types import GGML_TYPES, TensorInfo
from widelane.testing.model_files import Typed, gguf_header, gguf_text, tensor, write_gguf

U32 = struct.Struct("<I").pack
U64 = struct.Struct("<Q").pack

# A whole file by hand: one key, one tensor of 2 rows of 32 elements in Q8_0 (32 elements in 34 bytes).
BY_HAND = (
    b"GGUF" + U32(3) + U64(1) + U64(1)
    + U64(20) + b"general.architecture" + U32(8) + U64(5) + b"llama"
    + U64(13) + b"output.weight" + U32(2) + U64(32) + U64(2) + U32(8) + U64(0)
)  # fmt: skip
DATA_START = 128  # BY_HAND has 122 bytes; the data begin at the next multiple of 32
BY_HAND_FILE = BY_HAND.ljust(DATA_START, b"\0") + bytes(68)


def read(data: bytes, folder: Path, name: str = "model.gguf"):
    path = folder / name
    path.write_bytes(data)
    return read_gguf_header(path)


def refused(data: bytes, folder: Path) -> str:
    with pytest.raises(UnreadableModel) as caught:
        read(data, folder)
    return str(caught.value)


def table(*tensors: tuple[bytes, tuple[int, ...], int, int]) -> bytes:
    lines = [
        gguf_text(name) + U32(len(shape)) + b"".join(map(U64, shape)) + U32(kind) + U64(offset)
        for name, shape, kind, offset in tensors
    ]
    header = b"GGUF" + U32(3) + U64(len(tensors)) + U64(0) + b"".join(lines)
    return header.ljust(-(-len(header) // 32) * 32, b"\0")


# --- what is read


def test_a_file_made_by_hand(tmp_path):
    header = read(BY_HAND_FILE, tmp_path)
    assert header.version == 3
    assert header.metadata == {"general.architecture": "llama"}
    assert header.tensors == (TensorInfo("output.weight", (2, 32), "Q8_0", 68),)
    assert header.files == (tmp_path / "model.gguf",)


def test_version_2_has_the_same_form(tmp_path):
    header = read(BY_HAND_FILE.replace(U32(3), U32(2), 1), tmp_path)
    assert (header.version, header.tensors[0].bytes) == (2, 68)


def test_every_scalar_type_comes_back_as_it_was_written(tmp_path):
    values = {0: 255, 1: -128, 2: 65_535, 3: -32_768, 4: 2**32 - 1, 5: -(2**31), 6: 0.5, 7: True, 10: 2**64 - 1, 11: -1}
    values[12] = 0.1
    header = read(gguf_header({f"key.{kind}": Typed(kind, value) for kind, value in values.items()}, []), tmp_path)
    assert header.metadata == {f"key.{kind}": value for kind, value in values.items()}
    assert header.metadata["key.7"] is True


def test_numbers_a_layer_are_kept_and_numbers_a_word_are_not(tmp_path):
    metadata = {
        "llama.attention.head_count_kv": [8, 0, 8],
        "llama.attention.sliding_window_pattern": [True, False],
        "tokenizer.ggml.scores": [0.25] * 4097,
        "tokenizer.ggml.token_type": [1] * 4096,
        "tokenizer.ggml.tokens": ["a", "", "bc"],
        "after": 7,
    }
    assert read(gguf_header(metadata, []), tmp_path).metadata == {
        "llama.attention.head_count_kv": (8, 0, 8),
        "llama.attention.sliding_window_pattern": (True, False),
        "tokenizer.ggml.scores": ArrayInfo("float32", 4097),
        "tokenizer.ggml.token_type": (1,) * 4096,
        "tokenizer.ggml.tokens": ArrayInfo("string", 3),
        "after": 7,
    }


def test_a_text_of_more_than_a_mebibyte_is_skipped(tmp_path):
    header = read(gguf_header({"tokenizer.huggingface.json": "x" * (2**20 + 1), "after": 1}, []), tmp_path)
    assert header.metadata == {"tokenizer.huggingface.json": ArrayInfo("byte", 2**20 + 1), "after": 1}


def test_text_that_is_no_utf_8_is_kept_with_replacement_signs(tmp_path):
    data = b"GGUF" + U32(3) + U64(0) + U64(1) + gguf_text("general.name") + U32(8) + gguf_text(b"a\xffb")
    assert read(data, tmp_path).metadata == {"general.name": "a\ufffdb"}


@pytest.mark.parametrize(
    ("kind", "shape", "size"),
    [
        ("F32", (3, 5), 60),
        ("BF16", (7,), 14),
        ("Q4_0", (2, 64), 72),
        ("Q4_1", (1, 32), 20),
        ("Q5_0", (1, 32), 22),
        ("Q5_1", (1, 32), 24),
        ("Q2_K", (1, 256), 84),
        ("Q3_K", (1, 256), 110),
        ("Q4_K", (4, 512), 1152),  # 144 bytes for 256 elements: 4.5 bits each
        ("Q5_K", (1, 256), 176),
        ("Q6_K", (1, 256), 210),  # 6.5625 bits each
        ("IQ4_XS", (1, 256), 136),
        ("IQ2_XXS", (1, 256), 66),
        ("MXFP4", (2, 32, 32), 1088),  # 32 elements in 17 bytes
        ("NVFP4", (1, 64), 36),
    ],
)
def test_bytes_of_a_tensor_by_its_type(tmp_path, kind, shape, size):
    path = write_gguf(tmp_path / "model.gguf", {}, [tensor("w", shape, kind)])
    assert read_gguf_header(path).tensors == (TensorInfo("w", shape, kind, size),)


def test_a_type_of_a_newer_llama_cpp_takes_what_lies_up_to_the_next_tensor(tmp_path):
    first, second, third = (b"a", (8,), 137, 0), (b"b", (8,), 0, 96), (b"c", (8,), 999, 128)
    tensors = read(table(first, second, third) + bytes(128 + 40), tmp_path).tensors
    assert [(each.name, each.type, each.bytes) for each in tensors] == [
        ("a", "type-137", 96),
        ("b", "F32", 32),
        ("c", "type-999", 40),
    ]


def test_the_weights_begin_at_the_alignment_that_the_file_states(tmp_path):
    header = gguf_header({"general.alignment": 4096}, [tensor("w", (256,), "F32")])
    assert read(header.rstrip(b"\0").ljust(4096, b"\0") + bytes(1024), tmp_path).tensors[0].bytes == 1024
    assert "cut off" in refused(header.rstrip(b"\0").ljust(4096, b"\0") + bytes(1023), tmp_path)


# --- beside the gguf package


def test_a_file_of_the_gguf_packages_writer_is_read_as_it_was_written(tmp_path):
    gguf = pytest.importorskip("gguf", reason="the gguf package is not installed (pip install 'widelane[embedded]')")
    numpy = pytest.importorskip("numpy")
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Tiny")
    writer.add_block_count(2)
    writer.add_head_count_kv([8, 2])
    writer.add_rope_freq_base(1e6)
    writer.add_token_list(["a", "b", "ĠĠ"])
    writer.add_token_scores([0.0, -1.0, -2.0])
    writer.add_add_bos_token(True)
    writer.add_tensor("output_norm.weight", numpy.zeros(64, dtype=numpy.float32))
    writer.add_tensor("token_embd.weight", numpy.zeros((3, 64), dtype=numpy.float16))
    quantised = numpy.zeros((5, 2 * 34), dtype=numpy.uint8)
    writer.add_tensor("output.weight", quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = read_gguf_header(path)
    assert header.metadata == {
        "general.architecture": "llama",
        "general.name": "Tiny",
        "llama.block_count": 2,
        "llama.attention.head_count_kv": (8, 2),
        "llama.rope.freq_base": 1e6,
        "tokenizer.ggml.tokens": ArrayInfo("string", 3),
        "tokenizer.ggml.scores": (0.0, -1.0, -2.0),
        "tokenizer.ggml.add_bos_token": True,
    }
    assert header.tensors == (
        TensorInfo("output_norm.weight", (64,), "F32", 256),
        TensorInfo("token_embd.weight", (3, 64), "F16", 384),
        TensorInfo("output.weight", (5, 64), "Q8_0", 340),
    )


def test_the_types_and_their_sizes_are_those_of_the_gguf_package():
    """Q8_1 aside, which no file holds: ggml's block has 36 bytes, the package says 40."""
    constants = pytest.importorskip("gguf.constants", reason="the gguf package is not installed")
    for kind, (elements, size) in constants.GGML_QUANT_SIZES.items():
        if kind.name != "Q8_1":
            assert GGML_TYPES[kind.value] == (kind.name, elements, size)


# --- long arrays of strings

WORDS = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.sampled_from([b"", b"\0", b"\0" * 7, b"\0" * 9, b"x" * 255, b"x" * 256, b"\xc4\xa0" * 160, b"y" * 700]),
    ),
    max_size=80,
)


@settings(max_examples=150, deadline=None)
@given(words=WORDS, before=st.integers(0, 60), behind=st.integers(0, 60), has_tensor=st.booleans())
def test_what_follows_an_array_of_any_strings_is_found(tmp_path_factory, words, before, behind, has_tensor):
    """However the strings look, with windows so small that most of the array is leapt over."""
    strings = [*[b"word"] * before, *words, *[b"merge d"] * behind]
    array = U32(9) + U32(8) + U64(len(strings)) + b"".join(gguf_text(text) for text in strings)
    data = b"GGUF" + U32(3) + U64(has_tensor) + U64(2)
    data += gguf_text("tokens") + array + gguf_text("after") + U32(4) + U32(7)
    if has_tensor:
        data += gguf_text("w") + U32(1) + U64(1) + U32(0) + U64(0) + bytes(64)
    folder = tmp_path_factory.mktemp("strings")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_window, "WINDOW_BYTES", 200)
        patch.setattr(byte_window, "_BATCH_STRINGS", 3)
        header = read(data, folder)
    assert header.metadata == {"tokens": ArrayInfo("string", len(strings)), "after": 7}


def test_half_a_million_strings_are_leapt_over_rightly(tmp_path):
    """With the runs of blanks of real vocabularies: strings of 256 bytes and more have other lengths' bytes."""
    words = [f"w{number}" for number in range(250_000)]
    words[100:300] = ["Ġ" * count for count in range(1, 201)]
    path = write_gguf(tmp_path / "model.gguf", {"tokens": words, "merges": words, "after": 7})
    assert read_gguf_header(path).metadata == {
        "tokens": ArrayInfo("string", 250_000),
        "merges": ArrayInfo("string", 250_000),
        "after": 7,
    }


# --- what is refused


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "ends in the middle of its header"),
        (b"PK\3\4" + bytes(60), "is not a GGUF file: it begins with b'PK"),
        (b"GGUF" + U32(1) + bytes(60), "version 1, which llama.cpp no longer reads"),
        (b"GGUF" + b"\0\0\0\3" + bytes(60), "big-endian"),
        (b"GGUF" + U32(4) + bytes(60), "of version 4; versions 2 and 3 are known"),
        (b"GGUF" + U32(3) + U64(0) + U64(2**62), "claims 4,611,686,018,427,387,904 metadata keys"),
        (b"GGUF" + U32(3) + U64(2**62) + U64(0), "claims 4,611,686,018,427,387,904 tensors"),
        (b"GGUF" + U32(3) + U64(0) + U64(1) + U64(2**63) + bytes(60), "a metadata key claims"),
        (b"GGUF" + U32(3) + U64(0) + U64(1) + gguf_text("k") + U32(8) + U64(2**63) + bytes(60), "ends in the middle"),
        (b"GGUF" + U32(3) + U64(0) + U64(1) + gguf_text("k") + U32(99) + bytes(60), "value of the unknown type 99"),
        (
            b"GGUF" + U32(3) + U64(0) + U64(1) + gguf_text("k") + U32(9) + U32(9) + U64(1) + bytes(60),
            "'k' holds an array of arrays",
        ),
        (
            b"GGUF" + U32(3) + U64(0) + U64(1) + gguf_text("k") + U32(9) + U32(4) + U64(2**61) + bytes(60),
            "'k' claims 2,305,843,009,213,693,952 values, more than the file has room for",
        ),
        (
            b"GGUF" + U32(3) + U64(0) + U64(1) + gguf_text("k") + U32(9) + U32(8) + U64(2**61) + bytes(60),
            "'k' claims 2,305,843,009,213,693,952 values, more than the file has room for",
        ),
        (
            b"GGUF" + U32(3) + U64(0) + U64(2) + (gguf_text("k") + U32(4) + U32(7)) * 2,
            "the key 'k' comes twice",
        ),
        (
            b"GGUF" + U32(3) + U64(0) + U64(1) + gguf_text("general.alignment") + U32(4) + U32(48) + bytes(60),
            "general.alignment is no power of two",
        ),
        (b"GGUF" + U32(3) + U64(1) + U64(0) + gguf_text("w") + U32(5) + bytes(80), "'w' claims 5 dimensions"),
        (b"GGUF" + U32(3) + U64(1) + U64(0) + U64(10_000) + bytes(20_000), "a tensor's name claims 10,000 bytes"),
    ],
)  # fmt: skip
def test_a_header_that_cannot_be_right_is_refused(tmp_path, data, words):
    assert words in refused(data, tmp_path)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ([(b"w", (32,), 0, 64)], "cut off: its tensor 'w' ends 192 bytes into the weights, of which 128"),
        ([(b"w", (2**40, 2**40, 2**40, 2**40), 0, 0)], "cut off: its tensor 'w'"),
        ([(b"w", (32,), 0, 2**63)], "cut off: its tensor 'w'"),
        ([(b"w", (8,), 137, 2**63)], "cut off: its tensor 'w'"),
        ([(b"v", (16,), 0, 0), (b"w", (16,), 0, 32)], "its tensor 'v' overlaps the next one"),
        ([(b"w", (8,), 0, 0), (b"w", (8,), 0, 32)], "'w' is in its tensor table twice"),
        ([(b"w", (31,), 8, 0)], "'w' of shape (31,) cannot be of type Q8_0, whose rows are whole blocks"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused(tmp_path, tensors, words):
    assert words in refused(table(*tensors) + bytes(128), tmp_path)


def test_names_from_a_file_cannot_write_on_the_terminal(tmp_path):
    key = gguf_text("\x1b[2J\u202e" + "x" * 300)
    message = refused(b"GGUF" + U32(3) + U64(0) + U64(1) + key + U32(99) + bytes(60), tmp_path)
    assert "\x1b" not in message
    assert "\u202e" not in message
    assert len(message) < 400 + len(str(tmp_path))


@pytest.mark.parametrize("length", range(len(BY_HAND_FILE)))
def test_a_file_cut_anywhere_is_refused(tmp_path, length):
    message = refused(BY_HAND_FILE[:length], tmp_path)
    assert str(tmp_path) in message


@settings(max_examples=300, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=9)), min_size=1, max_size=4))
def test_a_damaged_header_is_read_or_refused_and_nothing_else(tmp_path_factory, changes):
    whole = bytearray(
        gguf_header(
            {"general.architecture": "llama", "tokens": ["a"] * 9, "kv": [1, 2, 3], "scores": [0.5] * 5},
            [tensor("token_embd.weight", (64, 256), "Q4_K"), tensor("output_norm.weight", (64,), "F32")],
        )
        + bytes(64 * 144 + 256)
    )
    for place, data in changes:
        place %= 400
        whole[place : place + len(data)] = data
    try:
        header = read(bytes(whole), tmp_path_factory.mktemp("damaged"))
    except UnreadableModel as error:
        assert "\n" in str(error) or "version" in str(error) or "not a GGUF" in str(error)
    else:
        assert sum(each.bytes for each in header.tensors) <= len(whole)
