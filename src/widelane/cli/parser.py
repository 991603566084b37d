"""The whole command line in one place: what `--help`, the shell completion and the documentation are made from.

Nothing heavy is imported here; a command's module is loaded when it runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from widelane import __version__

DESCRIPTION = """\
Measure, diagnose and use the width of a local language-model server.

SERVER is a URL (http://127.0.0.1:8080), `embedded` or `embedded:SLOTS`
(a real llama.cpp server, started for you). Without it, OPENAI_BASE_URL is
used, else the usual local ports are tried.
"""
EPILOG = """\
environment:
  OPENAI_BASE_URL, OPENAI_API_KEY   the server and its key, as OpenAI-compatible tools read them
  WIDELANE_CACHE_DIR                models (default: the user's cache folder, ~/.cache/widelane on Linux)
  WIDELANE_RUNS_DIR                 runs (default: the user's data folder, ~/.local/share/widelane/runs on Linux)
  NO_COLOR                          no colours

exit status: 0 done, 1 the job failed, 2 the input cannot be used, 130 interrupted (what was done is kept)
"""
USES = ("chat", "agents", "batch", "long")


def build_parser() -> argparse.ArgumentParser:
    """The parser of every command."""
    parser = argparse.ArgumentParser(
        prog="widelane",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"widelane {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _doctor(_command(commands, "doctor", "What does this server's configuration waste? Facts, probes, a quick sweep."))
    _sweep(_command(commands, "sweep", "How wide is the road? Throughput and latency at 1 … 128 requests at once."))
    _demo(
        _command(commands, "demo", "Diagnose a real llama.cpp server, restart it as advised, and show what it bought.")
    )
    _schema(_command(commands, "schema", "Print the JSON schema of a document that --json writes."))
    _completion(_command(commands, "completion", "Print a completion script for your shell."))
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str
) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)


def _server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", nargs="?", metavar="SERVER", help="URL, `embedded` or `embedded:SLOTS`")
    group = parser.add_argument_group("server")
    group.add_argument("--api-key", metavar="KEY", help="the server's key (default: OPENAI_API_KEY)")
    group.add_argument(
        "--model",
        metavar="NAME|FILE",
        help="model name on the server; for `embedded`, a GGUF file instead of the default",
    )
    group.add_argument("--launch", metavar='"COMMAND"', help="the server's start command, for what HTTP hides")
    group.add_argument("--log", metavar="FILE", help="the server's start log (llama.cpp, vLLM), for what HTTP hides")
    _embedded(parser)


def _embedded(parser: argparse.ArgumentParser, weights: str = "q4_1") -> None:
    group = parser.add_argument_group("embedded server")
    group.add_argument(
        "--weights",
        choices=("q4_1", "f32"),
        help=f"weights of the default model; f32 is made once, 540 MB (default: {weights})",
    )
    group.add_argument("--threads", type=int, metavar="N", help="compute threads (default: 1 on up to 4 cores)")
    group.add_argument(
        "--hide-endpoints",
        action="store_true",
        help="start it without /slots and /metrics, as some servers are",
    )


def _output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    group.add_argument("--html", metavar="FILE", help="also write the HTML report to FILE")
    group.add_argument("--run-dir", metavar="DIR", help="keep the run in DIR (default: a new folder among your runs)")
    group.add_argument("--quiet", action="store_true", help="no progress on stderr")


def _doctor(parser: argparse.ArgumentParser) -> None:
    _server(parser)
    group = parser.add_argument_group("diagnosis")
    group.add_argument("--use", choices=USES, default="chat", help="what the server is for (default: chat)")
    group.add_argument("--context", type=int, metavar="TOKENS", help="context one request needs (default: by --use)")
    group.add_argument("--no-sweep", action="store_true", help="facts and probes only")
    group.add_argument("--intrusive", action="store_true", help="also run probes that can fail other users' requests")
    group.add_argument("--seed", type=int, default=0, help="seed of the prompts (default: 0)")
    _output(parser)


def _sweep(parser: argparse.ArgumentParser) -> None:
    _server(parser)
    group = parser.add_argument_group("sweep")
    group.add_argument("--levels", metavar="N,N,…", help="levels of concurrency (default: adaptive, 1 to --max-level)")
    group.add_argument("--max-level", type=int, metavar="N", help="widest adaptive level (default: 128)")
    group.add_argument("--prompt-tokens", type=int, metavar="N", help="size of a prompt (default: 32)")
    group.add_argument("--output-tokens", type=int, metavar="N", help="size of an answer (default: 64)")
    group.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="limit for the whole sweep; a resumed one gets it anew (default: 600)",
    )
    group.add_argument(
        "--precision", type=float, metavar="X", help="half-width of the interval to reach (default: 0.05)"
    )
    group.add_argument("--endpoint", choices=("chat", "completions"), help="(default: chat)")
    group.add_argument("--seed", type=int, metavar="N", help="seed of the prompts (default: 0)")
    group.add_argument(
        "--resume", action="store_true", help="finish the run in --run-dir, or the newest unfinished one"
    )
    group.add_argument("--profile", metavar="FILE", help="also save the profile to FILE")
    _output(parser)


def _demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="FILE", help="a GGUF file instead of the default model")
    _embedded(parser, weights="f32")
    _output(parser)


def _schema(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("document", choices=("sweep", "doctor"))


def _completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The parsed command line. argparse itself exits with status 2 on bad usage."""
    return build_parser().parse_args(argv)
