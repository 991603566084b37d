"""What is known beside a level itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known beside the level itself.

    Attributes:
        output_tokens: tokens that each call was asked for.
        alone_ttft_s: TTFT of a call alone on the server, None when it was not measured.
        steady: False for a burst (all calls start together and none follows), where Little's law does not hold.
        read_bytes: bytes that every decode step must read; with `bandwidth_bytes_s` it bounds what is possible.
    """

    output_tokens: int
    alone_ttft_s: float | None = None
    steady: bool = True
    read_bytes: float | None = None
    bandwidth_bytes_s: float | None = None
