"""All probes, in the order in which they run: what spoils answers first, what only costs time last."""

from __future__ import annotations

from widelane.measure.probes.cancel import CancelFrees
from widelane.measure.probes.output_limit import OutputLimit
from widelane.measure.probes.plain_answer import PlainAnswer
from widelane.measure.probes.pool_overflow import PoolOverflow
from widelane.measure.probes.prefix_cache import PrefixCache
from widelane.measure.probes.probe import Probe
from widelane.measure.probes.reasoning_leak import ReasoningLeak
from widelane.measure.probes.samples import Samples
from widelane.measure.probes.schema import SchemaEnforced
from widelane.measure.probes.stream import Streaming
from widelane.measure.probes.tool_calls import ToolCalls
from widelane.measure.probes.truncation import Truncation

PROBES: tuple[Probe, ...] = (
    PlainAnswer(),
    ReasoningLeak(),
    SchemaEnforced(),
    Truncation(),
    OutputLimit(),
    Streaming(),
    CancelFrees(),
    ToolCalls(),
    PrefixCache(),
    Samples(),
    PoolOverflow(),
)
