"""Many calls at once: width, priority, cancellation, budgets, retries, the trace, and the run on disk."""

from widelane.lanes.budget import Budget
from widelane.lanes.lanes import CallStore, Lanes
from widelane.lanes.notices import Incident, IncidentKind
from widelane.lanes.observed_width import ObservedWidth, observed_width
from widelane.lanes.retry import RetryPolicy
from widelane.lanes.store import RunStore

__all__ = [
    "Budget",
    "CallStore",
    "Incident",
    "IncidentKind",
    "Lanes",
    "ObservedWidth",
    "RetryPolicy",
    "RunStore",
    "observed_width",
]
