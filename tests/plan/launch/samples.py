"""Models and choices to make commands from."""

from __future__ import annotations

from typing import Any

from widelane.facts.model import (
    AttentionLayers,
    Experts,
    LayerKind,
    ModelFacts,
    Parameters,
    RecurrentLayers,
    Weights,
)
from widelane.figures import Origin
from widelane.plan.launch.choice import LaunchChoice
from widelane.plan.launch.command import launch_plan
from widelane.plan.report import LaunchPlan

FULL = AttentionLayers(
    kind=LayerKind.FULL,
    count=16,
    heads=24,
    kv_heads=4,
    key_dim=256,
    value_dim=256,
    score_key_dim=256,
    score_value_dim=256,
)
DELTA = RecurrentLayers(
    kind=LayerKind.DELTA, count=48, conv_dim=10240, conv_kernel=4, state_elements=786432, state_dtype="float32"
)
XML_TEMPLATE = "{% if tools %}<tool_call>\n<function=example>{% endif %}<think>"
HERMES_TEMPLATE = '{% if tools %}<tool_call>{"name": …}</tool_call>{% endif %}'


def model(
    name: str = "Qwen/Qwen3.6-27B",
    architecture: str = "qwen3_5",
    *,
    hybrid: bool = True,
    experts: bool = False,
    draft_layers: int = 1,
    template: str | None = None,
    source: str = "qwen3.6-27b",
) -> ModelFacts:
    """A model of 27e9 parameters; only what a launch command looks at differs."""
    return ModelFacts(
        name=name,
        source=source,
        architecture=architecture,
        n_layers=64,
        attention=(FULL,),
        recurrent=(DELTA,) if hybrid else (),
        experts=Experts(count=128, top_k=8, shared=0, layers=64) if experts else None,
        parameters=Parameters(total=27 * 10**9, active=26 * 10**9, routed_experts=0, embedding=10**9, output=10**9),
        weights=Weights(
            total_bytes=28 * 10**9,
            read_bytes=26 * 10**9,
            routed_expert_bytes=0,
            embedding_bytes=0,
            draft_head_bytes=0,
            other_bytes=0,
            output_bytes=0,
            quant="fp8",
            origin=Origin.INFERRED,
        ),
        hidden_size=5120,
        vocab_size=248320,
        context_tokens=262144,
        draft_layers=draft_layers,
        chat_template=template,
    )


DENSE = model("Qwen/Qwen3-8B", "qwen3", hybrid=False, draft_layers=0)


def planned(facts: ModelFacts, engine: str, **choice: Any) -> LaunchPlan:
    """The command for 16 slots of 16,384 tokens unless `choice` says otherwise."""
    settings: dict[str, Any] = {"slots": 16, "context_tokens": 16384, **choice}
    return launch_plan(facts, LaunchChoice(engine=engine, **settings))


def value_of(plan: LaunchPlan, flag: str) -> str | None:
    """The value of a flag that must be there once."""
    (part,) = (part for part in plan.argv if part.flag == flag)
    return part.value


def reason_of(plan: LaunchPlan, flag: str) -> str:
    """The reason of a flag that must be there once."""
    (part,) = (part for part in (*plan.argv, *plan.environ) if part.flag == flag)
    return part.reason


def flags_of(plan: LaunchPlan) -> set[str]:
    """All flags and variables of a command."""
    return {part.flag for part in (*plan.argv, *plan.environ) if part.flag is not None}


def left_out(plan: LaunchPlan) -> dict[str, str]:
    """Flag → why it is not set."""
    return {left.flag: left.reason for left in plan.left_out}
