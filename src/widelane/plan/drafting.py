"""What could draft for a model, how much of it is kept, and what that is known from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from widelane.plan.launch.changes import SPEC_MTP
from widelane.plan.request import PlanRequest
from widelane.plan.speculation import ASSUMED_PROFILES, DEFAULT_PROFILE
from widelane.plan.step_time import StepCost

ASSUMED_DRAFTER = 0.04
"""Size of a small model of the same family over the model it drafts for, where none was named (0.5 B for 14 B)."""
HEAD, MODEL, NONE_NAMED = "head", "model", "none-named"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafter:
    """What drafts.

    Attributes:
        kind: HEAD (the checkpoint's own), MODEL (the one that the user named), NONE_NAMED (a small model that one could
            take).
        acceptance: share of drafted tokens kept at each position.
        assumed: whether that is assumed rather than given.
    """

    kind: str
    acceptance: tuple[float, ...]
    assumed: bool

    @property
    def words(self) -> str:
        """What drafts, as the end of a sentence."""
        return {
            HEAD: "the model's own draft head",
            MODEL: "the draft model that you named",
            NONE_NAMED: f"a draft model of {ASSUMED_DRAFTER * 100:.0f} % of its size (assumed)",
        }[self.kind]

    @property
    def acceptance_words(self) -> str:
        """The acceptance, and whether it is known."""
        shares = ", ".join(f"{share:g}" for share in self.acceptance)
        if not self.assumed:
            return f"acceptance {shares} by position, as given"
        return f"acceptance {shares} by position is assumed (mixed chat); the text decides: measure yours"


def drafter_of(request: PlanRequest) -> Drafter:
    """What could draft for this request's model on its engine."""
    acceptance = request.acceptance or ASSUMED_PROFILES[DEFAULT_PROFILE]
    if request.drafter is not None or request.draft_model is not None:
        kind = MODEL
    elif request.model.draft_layers and _takes_head(request):
        kind = HEAD
    else:
        kind = NONE_NAMED
    return Drafter(kind=kind, acceptance=tuple(acceptance), assumed=not request.acceptance)


def with_drafter(cost: StepCost, request: PlanRequest, drafter: Drafter) -> StepCost:
    """The cost of a step with the bytes that this drafter reads for one drafted token."""
    if drafter.kind == HEAD:
        return cost
    if request.drafter is not None:
        return replace(cost, draft_bytes=float(request.drafter.weights.read_bytes))
    return replace(cost, draft_bytes=ASSUMED_DRAFTER * (cost.dense_bytes + cost.expert_bytes))


def _takes_head(request: PlanRequest) -> bool:
    if request.engine == "llama.cpp":
        return SPEC_MTP.is_in(request.engine_version)
    return request.engine in ("vllm", "sglang")
