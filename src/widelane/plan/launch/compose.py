"""A compose file: the same server in a container, with its accelerator, its model and its health check."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from widelane.errors import UsageError
from widelane.plan.launch.address import bracketed, is_ip_address
from widelane.plan.launch.changes import CHECKED_ON
from widelane.plan.launch.choice import HEALTH_PATHS, LOOPBACK, PORTS, PROGRAMS, Accelerator
from widelane.plan.launch.versions import build_of
from widelane.plan.report import Argument, LaunchPlan
from widelane.printable import is_plain, one_line

MODELS = "/models"
START_PERIOD_S = 900
_ANY = "0.0.0.0"  # noqa: S104 - inside the container; the published port decides who reaches it
_TAGS = {
    ("llama.cpp", Accelerator.CUDA): "ghcr.io/ggml-org/llama.cpp:server-cuda-{version}",
    ("llama.cpp", Accelerator.ROCM): "ghcr.io/ggml-org/llama.cpp:server-rocm-{version}",
    ("llama.cpp", Accelerator.INTEL): "ghcr.io/ggml-org/llama.cpp:server-intel-{version}",
    ("llama.cpp", Accelerator.CPU): "ghcr.io/ggml-org/llama.cpp:server-{version}",
    ("vllm", Accelerator.CUDA): "vllm/vllm-openai:v{version}",
    ("vllm", Accelerator.ROCM): "vllm/vllm-openai-rocm:v{version}",
    ("vllm", Accelerator.CPU): "public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v{version}",
    ("sglang", Accelerator.CUDA): "lmsysorg/sglang:v{version}",
    ("ollama", Accelerator.CUDA): "ollama/ollama:{version}",
    ("ollama", Accelerator.ROCM): "ollama/ollama:{version}-rocm",
    ("ollama", Accelerator.CPU): "ollama/ollama:{version}",
}
_KEPT = {
    "vllm": ("~/.cache/huggingface", "/root/.cache/huggingface"),
    "sglang": ("~/.cache/huggingface", "/root/.cache/huggingface"),
    "llama.cpp": ("~/.cache/huggingface", "/root/.cache/huggingface"),
    "ollama": ("./ollama", "/root/.ollama"),
}
"""What an engine fetches lies here, and stays when the container goes."""
_PATH_FLAGS = ("-m", "--model", "--model-path", "--spec-draft-model", "-md", "--speculative-draft-model-path")


def compose_file(plan: LaunchPlan, *, accelerator: Accelerator, image: str | None = None) -> str:
    """The text of a `compose.yaml`. In the container the server listens to all; the published port is the plan's own.

    Args:
        image: another image, e.g. one built by oneself.

    Raises:
        UsageError: there is no image of this engine for this accelerator, or its host is no IP address.
    """
    inside = PORTS[plan.engine]
    argv, mounts = _in_container(plan, inside)
    name = plan.engine.replace(".", "-")
    lines = [
        f"# widelane launch: {plan.engine} {one_line(plan.version or 'of the newest known version')}",
        "# Keep it as compose.yaml, then: docker compose up -d",
        *(
            one_line(f"# Once it answers: OLLAMA_HOST={bracketed(plan.host)}:{plan.port} {command}")
            for command in plan.afterwards
        ),
        "services:",
        f"  {name}:",
        f"    image: {_text(image or image_of(plan, accelerator))}",
        "    restart: unless-stopped",
        *_accelerator(accelerator, plan.engine),
        "    ports:",
        f"      - {_text(f'{_published_host(plan.host)}:{plan.port or inside}:{inside}')}",
        *_volumes(plan.engine, mounts),
        *_environment(plan.environ, inside),
        *_command(plan.engine, argv),
        "    healthcheck:",
        f"      test: {_list(_health(plan.engine, inside))}",
        "      interval: 15s",
        "      timeout: 5s",
        "      retries: 4",
        f"      start_period: {START_PERIOD_S}s",
    ]
    return "\n".join(lines) + "\n"


def image_of(plan: LaunchPlan, accelerator: Accelerator) -> str:
    """The published image of the plan's engine and version.

    Raises:
        UsageError: there is none for this accelerator.
    """
    pattern = _TAGS.get((plan.engine, accelerator))
    if pattern is None:
        why = "containers on macOS see no GPU" if accelerator is Accelerator.METAL else "no image of it is published"
        raise UsageError(f"{plan.engine} cannot run in a container on {accelerator.value}: {why}; start it directly")
    if plan.engine == "ollama" and plan.version is None:
        return "ollama/ollama:rocm" if accelerator is Accelerator.ROCM else "ollama/ollama:latest"
    return pattern.format(version=_published(plan))


def _published_host(host: str) -> str:
    """The address on which the port is published: compose takes no names there."""
    host = LOOPBACK if host == "localhost" else host
    if not is_ip_address(host):
        raise UsageError(f"a compose file publishes a port on an IP address; --host {host} is a name")
    return bracketed(host)


def _published(plan: LaunchPlan) -> str:
    """The version as an image is tagged with it; a development build has no image, and gets the one checked here."""
    checked = CHECKED_ON[plan.engine].removeprefix("source of ")
    if plan.engine == "llama.cpp":
        build = build_of(plan.version)
        return f"b{build}" if build else checked
    release = re.fullmatch(r"v?(\d+(?:\.\d+)+)", plan.version or "")
    return release[1] if release else checked


def _in_container(plan: LaunchPlan, port: int) -> tuple[list[Argument], list[tuple[str, str]]]:
    """The arguments as they are inside, and what of the host must be seen there."""
    argv: list[Argument] = []
    mounts: dict[str, str] = {}
    for part in plan.argv:
        value = part.value
        if part.flag == "--host":
            part = replace(part, value=_ANY, reason="All of the container; the published port decides who reaches it.")
        elif part.flag == "--port":
            part = replace(part, value=str(port), reason="Inside the container.")
        elif (
            value is not None
            and value.startswith(("/", "./", "../", "~"))
            and (part.flag is None or part.flag in _PATH_FLAGS)
        ):
            path = PurePosixPath(value)
            folder = _seen_whole(path)
            inside = mounts.setdefault(str(folder), MODELS if not mounts else f"{MODELS}-{len(mounts) + 1}")
            part = replace(part, value=str(PurePosixPath(inside) / path.relative_to(folder)))
        argv.append(part)
    return argv, list(mounts.items())


def _seen_whole(path: PurePosixPath) -> PurePosixPath:
    """The folder that must be mounted: of a model in the hub's cache all of it, as its files are links into `blobs`."""
    for parent in path.parents:
        if parent.name.startswith("models--"):
            return parent
    return path.parent if path.suffix in (".gguf", ".safetensors", ".json") else path


