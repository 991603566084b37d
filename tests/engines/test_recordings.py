"""Every recorded server is recognised, and its facts agree with how it was started.

The loops take whatever recordings the data folder holds.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.data_path import MISSING
from tests.engines.recordings import files, folders, name_of, recorded, without
from widelane.engines.detect import detect
from widelane.engines.engine import Hints
from widelane.engines.launch_line import parse_launch
from widelane.engines.prometheus import parse_metrics
from widelane.errors import ServerFailed
from widelane.figures import Figure, Origin
from widelane.testing.recorded_server import Exchange, RecordedServer, Recording, load_recording

FOLDERS = folders()


@pytest.fixture(params=FOLDERS or [None], ids=lambda path: name_of(path) if path else "none")
def folder(request: pytest.FixtureRequest) -> Path:
    if request.param is None:
        pytest.skip(MISSING)
    return Path(request.param)


def is_dead(recording: Recording) -> bool:
    return any(exchange.path == "/health" and exchange.status == 503 for exchange in recording.exchanges)


async def test_the_engine_is_recognised(folder: Path) -> None:
    recording = load_recording(folder)
    if is_dead(recording):
        with pytest.raises(ServerFailed, match="EngineCore"):
            await detect(RecordedServer(recording))
        return
    engine = await detect(RecordedServer(recording))
    assert engine.name == recording.engine
    assert (await engine.facts()).engine == recording.engine


async def test_detection_generates_at_most_one_token(folder: Path) -> None:
    server = recorded(folder)
    if not is_dead(load_recording(folder)):
        await (await detect(server)).facts()
    for method, _, body in server.asked:
        assert method == "GET" or "messages" not in body or body["max_tokens"] == 1


async def test_version_model_and_weights_are_those_it_was_recorded_with(folder: Path) -> None:
    recording = load_recording(folder)
    if is_dead(recording):
        pytest.skip("the engine was dead when this was recorded")
    facts = await (await detect(RecordedServer(recording))).facts()
    model, version = facts.model.value, facts.version.value
    served = {
        exchange.request["model"].lower()
        for exchange in recording.exchanges
        if isinstance(exchange.request, dict) and exchange.status == 200 and exchange.request.get("model")
    }
    listed = {name.lower() for name in _listed(recording)}
    if model is not None and served | listed:
        assert str(model).lower() in served | listed
    if version is not None and recording.engine != "llama.cpp":
        assert str(version) in recording.made_with["version"]
    if version is not None and recording.engine == "llama.cpp":
        assert str(version) in recording.made_with["build"] or str(version).startswith(recording.made_with["version"])


def _listed(recording: Recording) -> list[str]:
    """Model names in the recorded `/v1/models`."""
    bodies = [json.loads(exchange.body) for exchange in recording.exchanges if exchange.path == "/v1/models"]
    return [model["id"] for body in bodies for model in body["data"]]


async def test_what_the_server_says_agrees_with_its_launch_arguments(folder: Path) -> None:
    recording = load_recording(folder)
    if is_dead(recording):
        pytest.skip("the engine was dead when this was recorded")
    facts = await (await detect(RecordedServer(recording))).facts()
    line = parse_launch(recording.made_with["args"], engine=recording.engine)
    slots = line.number("parallel") or line.number("max_num_seqs")
    if slots is not None and facts.slots.origin is Origin.READ and facts.slots.value is not None:
        assert facts.slots.value == slots
    context = line.number("max_model_len") or _context_of_llama_cpp(line.number("ctx_size"), slots, line.settings)
    if context is not None and facts.context_per_slot.value is not None:
        assert facts.context_per_slot.value == context


def _context_of_llama_cpp(total: int | None, slots: int | None, settings: object) -> int | None:
    if total is None:
        return None
    assert isinstance(settings, dict)
    return total if settings.get("kv_unified") is True else total // (slots or 1)


async def test_the_launch_line_fills_what_http_hides(folder: Path) -> None:
    recording = load_recording(folder)
    if is_dead(recording):
        pytest.skip("the engine was dead when this was recorded")
    args = recording.made_with["args"]
    line = parse_launch(args, engine=recording.engine)
    facts = await (await detect(RecordedServer(recording))).facts(Hints(launch=args))
    expected = {
        "slots": line.number("parallel") or line.number("max_num_seqs"),
        "reasoning_parser": line.settings.get("reasoning_parser"),
        "tool_parser": line.settings.get("tool_call_parser"),
        "pool_tokens": line.number("ctx_size") if recording.engine == "llama.cpp" else None,
    }
    for name, value in expected.items():
        figure: Figure = getattr(facts, name)
        if value is not None:
            assert (name, figure.value, figure.origin) == (name, value, Origin.READ)
    if recording.engine == "llama.cpp":
        assert facts.kv_dtype.value == "f16"
        assert facts.unified_pool.value is ("--kv-unified" in args)
    assert facts.launch_command.value == args


async def test_every_figure_is_known_or_says_why_not(folder: Path) -> None:
    recording = load_recording(folder)
    if is_dead(recording):
        pytest.skip("the engine was dead when this was recorded")
    facts = await (await detect(RecordedServer(recording))).facts()
    for name in facts.__slots__:
        figure = getattr(facts, name)
        if isinstance(figure, Figure) and figure.value is None:
            assert figure.reason and len(figure.reason) > 10, name


def _refusals(folder: Path) -> list[Exchange]:
    return [e for e in load_recording(folder).exchanges if e.status == 400 and b"<= value <=" in e.body]


REFUSING = [folder for folder in FOLDERS if _refusals(folder)]


@pytest.mark.parametrize("folder", REFUSING or [None], ids=lambda path: name_of(path) if path else "none")
async def test_a_recorded_refusal_of_n_gives_the_slots_when_all_endpoints_are_off(folder: Path | None) -> None:
    if folder is None:
        pytest.skip(MISSING)
    recording, refused = load_recording(folder), _refusals(folder)
    slots = int(re.findall(rb"value <= (\d+)", refused[0].body)[0])
    server = RecordedServer(without(recording, "/props", "/slots", "/metrics"))
    engine = await detect(server)
    facts = await engine.facts()
    assert (facts.slots.value, facts.slots.origin) == (slots, Origin.READ)
    assert (await engine.gauges()).reason


@pytest.mark.parametrize("path", files("metrics*.txt") or [None], ids=lambda path: name_of(path) if path else "none")
def test_every_recorded_metrics_text_is_read_wholly(path: Path | None) -> None:
    if path is None:
        pytest.skip(MISSING)
    text = path.read_text()
    samples = parse_metrics(text)
    assert len(samples) == sum(1 for line in text.splitlines() if line.strip() and not line.startswith("#"))
