"""What the simulator reads of a measured profile: the shape of a saved sweep, seen from below.

`measure.profile.SweepReport` has this shape; naming only what is used keeps the simulator free of how it was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from widelane.engines.server_facts import ServerFacts
from widelane.figures import Figure


class Middle(Protocol):
    """The middle of a distribution."""

    @property
    def p50(self) -> Figure: ...


class MeasuringClient(Protocol):
    """Whether the client spoiled the figures."""

    @property
    def spoiled(self) -> bool: ...


class MeasuredLevel(Protocol):
    """One width."""

    @property
    def concurrency(self) -> int: ...
    @property
    def output_tok_s(self) -> Figure: ...
    @property
    def ttft_s(self) -> Middle: ...
    @property
    def tpot_s(self) -> Middle: ...
    @property
    def decoding_together(self) -> Figure: ...
    @property
    def requests(self) -> int: ...
    @property
    def failures(self) -> Mapping[str, int]: ...
    @property
    def client(self) -> MeasuringClient: ...


class MeasuredWork(Protocol):
    """Size of one call."""

    @property
    def prompt_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...


class MeasuredServer(Protocol):
    """Which server it was."""

    @property
    def facts(self) -> ServerFacts: ...


class MeasuredProfile(Protocol):
    """The whole.

    Attributes:
        levels: by rising width.
        limit: what made the plateau, as a word; `slots` where the places did.
    """

    @property
    def server(self) -> MeasuredServer: ...
    @property
    def workload(self) -> MeasuredWork: ...
    @property
    def levels(self) -> Sequence[MeasuredLevel]: ...
    @property
    def limit(self) -> str: ...
