"""Model files made to cost time or memory; run as a program, reads those named and says what each cost.

    python -m tests.facts.hostile_files FILE …

prints `{file: {"message", "cpu_s", "peak_mb"}}`; `peak_mb` is the highest so far, the interpreter included.
"""

import json
import resource
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from widelane.testing.model_files import (
    Typed,
    gguf_text,
    tensor,
    write_gguf,
    write_sparse,
)

U32 = struct.Struct("<I").pack
U64 = struct.Struct("<Q").pack
HUGE = 20 * 10**9


def main(names: list[str]) -> None:
    from widelane.errors import UnreadableModel
    from widelane.facts.read_model import read_model

    told: dict[str, object] = {}
    for name in names:
        started = time.process_time()
        try:
            read_model(Path(name))
            message = None
        except UnreadableModel as error:
            message = str(error)
        told[name] = {"message": message, "cpu_s": time.process_time() - started, "peak_mb": peak_mb()}
    print(json.dumps(told))


def peak_mb() -> float:
    """Of this program alone: what the kernel hands over from the parent at its start does not count."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS counts bytes


def gguf(n_tensors: int, n_keys: int, rest: bytes = b"") -> bytes:
    return b"GGUF" + U32(3) + U64(n_tensors) + U64(n_keys) + rest


def strings(count: int) -> bytes:
    """The opening of one key that holds an array of so many strings."""
    return gguf_text("tokenizer.ggml.tokens") + U32(9) + U32(8) + U64(count)


def two_million_empty_strings(folder: Path) -> Path:
    return write_sparse(folder / "model.gguf", gguf(0, 60_000, strings(2_000_000)), data_bytes=HUGE)


def a_billion_empty_strings(folder: Path) -> Path:
    return write_sparse(folder / "model.gguf", gguf(0, 1, strings(10**9)), data_bytes=HUGE)


def words_that_look_leapable(folder: Path) -> Path:
    """Two million one-letter strings, and then nonsense: read twice."""
    word = gguf_text("x")
    return write_sparse(folder / "model.gguf", gguf(1, 2, strings(1_990_000) + word * 1_990_000), data_bytes=10**6)


def words_that_contain_words(folder: Path) -> Path:
    """Strings that hold the lengths of other strings: every leap goes wrong."""
    word = gguf_text(b"ab" + gguf_text("cd") * 3)
    return write_sparse(folder / "model.gguf", gguf(1, 2, strings(400_000) + word * 400_000), data_bytes=10**6)


def sixty_five_thousand_keys(folder: Path) -> Path:
    keys = b"".join(gguf_text(f"key.{number}") + U32(9) + U32(0) + U64(64) + bytes(64) for number in range(65_536))
    return write_sparse(folder / "model.gguf", gguf(0, 65_536, keys), data_bytes=0)


def arrays_of_numbers(folder: Path) -> Path:
    keys = b"".join(gguf_text(f"k{number}") + U32(9) + U32(2) + U64(4096) + b"\xff" * 8192 for number in range(2000))
    return write_sparse(folder / "model.gguf", gguf(0, 2000, keys), data_bytes=0)


def texts_of_a_mebibyte(folder: Path) -> Path:
    keys = b"".join(gguf_text(f"k{number}") + U32(8) + gguf_text(b"\xff" * 2**20) for number in range(60))
    return write_sparse(folder / "model.gguf", gguf(0, 60, keys), data_bytes=0)


def a_text_of_gigabytes(folder: Path) -> Path:
    return write_sparse(folder / "model.gguf", gguf(0, 2, gguf_text("k") + U32(8) + U64(HUGE - 100)), data_bytes=HUGE)


def sixty_five_thousand_tensors(folder: Path) -> Path:
    names = [f"{number:05}{'n' * 240}" for number in range(65_536)]
    return write_gguf(folder / "model.gguf", {}, [tensor(name, (1, 1, 1, 1), "F32") for name in names])


def ten_million_tensors(folder: Path) -> Path:
    return write_sparse(folder / "model.gguf", gguf(10**7, 0), data_bytes=HUGE)


def zeros_for_a_tensor_table(folder: Path) -> Path:
    return write_sparse(folder / "model.gguf", gguf(65_536, 0), data_bytes=HUGE)


def a_split_of_65535_files(folder: Path) -> Path:
    metadata = {"split.no": Typed(2, 0), "split.count": Typed(2, 65_535)}
    return write_gguf(folder / "model-00001-of-65535.gguf", metadata)


def a_split_of_links_to_one_file(folder: Path) -> Path:
    metadata = {"split.no": Typed(2, 0), "split.count": Typed(2, 2000), "words": ["word"] * 100_000}
    first = write_gguf(folder / "model-00001-of-02000.gguf", metadata)
    for number in range(2, 2001):
        (folder / f"model-{number:05}-of-02000.gguf").symlink_to(first.name)
    return first


def a_split_in_a_circle(folder: Path) -> Path:
    first = write_gguf(folder / "model-00001-of-00003.gguf", {"split.no": Typed(2, 0), "split.count": Typed(2, 3)})
    (folder / "model-00002-of-00003.gguf").symlink_to("model-00003-of-00003.gguf")
    (folder / "model-00003-of-00003.gguf").symlink_to("model-00002-of-00003.gguf")
    return first


def many_small_values(folder: Path) -> Path:
    return safetensors(folder, b"{" + b",".join(b'"%d":0' % number for number in range(900_000)) + b"}")


def deep_json(folder: Path) -> Path:
    return safetensors(folder, b'{"a":' * 4_000_000)


def deep_unknown_json(folder: Path) -> Path:
    return safetensors(folder, b'{"a":{"x":' + b"[" * 15_000_000)


def many_empty_tensors(folder: Path) -> Path:
    entry = '"%07d":{"dtype":"F32","shape":[0,0,0],"data_offsets":[0,0]}'
    return safetensors(folder, ("{" + ",".join(entry % number for number in range(99_000)) + "}").encode())


def a_header_of_gigabytes(folder: Path) -> Path:
    return write_sparse(with_config(folder) / "model.safetensors", U64(HUGE - 8) + b"{", data_bytes=HUGE)


def an_index_of_many_tensors(folder: Path) -> Path:
    path = with_config(folder) / "model.safetensors.index.json"
    entries = b",".join(b'"%d":"%d.safetensors"' % (number, number) for number in range(299_000))
    path.write_bytes(b'{"weight_map":{' + entries + b"}}")
    return path


def a_config_of_brackets(folder: Path) -> Path:
    path = folder / "config.json"
    path.write_bytes(b'{"a":[' + b"[]," * 1_398_000 + b"[]]}")
    return path


def a_deep_config(folder: Path) -> Path:
    path = folder / "config.json"
    path.write_bytes(b'{"a":' + b"[" * 4_000_000)
    return path


def a_folder_of_many_files(folder: Path) -> Path:
    for number in range(10_001):
        (folder / f"{number}.gguf").touch()
    return folder


def safetensors(folder: Path, header: bytes) -> Path:
    return write_sparse(with_config(folder) / "model.safetensors", U64(len(header)) + header, data_bytes=0)


def with_config(folder: Path) -> Path:
    (folder / "config.json").write_text('{"model_type": "llama"}')
    return folder


HOSTILE: tuple[Callable[[Path], Path], ...] = (
    two_million_empty_strings,
    a_billion_empty_strings,
    words_that_look_leapable,
    words_that_contain_words,
    sixty_five_thousand_keys,
    arrays_of_numbers,
    texts_of_a_mebibyte,
    a_text_of_gigabytes,
    sixty_five_thousand_tensors,
    ten_million_tensors,
    zeros_for_a_tensor_table,
    a_split_of_65535_files,
    a_split_of_links_to_one_file,
    a_split_in_a_circle,
    many_small_values,
    deep_json,
    deep_unknown_json,
    many_empty_tensors,
    a_header_of_gigabytes,
    an_index_of_many_tensors,
    a_config_of_brackets,
    a_deep_config,
    a_folder_of_many_files,
)

if __name__ == "__main__":
    main(sys.argv[1:])
