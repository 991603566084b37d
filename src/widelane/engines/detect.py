"""Which engine answers at an address.

The order matters, because servers imitate each other: SGLang also answers Ollama's `/api/tags`, llama.cpp's
`/v1/models` holds an Ollama-like list, vLLM in development mode has SGLang's `/server_info`, and LM Studio answers 200
to paths that it does not have. So every step looks for what only that engine says, and Ollama comes after all that look
like it.

1. `/props` (llama.cpp), or its `Server` header      4. `/api/version` or the greeting of Ollama
2. `/v1/models` `owned_by`; `/version` with metrics  5. `/api/v1/models` (LM Studio)
   of that name (vLLM, TensorRT-LLM)                 6. the fingerprint of a one-token reply (mlx-lm, or
3. `/server_info` with `internal_states` (SGLang)       any of these behind a proxy)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from widelane.engines.ask import ask, ask_json, ask_text, is_html, refusal
from widelane.engines.engine import Engine
from widelane.engines.hints import NO_HINTS, Hints
from widelane.engines.launch_line import of_process, parse_launch
from widelane.engines.llama_cpp import LlamaCpp
from widelane.engines.lm_studio import LmStudio
from widelane.engines.mlx_lm import MlxLm
from widelane.engines.ollama import Ollama
from widelane.engines.openai_compatible import LLAMA_CPP_PYTHON, TENSORRT_LLM, UNKNOWN, OpenAiCompatible
from widelane.engines.prometheus import parse_metrics
from widelane.engines.sglang import Sglang, server_info
from widelane.engines.vllm import Vllm
from widelane.errors import CallError, NotAModelServer, ServerLoading, WrongPath
from widelane.records import Fetch, HttpReply

_OWNERS: Mapping[str, str] = {
    "llamacpp": "llama.cpp",
    "vllm": "vllm",
    "sglang": "sglang",
    "me": "llama-cpp-python",
    "tensorrt_llm": "tensorrt-llm",
}
"""What `owned_by` in `/v1/models` gives away."""

_ENGINES: Mapping[str, Callable[[Fetch, str | None], Engine]] = {
    "llama.cpp": lambda fetch, _: LlamaCpp(fetch),
    "vllm": lambda fetch, version: Vllm(fetch, version=version),
    "sglang": lambda fetch, _: Sglang(fetch),
    "ollama": lambda fetch, _: Ollama(fetch),
    "lm-studio": lambda fetch, _: LmStudio(fetch),
    "mlx-lm": lambda fetch, version: MlxLm(fetch, version=version),
    "llama-cpp-python": lambda fetch, version: OpenAiCompatible(fetch, LLAMA_CPP_PYTHON, version=version),
    "tensorrt-llm": lambda fetch, version: OpenAiCompatible(fetch, TENSORRT_LLM, version=version),
    "openai-compatible": lambda fetch, version: OpenAiCompatible(fetch, UNKNOWN, version=version),
}

_FINGERPRINTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"vllm-(\d[\w.]*)"), "vllm"),
    (re.compile(r"(b\d+-\w+)"), "llama.cpp"),
    (re.compile(r"(\d+\.\d+\.\d+)-\d+\.\d+\.\d+-(?:Linux|macOS|Darwin)"), "mlx-lm"),
    (re.compile(r"(fp_ollama)"), "ollama"),
)
"""`system_fingerprint` of a reply → engine; the group is the version."""


@dataclass(slots=True)
class _Seen:
    """What the server has answered so far, for the verdict when nothing is recognised."""

    replies: list[HttpReply] = field(default_factory=list)

    @property
    def html(self) -> HttpReply | None:
        return next((reply for reply in self.replies if is_html(reply) and reply.status < 500), None)


async def detect(fetch: Fetch, hints: Hints = NO_HINTS) -> Engine:
    """The adapter for the server that `fetch` talks to.

    At most one token is generated, and only by servers that nothing else gives away.

    Raises:
        Unauthorized: the server wants a key, or another one.
        ServerLoading: llama.cpp has not loaded its model yet.
        ServerFailed: vLLM's front end lives, its engine is dead.
        NotAModelServer, WrongPath: something else answers.
        CallError: nobody answers.
    """
    seen = _Seen()
    name, version = await _recognise(fetch, seen)
    if name == "openai-compatible":
        name = _hinted(hints) or name
    return _ENGINES[name](fetch, version)


async def _recognise(fetch: Fetch, seen: _Seen) -> tuple[str, str | None]:
    props = await _look(fetch, "/props", seen)
    if props is not None and _is_llama_cpp(props):
        _check_key(props)
        return "llama.cpp", None
    models = await _look(fetch, "/v1/models", seen)
    _check_key(models)
    owner = _owner(models)
    if owner in _OWNERS:
        return _OWNERS[owner], None
    for recognises in (_vllm, _tensorrt_llm, _sglang, _ollama, _lm_studio):
        found = await recognises(fetch)
        if found is not None:
            return found
    found = await _by_fingerprint(fetch, models, seen)
    if found is not None:
        return found
    if models is not None and models.status == 200 and _listed(models) is not None:
        return "openai-compatible", None
    raise _nothing_recognised(seen)


async def _look(fetch: Fetch, path: str, seen: _Seen) -> HttpReply | None:
    """A reply that is kept for the verdict.

    Raises:
        ServerLoading: the model is being loaded.
    """
    reply = await ask(fetch, path)
    if reply is None:
        return None
    seen.replies.append(reply)
    if reply.status == 503 and isinstance(error := refusal(reply), ServerLoading):
        raise error
    return reply


def _check_key(reply: HttpReply | None) -> None:
    """Raises Unauthorized for a reply that refuses the key, at an endpoint that every client may use."""
    if reply is not None and reply.status in (401, 403):
        raise refusal(reply)


def _is_llama_cpp(reply: HttpReply) -> bool:
    body = reply.json() if reply.status == 200 else None
    told = isinstance(body, dict) and ("default_generation_settings" in body or "total_slots" in body)
    return told or reply.headers.get("server", "").lower() == "llama.cpp"


def _listed(reply: HttpReply) -> list[Any] | None:
    body = reply.json()
    data = body.get("data") if isinstance(body, dict) else None
    return data if isinstance(data, list) else None


def _owner(reply: HttpReply | None) -> str:
    data = _listed(reply) if reply is not None and reply.status == 200 else None
    first = data[0] if data and isinstance(data[0], dict) else {}
    return str(first.get("owned_by", "")).lower()


async def _vllm(fetch: Fetch) -> tuple[str, str | None] | None:
    text = await ask_text(fetch, "/metrics") if not await _speaks_only_json_metrics(fetch) else None
    if text and parse_metrics(text).has_prefix("vllm:"):
        return "vllm", await _version(fetch)
    return None


async def _speaks_only_json_metrics(fetch: Fetch) -> bool:
    """Whether this is TensorRT-LLM, whose `/metrics` is emptied by whoever reads it."""
    text = await ask_text(fetch, "/prometheus/metrics")
    return text is not None and parse_metrics(text).has_prefix("trtllm_")


async def _tensorrt_llm(fetch: Fetch) -> tuple[str, str | None] | None:
    return ("tensorrt-llm", await _version(fetch)) if await _speaks_only_json_metrics(fetch) else None


async def _sglang(fetch: Fetch) -> tuple[str, str | None] | None:
    info = await server_info(fetch)
    if isinstance(info, dict) and "internal_states" in info:
        return "sglang", None
    greeting = await ask_text(fetch, "/") or ""
    return ("sglang", None) if "SGLang is running" in greeting[:200] else None


async def _ollama(fetch: Fetch) -> tuple[str, str | None] | None:
    greeting = await ask_text(fetch, "/") or ""
    answer = await ask_json(fetch, "/api/version")
    told = isinstance(answer, dict) and isinstance(answer.get("version"), str)
    return ("ollama", None) if told or "Ollama is running" in greeting[:200] else None


async def _lm_studio(fetch: Fetch) -> tuple[str, str | None] | None:
    newer = await ask_json(fetch, "/api/v1/models")
    models = newer.get("models") if isinstance(newer, dict) else None
    if isinstance(models, list) and all(isinstance(item, dict) and "key" in item for item in models):
        return "lm-studio", None
    older = await ask_json(fetch, "/api/v0/models")
    data = older.get("data") if isinstance(older, dict) else None
    if isinstance(data, list) and data and all(isinstance(item, dict) and "state" in item for item in data):
        return "lm-studio", None
    return None


async def _by_fingerprint(fetch: Fetch, models: HttpReply | None, seen: _Seen) -> tuple[str, str | None] | None:
    """One token, for the fingerprint of its reply.

    Raises:
        ServerFailed: vLLM says that its engine is dead.
    """
    listed = _listed(models) if models is not None and models.status == 200 else None
    model = next((item["id"] for item in listed or [] if isinstance(item, dict) and "id" in item), None)
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "stream": False}
    reply = await ask(fetch, "/v1/chat/completions", body | ({"model": model} if model else {}), timeout_s=60.0)
    if reply is None:
        return None
    seen.replies.append(reply)
    _check_key(reply)
    answer = reply.json()
    if reply.status >= 500 and (b"EngineCore" in reply.body or b"EngineDeadError" in reply.body):
        raise refusal(reply)
    if not isinstance(answer, dict):
        return None
    text = str(answer.get("system_fingerprint") or "")
    for pattern, name in _FINGERPRINTS:
        if match := pattern.match(text):
            return name, match[1] if name != "ollama" else None
    return ("openai-compatible", None) if isinstance(answer.get("choices"), list) else None


async def _version(fetch: Fetch) -> str | None:
    answer = await ask_json(fetch, "/version")
    return str(answer["version"]) if isinstance(answer, dict) and "version" in answer else None


def _hinted(hints: Hints) -> str | None:
    """The engine that a launch line or the port's owner names, for servers that hide themselves."""
    pasted = parse_launch(hints.launch).engine if hints.launch else None
    owner = of_process(hints.process.argv, {}).engine if hints.process else None
    return pasted or owner


def _nothing_recognised(seen: _Seen) -> CallError:
    page = seen.html
    if page is not None:
        return NotAModelServer(
            f"{_where(page)} answers with a web page: it is not a model server",
            status=page.status,
            hint="Check the port: llama.cpp listens at 8080, vLLM 8000, Ollama 11434, LM Studio 1234, SGLang 30000.",
        )
    if not seen.replies:
        return NotAModelServer(
            "the server takes connections and answers nothing", hint="Is it a model server, and well?"
        )
    last = seen.replies[-1]
    if all(reply.status in (404, 405) for reply in seen.replies):
        return WrongPath(
            f"{_where(last)} has neither /v1/models nor /v1/chat/completions",
            status=last.status,
            hint="Give the address that the path /v1 follows, e.g. http://localhost:8080.",
        )
    if last.status >= 300:
        return refusal(last)
    return NotAModelServer(f"{_where(last)} answers, and not as a model server", status=last.status)


def _where(reply: HttpReply) -> str:
    return re.sub(r"(?<=\w)/.*$", "", reply.url.replace("://", "\0")).replace("\0", "://") or "the server"
