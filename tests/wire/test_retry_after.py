"""The wait a reply asks for: in seconds or until a date, by the server's own clock."""

from __future__ import annotations

import pytest

from widelane.wire.retry_after import retry_after_s

ONE = "Tue, 01 Jan 2030 01:00:00 GMT"
NEW_YEAR_S = 1_893_456_000.0  # 2030-01-01T00:00:00Z


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "86400"}, 120),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"date": ONE, "retry-after": "Tue, 01 Jan 2030 01:00:03 GMT"}, 3),
        ({"date": ONE, "retry-after": "Tue, 01 Jan 2030 00:59:00 GMT"}, 0),
        ({"date": ONE, "retry-after": "Wed, 02 Jan 2030 01:00:00 GMT"}, 120),
    ],
)
def test_the_wait_is_read(headers: dict[str, str], seconds: float | None) -> None:
    # The client's clock is an hour behind the server's: it must not matter.
    assert retry_after_s(headers, NEW_YEAR_S) == seconds


def test_without_a_date_of_its_own_the_clients_clock_has_to_do() -> None:
    headers = {"retry-after": "Tue, 01 Jan 2030 00:00:05 GMT"}
    assert retry_after_s(headers, NEW_YEAR_S) == 5
    assert retry_after_s(headers) is None
