"""The sweep and the slot count on the real embedded server."""

import random
from pathlib import Path

import pytest

from widelane.clock import SystemClock
from widelane.engines.detect import detect
from widelane.engines.embedded import EmbeddedServer
from widelane.figures import Origin
from widelane.measure.bursts import infer_slots
from widelane.measure.options import SweepOptions
from widelane.measure.profile import Limit, SweepReport, load_profile, save_profile
from widelane.measure.sweep import sweep
from widelane.wire.client import HttpBackend

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]
pytest.importorskip("xllamacpp", reason="the extra `embedded` is not installed")


async def swept(server: EmbeddedServer, options: SweepOptions) -> SweepReport:
    async with HttpBackend(server.url) as backend:
        engine = await detect(backend.fetch)
        facts = await engine.facts()
        return await sweep(backend, engine, facts, options, clock=SystemClock(), rng=random.Random(0))


async def test_the_plateau_of_two_slots_is_attributed_to_them(tmp_path: Path) -> None:
    async with EmbeddedServer(log_dir=tmp_path, threads=1, slots=2) as server:
        report = await swept(server, SweepOptions(levels=(1, 2, 4), output_tokens=24, prompt_tokens=8, seconds=25))
    assert (report.limit, report.complete) == (Limit.SLOTS, True)
    assert report.knee is not None
    assert int(report.knee.concurrency.number or 0) <= 2
    rows = {level.concurrency: level for level in report.levels}
    assert [rows[width].decoding_together.value for width in (1, 2, 4)] == [1, 2, 2]
    assert all(level.failures == {} and not level.client.spoiled for level in report.levels)
    assert all((level.output_tok_s.number or 0) > 0 for level in report.levels)
    # A call that waits for another one waits longer than one that does not.
    assert (rows[4].ttft_s.p50.number or 0) > 2 * (rows[2].ttft_s.p50.number or 0)
    save_profile(report, tmp_path / "profile.json")
    assert load_profile(tmp_path / "profile.json").limit is Limit.SLOTS


@pytest.mark.parametrize("slots", [1, 5, 12])
async def test_slots_are_counted_exactly_with_every_endpoint_off(tmp_path: Path, slots: int) -> None:
    server = EmbeddedServer(log_dir=tmp_path, threads=1, slots=slots, endpoint_slots=False, endpoint_metrics=False)
    async with server, HttpBackend(server.url) as backend:
        engine = await detect(backend.fetch)
        facts = await engine.facts()
        found = await infer_slots(backend, engine, facts, clock=SystemClock(), rng=random.Random(slots))
    assert (found.value, found.origin) == (slots, Origin.INFERRED)
