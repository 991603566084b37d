"""The whole command line in one place: what `--help`, the shell completion and the documentation are made from.

Nothing heavy is imported here; a command's module is loaded when it runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from widelane import __version__

DESCRIPTION = """\
Measure, diagnose and use the width of a local language-model server.

SERVER is a URL (http://127.0.0.1:8080), `embedded` or `embedded:SLOTS`
(a real llama.cpp server, started for you), or a simulated server:
sim:DEVICE/MODEL/ENGINE or sim:PROFILE.json. Without it, OPENAI_BASE_URL is
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
PASSED_ON = "--"
PLAN_USES = ("interactive", "batch", "agents")
PLAN_ENGINES = ("vllm", "llama.cpp", "sglang", "ollama")


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
    _plan(_command(commands, "plan", "What could this machine do? From the model file and the device, before it runs."))
    _launch(
        _command(commands, "launch", "The exact start command for an engine and version, each flag with its reason.")
    )
    _predict(
        _command(commands, "predict", "Would this job gain from width? The job on a simulated server, in virtual time.")
    )
    _simulate(
        _command(commands, "simulate", "A simulated server behind a real port: any client, no model, no GPU needed.")
    )
    _schema(_command(commands, "schema", "Print the JSON schema of a document that --json writes."))
    _completion(_command(commands, "completion", "Print a completion script for your shell."))
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str
) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)


def _server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", nargs="?", metavar="SERVER", help="URL, `embedded`, `embedded:SLOTS` or `sim:…`")
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


def _tokens(text: str) -> int:
    """A number of tokens as people and logs write it: 60000, 60k, 182,000.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    number, unit = (text[:-1], 1000) if text[-1:] in ("k", "K") else (text, 1)
    try:
        return round(float(number.replace(",", "").replace("_", "")) * unit)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of tokens; give one such as 60000 or 60k") from None


def _plan(parser: argparse.ArgumentParser) -> None:
    _planned(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    group.add_argument("--html", metavar="FILE", help="also write the page to FILE: step time, throughput, memory")
    group.add_argument("--quiet", action="store_true", help="no progress on stderr")


def _planned(parser: argparse.ArgumentParser) -> None:
    """What `plan` and `launch` have in common: the model, the machine, the work, and what is fixed already."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a .gguf or .safetensors file, a config.json, a folder with them, or a known name (qwen3.6-27b)",
    )
    group = parser.add_argument_group("model")
    group.add_argument("--quant", metavar="FORMAT", help="weights' format: bf16, fp8, q8, q4, nvfp4, mxfp4, … ")
    group.add_argument("--weights-gb", type=float, metavar="GB", help="size of all weights, 10^9 bytes")
    group = parser.add_argument_group("machine")
    group.add_argument(
        "--device", default="auto", metavar="NAME", help="gb10, rtx-4090, 2x-rtx-3090, … (default: auto, this machine)"
    )
    group.add_argument(
        "--memory-gb", type=float, metavar="GB", help="memory the server may use (default: the device's)"
    )
    group.add_argument(
        "--profile", metavar="FILE", help="a sweep of this very server (sweep --profile): fits the step times to it"
    )
    group.add_argument(
        "--measure-bandwidth", action="store_true", help="measure this machine's memory bandwidth too (some seconds)"
    )
    group = parser.add_argument_group("server")
    group.add_argument("--engine", choices=PLAN_ENGINES, help="(default: llama.cpp for GGUF, Apple and CPU, else vllm)")
    group.add_argument("--engine-version", metavar="V", help="version or build it is for (default: the newest known)")
    group.add_argument("--slots", type=int, metavar="N", help="requests decoded at once (default: what fits and pays)")
    group.add_argument("--kv-dtype", metavar="TYPE", help="of the KV cache: bf16, fp8, q8_0, … (default: what pays)")
    group.add_argument(
        "--state-dtype", metavar="TYPE", help="of a recurrent state: float32, float16 (default: what pays)"
    )
    group.add_argument("--draft-depth", type=int, metavar="K", help="drafted tokens a step; 0 for none")
    group.add_argument(
        "--acceptance", metavar="A,A,…", help="share of drafted tokens kept at each position, e.g. 0.84,0.6,0.39"
    )
    group.add_argument("--draft-model", metavar="FILE", help="a small model that drafts, for engines that take one")
    group.add_argument(
        "--tool-call-parser", metavar="NAME", help="(default: the one that fits the chat template; none for no parser)"
    )
    group.add_argument("--reasoning-parser", metavar="NAME", help="(default: as above)")
    group.add_argument(
        "--kv-pool-tokens", type=_tokens, metavar="N", help="KV pool of a running server, as its log tells it"
    )
    group.add_argument(
        "--max-model-len",
        type=_tokens,
        metavar="N",
        help="the running server's, on which vLLM's log line depends",
    )
    group.add_argument("--kv-pool-gb", type=float, metavar="GB", help="memory of the KV pool, where it is known")
    group = parser.add_argument_group("work")
    group.add_argument("--use", choices=PLAN_USES, default="batch", help="what the server is for (default: batch)")
    group.add_argument(
        "--typical-tokens", metavar="N|A-B", help="prompt and answer of a usual request together (default: by --use)"
    )
    group.add_argument(
        "--max-tokens", type=_tokens, metavar="N", help="the longest request to allow (default: by --use)"
    )
    group.add_argument(
        "--footprints", metavar="FILE", help="past requests to plan by: a run of ours, or a JSONL log with `usage`"
    )


