"""From a `sim:…` argument, a saved profile or a sweep just made, to the server that a job is predicted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from widelane.measure.profile import SweepReport, load_profile
from widelane.predict.server import PredictedServer, measured_error, planned_error, slots_figure
from widelane.predict.simulate import OpenBackend
from widelane.records import Backend, ChatRequest, Observer, Reply
from widelane.sim.open_server import Assembled, assemble
from widelane.sim.simulated import simulated
from widelane.sim.spec import PREFIX, ProfiledServer, SimSpec, parse_sim


def predicted_server(text: str, *, hub_dirs: Sequence[Path] = ()) -> PredictedServer:
    """The server that an argument names: `sim:…`, or the file of a profile.

    Raises:
        UsageError: what it names is not known, does not fit, or cannot be read.
    """
    if text.strip().startswith(PREFIX):
        return of_spec(parse_sim(text), hub_dirs=hub_dirs)
    path = Path(text)
    return of_profile(load_profile(path), path)


def of_spec(spec: SimSpec, *, hub_dirs: Sequence[Path] = ()) -> PredictedServer:
    """The server that a `sim:…` argument names.

    Args:
        hub_dirs: folders in which models are looked for, as in `find_model`.

    Raises:
        UsageError: what it names is not known, does not fit, or cannot be read.
    """
    if isinstance(spec.source, ProfiledServer):
        return _of_profile(load_profile(spec.source.path), spec, spec.text)
    made = simulated(spec, load_profile=load_profile, hub_dirs=hub_dirs)
    assert made.planned is not None
    server = assemble(spec, load_profile=load_profile, hub_dirs=hub_dirs)
    return PredictedServer(
        words=f"simulated {spec.source.engine} with {made.model_name} on {spec.source.device}{_settings_words(spec)}",
        open_backend=_opener(server),
        slots=slots_figure(server.config.slots),
        error=planned_error(made.planned.outlook.expected),
        notes=(f"Step times: {server.words}.", *_fault_note(spec)),
        replay=spec.text,
        varies=spec.noise > 0,
    )


def of_profile(report: SweepReport, path: Path | None = None) -> PredictedServer:
    """The server that a sweep measured.

    Args:
        path: where the profile lies; None for a sweep that was just made.

    Raises:
        UsageError: no level of the sweep can be used.
    """
    replay = report.server.url if path is None else str(path)
    return _of_profile(report, SimSpec(source=ProfiledServer(path=path or Path("sweep.json"))), replay)


def _of_profile(report: SweepReport, spec: SimSpec, replay: str) -> PredictedServer:
    server = assemble(spec, load_profile=lambda _: report)
    facts = report.server.facts
    model = f" with {facts.model.value}" if facts.model.value else ""
    work = report.workload
    return PredictedServer(
        words=f"{facts.engine}{model} at {report.server.url}, as it was measured{_settings_words(spec)}",
        open_backend=_opener(server),
        slots=slots_figure(server.config.slots),
        error=measured_error(report.levels),
        notes=(
            f"Step times: {server.words}, calls of {work.prompt_tokens:,} and {work.output_tokens:,} tokens.",
            *_fault_note(spec),
        ),
        replay=replay,
        varies=spec.noise > 0,
    )


def _opener(server: Assembled) -> OpenBackend:
    def open_backend(seed: int) -> Backend:
        seeded = replace(server, spec=replace(server.spec, seed=server.spec.seed + seed))
        return _Unwatched(seeded.server())

    return open_backend


@dataclass(frozen=True, slots=True)
class _Unwatched:
    """A backend whose tokens nobody watches as they come: the simulator then goes from event to event."""

    inner: Backend

    async def complete(self, request: ChatRequest, observe: Observer | None = None) -> Reply:
        return await self.inner.complete(request)


def _settings_words(spec: SimSpec) -> str:
    stated = spec.text.partition("?")[2].replace("&", ", ").replace("=", " ").replace("_", " ")
    return f", {stated}" if stated else ""


def _fault_note(spec: SimSpec) -> tuple[str, ...]:
    if not spec.fault and not spec.misconfigured:
        return ()
    return (f"The server misbehaves on purpose: {', '.join((*spec.fault, *spec.misconfigured))}.",)
