"""A client that cannot keep up must not report its own queue."""

import asyncio

from widelane.clock import LoopClock
from widelane.measure.client_watch import ClientLoad, ClientWatch, client_share, pooled
from widelane.testing.virtual_time import run_virtual


def test_a_light_client_spoils_nothing() -> None:
    share, said = client_share(ClientLoad(0.06, 0.001, 0.004), tpot_s=0.02, ttft_s=0.1)
    assert not share.spoiled
    assert said == []
    assert (share.cpu_share.value, share.lag_p99_s.value) == (0.06, 0.004)


def test_more_than_half_a_core_spoils_every_figure() -> None:
    share, said = client_share(ClientLoad(0.51, 0.0, 0.0), tpot_s=0.02, ttft_s=0.1)
    assert share.spoiled
    assert "51% of its core" in said[0]


def test_a_lag_that_is_a_visible_part_of_a_latency_spoils_it() -> None:
    assert client_share(ClientLoad(0.2, 0.006, 0.01), tpot_s=0.02, ttft_s=0.5)[0].spoiled
    assert client_share(ClientLoad(0.2, 0.06, 0.1), tpot_s=0.5, ttft_s=0.1)[0].spoiled
    assert not client_share(ClientLoad(0.2, 0.004, 0.01), tpot_s=0.02, ttft_s=0.5)[0].spoiled


def test_the_resolution_of_timers_is_no_lag() -> None:
    # 1.5 ms against a step of 4 ms: an idle event loop's timers are that late.
    assert not client_share(ClientLoad(0.1, 0.0015, 0.002), tpot_s=0.004, ttft_s=0.05)[0].spoiled


def test_a_level_too_short_to_tell_says_so() -> None:
    share, _ = client_share(ClientLoad(None, None, None), None, None)
    assert share.cpu_share.value is None
    assert share.cpu_share.reason


def test_one_bad_window_is_not_the_level() -> None:
    loads = [ClientLoad(0.1, 0.001, 0.002)] * 4 + [ClientLoad(0.9, 0.3, 0.5)]
    assert pooled(loads) == ClientLoad(0.1, 0.001, 0.5)


def test_a_blocked_loop_shows_as_lag_and_cpu_time_as_a_share_of_a_core() -> None:
    class Late(LoopClock):
        """Every third reading comes 30 ms late, as after a long callback."""

        readings = 0

        def now_ns(self) -> int:
            self.readings += 1
            return super().now_ns() + (30_000_000 if self.readings % 3 == 0 else 0)

    cpu = iter([1.0, 1.5])

    async def main() -> ClientLoad:
        watch = ClientWatch(Late(), cpu_s=lambda: next(cpu))
        task = asyncio.create_task(watch.run())
        await asyncio.sleep(1.0)
        task.cancel()
        return watch.take()

    load = run_virtual(main)
    assert load.lag_p99_s is not None
    assert load.lag_p99_s >= 0.03
    assert load.cpu_share is not None
    assert 0.48 <= load.cpu_share <= 0.52