def _launch(parser: argparse.ArgumentParser) -> None:
    _planned(parser)
    parser.epilog = (
        "What follows `--` is added to the engine's command as it is: widelane launch MODEL -- --enforce-eager"
    )
    parser.set_defaults(arguments=())
    group = parser.add_argument_group("launch")
    group.add_argument("--run", action="store_true", help="start it, wait until it answers, keep it until Ctrl-C")
    group.add_argument("--systemd", action="store_true", help="print a systemd unit")
    group.add_argument("--docker", action="store_true", help="print a compose file")
    group.add_argument("--program", metavar='"COMMAND"', help="what starts the engine, where it is not the usual name")
    group.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    group.add_argument("--port", type=int, metavar="N", help="port to listen on (default: the engine's)")
    group.add_argument("--start-timeout", type=float, default=900.0, metavar="S", help="longest load (default: 900)")
    group.add_argument("--log-file", metavar="FILE", help="where --run keeps the server's log")
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    group.add_argument("--quiet", action="store_true", help="no progress on stderr")


def _predict(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "CALLS is [COUNTx][PROMPT/]OUTPUT in tokens: 24x900, 24x2000/900; an output may vary: 24x600-1500, 24x900±300."
    )
    parser.add_argument("job", nargs="?", metavar="JOB", help="a job file with steps (.toml or .json)")
    group = parser.add_argument_group("job, where there is no file")
    group.add_argument("--map", metavar="CALLS", help="items that do not depend on each other, e.g. 24x900")
    group.add_argument("--plan", metavar="CALLS", help="a planning round before them, only there to split the work")
    group.add_argument("--reduce", metavar="CALLS", help="what is written when all of them are done; it reads them all")
    group.add_argument(
        "--instead", metavar="CALLS", help="what would be written without splitting (default: the items one at a time)"
    )
    group.add_argument(
        "--best-of", metavar="CALLS", help="tries at one task, e.g. 6x900; the first that passes ends it"
    )
    group.add_argument("--pass-rate", type=float, metavar="P", help="chance that one try passes, 0 to 1")
    group.add_argument("--verify-seconds", type=float, metavar="S", help="time to check one try (default: 0)")
    group.add_argument(
        "--prompt-tokens",
        type=int,
        metavar="N",
        help="what a call reads of its own, where CALLS do not say (default: 400)",
    )
    group = parser.add_argument_group("server")
    group.add_argument(
        "--server",
        metavar="SERVER",
        help="sim:DEVICE/MODEL/ENGINE, a profile (sweep --profile FILE), or a server to sweep first: URL, `embedded`",
    )
    group.add_argument("--api-key", metavar="KEY", help="the server's key (default: OPENAI_API_KEY)")
    group.add_argument("--model", metavar="NAME|FILE", help="model name on the server; for `embedded`, a GGUF file")
    _embedded(parser)
    group = parser.add_argument_group("prediction")
    group.add_argument(
        "--lanes", type=int, metavar="N", help="consider at most N lanes (default: all that the job can use)"
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of everything that is drawn (default: 0)")
    group.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="limit for the sweep of a real server (default: 60)"
    )
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    group.add_argument("--html", metavar="FILE", help="also write the page to FILE: verdict, widths, lane timeline")
    group.add_argument("--quiet", action="store_true", help="no progress on stderr")


