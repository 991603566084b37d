"""How long the header of a model file takes to read, beside the reader of the `gguf` package.

    python benchmarks/headers.py [--model FILE.gguf] [--gb 20] [--repeats 15] [--json]

Two files: the default model (SmolLM2-135M, fetched into the cache once; or --model), and a 20 GB GGUF made here: true
header (a hybrid 27B with a vocabulary of 248,320 words and 247,587 merges), its weights a hole in the file, so that it
takes 10 MB of disk. Both readers run in this process, in turns, on the same file, and must find the same tensors.

Printed: the first call, the median and the slowest. The package is called again only while it has taken less than ten
seconds on a file. Exit status 1 when our median is above 50 ms or the readers disagree.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from widelane.engines.model_cache import ModelCache
from widelane.facts.files.gguf_header import read_gguf_header
from widelane.facts.files.tensor_types import TensorInfo
from widelane.testing.model_files import Value, tensor, write_gguf

GOAL_MS = 50.0
PATIENCE_MS = 10_000.0
WORDS, MERGES = 248_320, 247_587
HIDDEN, LAYERS = 5120, 64
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789_.ĠĠĠĊéßжийд的是在ツ"

Table = dict[str, int]
"""Tensor → bytes: what the readers must agree on."""


@dataclass(frozen=True, slots=True)
class Row:
    """One reader on one file, in milliseconds."""

    file: str
    file_gb: float
    reader: str
    first_ms: float
    median_ms: float
    slowest_ms: float
    tensors: int


def main() -> int:
    options = read_options()
    with tempfile.TemporaryDirectory(prefix="widelane-headers-") as folder:
        made = Path(folder) / f"made-{options.gb:g}gb.gguf"
        write_gguf(made, metadata_of_27b(random.Random(20)), list(tensors_of_27b(int(options.gb * 1e9))))
        files = [options.model or ModelCache().model(), made]
        rows = [row for file in files for row in rows_of(file, options.repeats)]
    report(rows, as_json=options.json)
    ours = [row for row in rows if row.reader == "widelane"]
    return 0 if all(row.median_ms <= GOAL_MS for row in ours) else 1


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time to read the header of a GGUF file.")
    parser.add_argument("--model", type=Path, help="a GGUF file instead of the default model")
    parser.add_argument("--gb", type=float, default=20.0, help="size of the file that is made (default: 20)")
    parser.add_argument("--repeats", type=int, default=15, help="calls of each reader (default: 15)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def rows_of(file: Path, repeats: int) -> list[Row]:
    readers: dict[str, Callable[[Path], Table]] = {"widelane": with_widelane}
    try:
        import gguf  # noqa: F401
    except ImportError:
        print("The gguf package is not installed: only our own reader is timed.", file=sys.stderr)
    else:
        readers["gguf package"] = with_gguf_package
    times: dict[str, list[float]] = {name: [] for name in readers}
    tables: dict[str, Table] = {}
    for _ in range(repeats):
        for name, read in readers.items():
            if name == "widelane" or sum(times[name]) < PATIENCE_MS:
                started = time.perf_counter()
                tables[name] = read(file)
                times[name].append((time.perf_counter() - started) * 1e3)
    if len({json.dumps(sorted(table.items())) for table in tables.values()}) > 1:
        raise SystemExit(f"The readers disagree about {file.name}.")
    size_gb = file.stat().st_size / 1e9
    return [
        Row(file.name, size_gb, name, taken[0], statistics.median(taken), max(taken), len(tables[name]))
        for name, taken in times.items()
    ]


def with_widelane(file: Path) -> Table:
    return {each.name: each.bytes for each in read_gguf_header(file).tensors}


def with_gguf_package(file: Path) -> Table:
    from gguf import GGUFReader

    return {each.name: int(each.n_bytes) for each in GGUFReader(file).tensors}


# --- the file that is made


def metadata_of_27b(rng: random.Random) -> dict[str, Value]:
    words = [word(rng, 14) for _ in range(WORDS)]
    words[2000:2200] = ["Ġ" * count for count in range(1, 201)]  # real vocabularies hold long runs of blanks
    merges = [f"{word(rng, 7)} {word(rng, 7)}" for _ in range(MERGES)]
    merges[2000:2100] = [f"{'Ġ' * count} {'Ġ' * count}" for count in range(1, 101)]
    return {
        "general.architecture": "qwen35",
        "general.name": "made for a benchmark",
        "qwen35.block_count": LAYERS,
        "qwen35.context_length": 262_144,
        "qwen35.embedding_length": HIDDEN,
        "qwen35.attention.head_count_kv": [4 if layer % 4 == 3 else 0 for layer in range(LAYERS)],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [1] * WORDS,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": WORDS - 1,
        "tokenizer.chat_template": "{%- for message in messages %}{{ message.content }}{%- endfor %}\n" * 100,
    }


def word(rng: random.Random, longest: int) -> str:
    return "".join(rng.choices(ALPHABET, k=rng.randint(1, longest)))


def tensors_of_27b(total_bytes: int) -> Iterator[TensorInfo]:
    """851 tensors that fill the file: the usual small ones, and matrices as tall as needed."""
    yield tensor("token_embd.weight", (WORDS, HIDDEN), "Q4_K")
    yield tensor("output.weight", (WORDS, HIDDEN), "Q6_K")
    yield tensor("output_norm.weight", (HIDDEN,), "F32")
    matrices = ("attn_qkv", "attn_gate", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    spare = total_bytes - WORDS * HIDDEN // 256 * (144 + 210)
    rows = max(1, spare // (LAYERS * len(matrices) * (HIDDEN // 256 * 144)))
    for layer in range(LAYERS):
        for name in matrices:
            yield tensor(f"blk.{layer}.{name}.weight", (rows, HIDDEN), "Q4_K")
        for name in ("attn_norm", "post_attention_norm", "ssm_a", "ssm_dt", "ssm_norm", "ssm_conv1d", "ssm_beta"):
            yield tensor(f"blk.{layer}.{name}.weight", (HIDDEN,), "F32")


# --- what it shows


def report(rows: list[Row], *, as_json: bool) -> None:
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    if as_json:
        schema = {"name": "widelane-header-benchmark", "version": 1}
        print(json.dumps({"schema": schema, "machine": machine, "rows": [asdict(row) for row in rows]}))
        return
    print(f"{machine}\n")
    print(f"{'file':<40}{'GB':>7}{'tensors':>9}  {'reader':<14}{'first ms':>10}{'median ms':>11}{'slowest ms':>12}")
    for row in rows:
        sizes = f"{row.file[:39]:<40}{row.file_gb:>7.1f}{row.tensors:>9}"
        print(f"{sizes}  {row.reader:<14}{row.first_ms:>10.1f}{row.median_ms:>11.1f}{row.slowest_ms:>12.1f}")
    for file in dict.fromkeys(row.file for row in rows):
        medians = {row.reader: row.median_ms for row in rows if row.file == file}
        if "gguf package" in medians:
            ratio = medians["gguf package"] / medians["widelane"]
            print(f"\n{file}: the gguf package takes {ratio:.0f} times as long.")


if __name__ == "__main__":
    raise SystemExit(main())