def _accelerator(accelerator: Accelerator, engine: str) -> list[str]:
    lines = ["    # Workers share memory between processes; the default 64 MB are too little.", "    ipc: host"]
    if engine not in ("vllm", "sglang"):
        lines = []
    if accelerator is Accelerator.CUDA:
        lines += [
            "    deploy:",
            "      resources:",
            "        reservations:",
            "          devices:",
            "            - driver: nvidia",
            "              count: all",
            "              capabilities: [gpu]",
        ]
    elif accelerator is Accelerator.ROCM:
        lines += ["    devices: [/dev/kfd, /dev/dri]", "    group_add: [video, render]"]
    elif accelerator is Accelerator.INTEL:
        lines += ["    devices: [/dev/dri]"]
    return lines


def _volumes(engine: str, mounts: Sequence[tuple[str, str]]) -> list[str]:
    lines = ["    volumes:"]
    if not mounts or engine == "ollama":
        host, inside = _KEPT[engine]
        lines.append(f"      - {_text(f'{host}:{inside}')}")
    for host, inside in mounts:
        lines += _long_volume(host, inside) if ":" in host else [f"      - {_text(f'{host}:{inside}:ro')}"]
    return lines


def _long_volume(host: str, inside: str) -> list[str]:
    """A folder whose name holds a colon, which the short form would split at."""
    return [
        "      - type: bind",
        f"        source: {_text(host)}",
        f"        target: {_text(inside)}",
        "        read_only: true",
    ]


def _environment(environ: Sequence[Argument], port: int) -> list[str]:
    lines: list[str] = []
    for part in environ:
        value = f"{_ANY}:{port}" if part.flag == "OLLAMA_HOST" else part.value or ""
        lines += [f"      # {one_line(part.reason)}", f"      {part.flag}: {_text(value)}"]
    return ["    environment:", *lines] if lines else []


def _command(engine: str, argv: Sequence[Argument]) -> list[str]:
    """The arguments one a line, each under its reason; the program is named, whatever the image's own entry is."""
    own = 0
    while own < len(argv) and argv[own].flag is None and own < len(PROGRAMS[engine]):
        own += 1
    program = ["/app/llama-server"] if engine == "llama.cpp" else [part.value or "" for part in argv[:own]]
    lines = [f"    entrypoint: {_list(program)}"]
    arguments: list[str] = []
    for part in argv[own:]:
        arguments += [f"      # {one_line(part.reason)}"] if part.reason else []
        arguments += [f"      - {_text(word)}" for word in (part.flag, part.value) if word is not None]
    return [*lines, "    command:", *arguments] if arguments else [*lines, "    command: []"]


def _health(engine: str, port: int) -> list[str]:
    if engine == "ollama":
        return ["CMD", "ollama", "list"]
    url = f"http://127.0.0.1:{port}{HEALTH_PATHS[engine]}"
    if engine == "llama.cpp":
        return ["CMD", "curl", "-f", url]
    return ["CMD", "python3", "-c", f"import urllib.request; urllib.request.urlopen('{url}', timeout=4)"]


def _text(value: str) -> str:
    """A YAML string in JSON's form; `$` is doubled, for compose would replace it."""
    text = json.dumps(value.replace("$", "$$"), ensure_ascii=False)
    return text if is_plain(text) else "".join(char if is_plain(char) else f"\\u{ord(char):04x}" for char in text)


def _list(words: Sequence[str]) -> str:
    return "[" + ", ".join(map(_text, words)) + "]"
