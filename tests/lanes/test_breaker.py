"""The one probe of a server."""

import asyncio
import random

import pytest

from tests.lanes.doubles import Switch
from widelane.errors import ConnectionRefused
from widelane.lanes.breaker import Breaker, Health, probe_of
from widelane.lanes.retry import RetryPolicy
from widelane.records import HttpReply
from widelane.testing.fake_backend import FakeBackend
from widelane.testing.virtual_time import run_virtual


class Server(FakeBackend):
    """A backend that can fetch: answers one status, or refuses."""

    def __init__(self, status: int | None) -> None:
        super().__init__()
        self.status = status
        self.asked: list[str] = []

    async def fetch(self, method, path, body=None, *, timeout_s=10.0):
        self.asked.append(f"{method} {path}")
        if self.status is None:
            raise ConnectionRefused("nobody listens")
        return HttpReply(self.status, {}, b"")


@pytest.mark.parametrize(
    ("status", "health"),
    [
        (200, Health.UP),
        (404, Health.UP),  # no such path: but somebody serves
        (401, Health.UP),
        (503, Health.LOADING),
        (502, Health.DOWN),  # a proxy before nothing
        (None, Health.DOWN),
    ],
)
def test_health_is_read_from_the_servers_own_health_path(status, health):
    server = Server(status)
    probe = probe_of(server, None)
    assert asyncio.run(probe()) is health
    assert server.asked == ["GET /health"]


def test_the_callers_own_probe_goes_first_and_a_backend_without_http_is_hoped_for():
    async def no():
        return False

    assert asyncio.run(probe_of(Server(200), no)()) is Health.DOWN
    assert asyncio.run(probe_of(FakeBackend(), None)()) is Health.UP


def breaker_over(probe, policy=None, seed=0):
    changes = []
    now_s = asyncio.get_running_loop().time
    breaker = Breaker(probe, policy or RetryPolicy(), random.Random(seed), lambda: changes.append(now_s()), "http://x")
    return breaker, changes


def test_it_opens_once_and_passes_again_when_the_probe_says_so():
    async def main():
        switch = Switch(asyncio.get_running_loop().time, up_from_s=20.0)
        breaker, changes = breaker_over(probe_of(FakeBackend(), switch))
        assert breaker.trip(Health.DOWN)
        assert not breaker.trip(Health.DOWN)
        assert not breaker.passing
        await asyncio.sleep(60.0)
        assert breaker.passing
        assert breaker.trips == 1
        return changes, switch.asked

    (changed_s,), asked = run_virtual(main)
    assert 20.0 <= changed_s <= 30.0
    assert asked <= 8  # growing waits


def test_loading_found_by_the_probe_gets_the_longer_limit():
    async def main():
        server = Server(None)
        breaker, _ = breaker_over(probe_of(server, None))
        breaker.trip(Health.DOWN)
        await asyncio.sleep(100.0)
        server.status = 503  # it is back, and loads a large model
        await asyncio.sleep(600.0)
        assert breaker.refusal() is None
        server.status = 200
        await asyncio.sleep(20.0)
        return breaker.passing

    assert run_virtual(main)


def test_giving_up_says_how_long_and_how_to_go_on():
    async def main():
        breaker, changes = breaker_over(probe_of(Server(None), None))
        breaker.trip(Health.DOWN)
        await asyncio.sleep(130.0)
        assert len(changes) == 1
        return str(breaker.refusal())

    words = run_virtual(main)
    assert "http://x" in words
    assert "120 s" in words
    assert "resume" in words


def test_closing_stops_the_probe():
    async def main():
        breaker, _ = breaker_over(probe_of(Server(None), None))
        breaker.trip(Health.DOWN)
        await asyncio.sleep(1.0)
        await breaker.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(main)