def _simulate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "server", nargs="?", metavar="sim:…", help="sim:DEVICE/MODEL/ENGINE or sim:PROFILE.json; or say it by options"
    )
    group = parser.add_argument_group("what to simulate")
    group.add_argument("--device", metavar="NAME", help="gb10, rtx-4090, 2x-rtx-3090, …")
    group.add_argument("--model", metavar="MODEL", help="a known name (qwen3.6-27b), a model file or folder")
    group.add_argument("--engine", choices=PLAN_ENGINES, help="(default: vllm)")
    group.add_argument("--profile", metavar="FILE", help="a profile saved by `widelane sweep`, instead of these three")
    group.add_argument("--slots", metavar="N", help="requests decoded at once (default: the engine's)")
    group.add_argument("--quant", metavar="FORMAT", help="weights' format: bf16, fp8, q4_k_m, …")
    group.add_argument("--weights-gb", metavar="GB", help="size of all weights, 10^9 bytes")
    group.add_argument("--kv-dtype", metavar="TYPE", help="of the KV cache")
    group.add_argument("--state-dtype", metavar="TYPE", help="of a recurrent state")
    group.add_argument("--context", metavar="TOKENS", help="the longest request")
    group.add_argument("--draft-depth", metavar="K", help="drafted tokens a step")
    group.add_argument("--acceptance", metavar="A,A,…", help="share of drafted tokens kept at each position")
    group.add_argument("--seed", metavar="N", help="of all that is drawn (default: 0)")
    group.add_argument("--noise", metavar="X", help="share by which one boot differs from another (default: 0)")
    group.add_argument("--fault", metavar="NAME,…", help="misbehave: these faults in turn, one a call; see --list")
    group.add_argument("--misconfigured", metavar="CODE,…", help="be set up wrongly, as doctor's codes say; see --list")
    group.add_argument("--answers", metavar="FILE", help="a script of answers (JSON) instead of filler prose")
    group.add_argument("--list", action="store_true", help="list faults and misconfigurations, and end")
    group = parser.add_argument_group("how to serve it")
    group.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    group.add_argument("--port", type=int, default=0, metavar="N", help="port to listen on (default: a free one)")
    group.add_argument(
        "--speed",
        default="1",
        metavar="X|max",
        help="simulated seconds in a real one; max: as fast as this machine can (default: 1)",
    )
    group.add_argument("--quiet", action="store_true", help="print the URL only")


def _schema(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("document", choices=("sweep", "doctor", "plan", "launch", "predict"))


def _completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The parsed command line. argparse itself exits with status 2 on bad usage.

    What `launch` is to hand on to the engine (after `--`) is taken off first: argparse would read it as its own.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    at = words.index(PASSED_ON) if words[:1] == ["launch"] and PASSED_ON in words else len(words)
    args = build_parser().parse_args(words[:at])
    if words[at + 1 :]:
        args.arguments = tuple(words[at + 1 :])
    return args
