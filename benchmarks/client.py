"""What a client costs, and whether its figures are true.

    python benchmarks/client.py [--quick] [--json] [--clients widelane,aiohttp]

Streams from a local server with exactly known timing (fakesse.c; without a C compiler its Python twin) at 1, 16 and 128
connections, 50 tok/s each, all streams in step as in a batched engine. Printed a client and a level:

  - CPU microseconds a token: user and system time of the client's process over the tokens it received;
  - TTFT error: the client's TTFT minus the server's, the same request (p50 and p99);
  - gap error: the difference between the client's and the server's time between two tokens (p50 and p99);
  - lost tokens: tokens the server sent and the client did not count.

Every client runs in a process of its own, pinned to core 1 with the server on core 0 where the system can pin. Clients
are interleaved, so that a busy moment of the machine does not hit one of them only.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LEVELS = (1, 16, 128)
FIRST_TOKEN_US = 50_000
TICK_US = 20_000
CLIENTS = {
    "(limit: parses nothing)": "widelane",
    "widelane": "widelane",
    "widelane + uvloop": "uvloop",
    "aiohttp iter_any": "aiohttp",
    "aiohttp lines": "aiohttp",
    "httpx": "httpx",
    "openai": "openai",
}
"""Client -> the distribution it needs."""
TOOLS = {"GuideLLM": "guidellm", "AIPerf": "aiperf"}
"""Whole benchmark tools, run through their own command line where they are installed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One client at one level, all repeats together; errors in milliseconds."""

    client: str
    connections: int
    tokens: int
    lost_tokens: int
    cpu_us_per_token: float
    ttft_error_p50_ms: float
    ttft_error_p99_ms: float
    gap_error_p50_ms: float
    gap_error_p99_ms: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one client: its CPU time, what it saw, and what the server did."""

    cpu_s: float
    seen: dict[str, tuple[int, list[int]]]
    truth: dict[str, tuple[int, list[int]]]


def main() -> int:
    options = read_options()
    wanted = [name for name in CLIENTS if any(part in name for part in options.clients.split(","))]
    missing = [name for name in wanted if not installed(CLIENTS[name])]
    wanted = [name for name in wanted if name not in missing]
    tokens, rounds, repeats = (50, 1, 1) if options.quick else (100, 1, 2)
    with tempfile.TemporaryDirectory() as folder:
        command, server = server_command(Path(folder))
        runs: dict[tuple[str, int], list[Run]] = {}
        for connections in LEVELS:
            for repeat in range(repeats):
                for name in wanted:
                    note(f"{connections} connections, repeat {repeat + 1} of {repeats}: {name}")
                    run = run_client(name, command, Path(folder), connections, tokens, rounds)
                    runs.setdefault((name, connections), []).append(run)
        tools = [f"{tool}: {run_tool(tool, command, Path(folder))}" for tool in TOOLS]
    rows = [row_of(name, connections, done) for (name, connections), done in runs.items()]
    notes = [*tools, *(f"{name}: not installed" for name in missing)]
    report(rows, notes, server, as_json=options.json)
    return 0 if all(row.lost_tokens == 0 for row in rows if row.client.startswith("widelane")) else 1


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="CPU cost and truthfulness of streaming clients.")
    parser.add_argument("--quick", action="store_true", help="one short round each")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--clients", default="", metavar="A,B", help="only clients whose name contains one of these")
    return parser.parse_args()


# --- one run


