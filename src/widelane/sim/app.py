"""The simulated server's paths: which request gets which reply, over whatever connection it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from widelane.sim import llama_cpp_endpoints, vllm_endpoints
from widelane.sim.ask import Ask, BadBody, read_ask
from widelane.sim.exchange import Exchange, Outlet
from widelane.sim.faults.catalogue import FaultChoice, find_fault
from widelane.sim.faults.fault import Fault
from widelane.sim.http_connection import HttpConnection
from widelane.sim.refusal import PlainReply, bad_request, error_reply, json_reply, too_long
from widelane.sim.service import ModelService, TooLong
from widelane.sim.tokens import SimTokenizer

_CHAT = frozenset({"/v1/chat/completions", "/chat/completions"})
_TEXT = frozenset({"/v1/completions", "/completions"})
_SERVER_HEADERS = {"llama.cpp": "llama.cpp", "vllm": "uvicorn"}
_MOST_CHOICES = 16_384
"""Of one request: vLLM's `VLLM_MAX_N_SEQUENCES`."""
_READERS: Mapping[str, Callable[[ModelService, str], PlainReply | None]] = {
    "llama.cpp": llama_cpp_endpoints.read,
    "vllm": vllm_endpoints.read,
}


class SimApp:
    """One server's front door.

    Attributes:
        on_outage: called when the server goes down for a while (seconds of the loop), for listeners to follow.
    """

    def __init__(self, service: ModelService, *, faults: FaultChoice | None, speed: float | None) -> None:
        self.service = service
        self.on_outage: Callable[[float], None] | None = None
        self._engine = service.settings.engine
        self._faults = faults
        self._speed = speed
        self._requests = 0
        self._tokenizer = SimTokenizer()
        self._open: dict[HttpConnection, None] = {}
        self._down_until_s: float | None = None

    def __repr__(self) -> str:
        return f"<SimApp {self._engine}, {self._requests} requests, {len(self._open)} connections>"

    @property
    def listening(self) -> bool:
        """Whether new connections are taken."""
        return self._down_until_s is None or asyncio.get_running_loop().time() >= self._down_until_s

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._open):
            connection.drop()

    # --- Host

    @property
    def server_header(self) -> str:
        return _SERVER_HEADERS.get(self._engine, "widelane")

    def opened(self, connection: HttpConnection) -> None:
        self._open[connection] = None

    def closed(self, connection: HttpConnection) -> None:
        self._open.pop(connection, None)

    def answer(self, connection: HttpConnection, method: str, path: str, body: bytes) -> Exchange | None:
        path = path.partition("?")[0]
        if method == "POST" and path in _CHAT | _TEXT:
            return self._completion(connection, body, chat=path in _CHAT)
        reply = self._read(path) if method == "GET" else self._tool(path, body) if method == "POST" else None
        connection.plain(reply or self._not_found())
        return None

    # --- completions

    def _completion(self, connection: HttpConnection, body: bytes, *, chat: bool) -> Exchange | None:
        number = self._requests
        self._requests += 1
        fault = find_fault(self._faults(number)) if self._faults is not None else None
        fields: Mapping[str, Any] | None = _object(body)
        if fields is None:
            connection.plain(bad_request(self._engine, "the body is no JSON object"))
            return None
        if fault is not None and fault.asked is not None:
            fields = fault.asked(fields)
        try:
            ask = read_ask(fields, chat=chat)
        except BadBody as problem:
            connection.plain(bad_request(self._engine, str(problem), problem.field))
            return None
        if fault is not None and self._instead(connection, fault, ask):
            return None
        outlet = fault.bend(connection, self._speed) if fault is not None and fault.bend is not None else connection
        return self._written(ask, outlet, fault, number)

    def _written(self, ask: Ask, outlet: Outlet, fault: Fault | None, number: int) -> Exchange | None:
        refusal = self.refusal(ask)
        if refusal is None:
            try:
                prepared = self.service.prepare(ask, fault.change if fault is not None else None)
            except TooLong as problem:
                refusal = too_long(self._engine, problem)
            else:
                return Exchange(self.service, prepared, outlet, number)
        outlet.plain(refusal)
        return None

    def refusal(self, ask: Ask) -> PlainReply | None:
        """Why this engine does not serve such a request; None when it does."""
        settings = self.service.settings
        request = ask.request
        if self._engine != "llama.cpp" and request.n > _MOST_CHOICES:
            return bad_request(self._engine, f"n must be at most {_MOST_CHOICES}, got {request.n}.", "n")
        if self._engine == "llama.cpp":
            if request.n > settings.slots:
                return bad_request(
                    self._engine,
                    f"Field 'n': Value must be between 1 <= value <= {settings.slots}, but got {request.n}",
                )
            if ask.asks_for_grammar and request.tools:
                return bad_request(self._engine, "Cannot use custom grammar constraints with tools.")
        if self._engine == "vllm" and request.model is not None and request.model != settings.model:
            words = f"The model `{request.model}` does not exist. Valid aliases: {settings.model}."
            return error_reply(self._engine, 404, words, "NotFoundError", param="model")
        return None

    def _instead(self, connection: HttpConnection, fault: Fault, ask: Ask) -> bool:
        """Do what the fault does instead of answering; False when it has nothing to do here."""
        refused = fault.refusal if fault.refuses is None or fault.refuses(ask) else None
        if refused is not None:
            connection.plain(refused)
        if fault.outage_s is not None:
            self._go_down(fault.outage_s)
            return True
        return refused is not None

    def _go_down(self, seconds: float) -> None:
        lasts_s = seconds / (self._speed or 1e6)
        self._down_until_s = asyncio.get_running_loop().time() + lasts_s
        for connection in list(self._open):
            connection.drop()
        if self.on_outage is not None:
            self.on_outage(lasts_s)

    # --- everything else

    def _read(self, path: str) -> PlainReply | None:
        reader = _READERS.get(self._engine)
        if reader is not None:
            return reader(self.service, path)
        if path == "/health":
            return json_reply({"status": "ok"})
        return json_reply(vllm_endpoints.models(self.service.settings, "widelane")) if path == "/v1/models" else None

    def _tool(self, path: str, body: bytes) -> PlainReply | None:
        """Texts to tokens and back, and the rendered prompt."""
        fields = _object(body)
        if self._engine not in _READERS or fields is None:
            return None
        if path == "/apply-template" and self._engine == "llama.cpp":
            return self._with_prompt(fields, lambda text: {"prompt": text})
        if path == "/tokenize" and self._engine == "llama.cpp":
            return json_reply({"tokens": self._tokenizer.encode(str(fields.get("content", "")))})
        if path == "/tokenize":
            return self._with_prompt(fields, self._counted)
        if path == "/detokenize":
            given = fields.get("tokens")
            numbers = [number for number in given if isinstance(number, int)] if isinstance(given, list) else []
            name = "content" if self._engine == "llama.cpp" else "prompt"
            return json_reply({name: self._tokenizer.decode(numbers)})
        return None

    def _counted(self, text: str) -> dict[str, Any]:
        numbers = self._tokenizer.encode(text)
        return {"count": len(numbers), "max_model_len": self.service.settings.context_tokens, "tokens": numbers}

    def _with_prompt(self, fields: Mapping[str, Any], shown: Callable[[str], dict[str, Any]]) -> PlainReply:
        try:
            ask = read_ask(fields, chat="messages" in fields)
        except BadBody as problem:
            return bad_request(self._engine, str(problem), problem.field)
        return json_reply(shown(self.service.prompt_text(ask)))

    def _not_found(self) -> PlainReply:
        if self._engine == "llama.cpp":
            return error_reply(self._engine, 404, "File Not Found", "not_found_error")
        return json_reply({"detail": "Not Found"}, 404)


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