def run_client(name: str, server: list[str], folder: Path, connections: int, tokens: int, rounds: int) -> Run:
    """One client against a fresh server."""
    log = folder / "server.log"
    with started(server, log) as port:
        arguments = (name, f"http://127.0.0.1:{port}", str(connections), str(tokens), str(rounds))
        command = [*pinned(1), sys.executable, str(HERE / "client_loops.py"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise SystemExit(f"{name} failed:\n{done.stderr}")
    told = json.loads(done.stdout)
    return Run(told["cpu_s"], {who: (sent, times) for who, sent, times in told["samples"]}, read_log(log))


@contextmanager
def started(server: list[str], log: Path) -> Iterator[int]:
    """The server's port; the server is stopped at the end."""
    command = [*pinned(0), *server, str(FIRST_TOKEN_US), str(TICK_US), str(log)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline().split()[1])
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def server_command(folder: Path) -> tuple[list[str], str]:
    """How to start the server, and which one it is."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler:
        program = folder / "fakesse"
        built = subprocess.run([compiler, "-O2", "-o", str(program), str(HERE / "fakesse.c")], check=False)
        if built.returncode == 0:
            return [str(program)], f"fakesse.c built with {compiler}"
    return [sys.executable, str(HERE / "fakesse.py")], "fakesse.py (no working C compiler)"


def pinned(core: int) -> list[str]:
    """A prefix that pins what follows to a core; empty where that cannot be done."""
    can_pin = hasattr(os, "sched_setaffinity") and core in os.sched_getaffinity(0)
    code = "import os,sys; os.sched_setaffinity(0,{int(sys.argv[1])}); os.execvp(sys.argv[2],sys.argv[2:])"
    return [sys.executable, "-S", "-c", code, str(core)] if can_pin else []


def read_log(log: Path) -> dict[str, tuple[int, list[int]]]:
    lines = (line.split() for line in log.read_text().splitlines())
    return {fields[0]: (int(fields[1]), [int(field) for field in fields[2:]]) for fields in lines}


# --- what it shows


def row_of(client: str, connections: int, runs: list[Run]) -> Row:
    ttft_ms: list[float] = []
    gap_ms: list[float] = []
    tokens = lost = 0
    for run in runs:
        for name, (sent, times) in run.seen.items():
            read, made = run.truth[name]
            tokens += len(times)
            lost += len(made) - len(times)
            if times:
                ttft_ms.append(((times[0] - sent) - (made[0] - read)) / 1e6)
            pairs = list(zip(times, made, strict=False))
            gap_ms += [abs((t2 - t1) - (m2 - m1)) / 1e6 for (t1, m1), (t2, m2) in itertools.pairwise(pairs)]
    return Row(
        client,
        connections,
        tokens,
        lost,
        sum(run.cpu_s for run in runs) * 1e6 / max(tokens, 1),
        quantile(ttft_ms, 0.5),
        quantile(ttft_ms, 0.99),
        quantile(gap_ms, 0.5),
        quantile(gap_ms, 0.99),
    )


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * q), len(ordered) - 1)] if ordered else float("nan")


def report(rows: list[Row], notes: list[str], server: str, *, as_json: bool) -> None:
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    versions = {name: importlib.metadata.version(name) for name in sorted(set(CLIENTS.values())) if installed(name)}
    if as_json:
        document = {"schema": {"name": "widelane-client-benchmark", "version": 1}, "server": server}
        print(
            json.dumps(
                {
                    **document,
                    "machine": machine,
                    "versions": versions,
                    "notes": notes,
                    "rows": [asdict(r) for r in rows],
                }
            )
        )
        return
    print(f"Server: {server}. {machine}.")
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    print(
        f"{1e6 / TICK_US:.0f} tok/s a stream, first token after {FIRST_TOKEN_US / 1000:.0f} ms, all streams in step.\n"
    )
    head = f"{'client':<20}{'streams':>8}{'tokens':>8}{'lost':>6}{'us/token':>10}{'TTFT error p50/p99 ms':>25}"
    print(head + f"{'gap error p50/p99 ms':>24}")
    for row in rows:
        ttft = f"{row.ttft_error_p50_ms:.2f} / {row.ttft_error_p99_ms:.2f}"
        gap = f"{row.gap_error_p50_ms:.2f} / {row.gap_error_p99_ms:.2f}"
        cost = f"{row.cpu_us_per_token:.1f}"
        print(f"{row.client:<20}{row.connections:>8}{row.tokens:>8}{row.lost_tokens:>6}{cost:>10}{ttft:>25}{gap:>24}")
    print(*(f"\n{line}" for line in notes), sep="")


def installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def note(text: str) -> None:
    print(text, file=sys.stderr)


# --- whole tools


def run_tool(tool: str, server: list[str], folder: Path) -> str:
    """CPU of the whole process tree over the tokens the server sent, at 16 streams; or why not."""
    program = shutil.which(TOOLS[tool])
    if program is None:
        return "not installed"
    log = folder / "tool.log"
    with started(server, log) as port:
        before = os.times()
        arguments = tool_arguments(tool, f"http://127.0.0.1:{port}")
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, check=False, timeout=600, cwd=folder
        )
        after = os.times()
    tokens = sum(len(times) for _, times in read_log(log).values())
    if done.returncode or not tokens:
        return f"did not run: {done.stderr.strip()[-200:]}"
    used_s = after.children_user + after.children_system - before.children_user - before.children_system
    return f"{used_s * 1e6 / tokens:.0f} us/token at 16 streams, start-up included ({tokens} tokens)"


def tool_arguments(tool: str, url: str) -> list[str]:
    """128 requests of 128 tokens, 16 at a time."""
    if tool == "GuideLLM":
        return [
            "run", "--target", url, "--model", "fake", "--profile", "kind=concurrent,streams=[16]",
            "--max-requests", "128", "--data", "prompt_tokens=8,output_tokens=128",
        ]  # fmt: skip
    return [
        "profile", "--url", url, "--model", "fake", "--endpoint-type", "chat", "--streaming", "--concurrency", "16",
        "--request-count", "128", "--osl", "128", "--isl", "8",
    ]  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
