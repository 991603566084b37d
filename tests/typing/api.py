"""The public types as a user's type checker sees them (checked by mypy, never run)."""

from widelane.figures import Figure, Origin
from widelane.plan.make import make_plan
from widelane.plan.report import LaunchPlan
from widelane.plan.request import PlanRequest
from widelane.records import Backend, ChatRequest, Reply


async def ask(backend: Backend) -> Reply:
    return await backend.complete(ChatRequest(messages=[{"role": "user", "content": "Hi"}], max_tokens=8))


slots: Figure = Figure(4, "slots", Origin.READ)
number: float | None = slots.number


def command(request: PlanRequest) -> str:
    launch: LaunchPlan = make_plan(request).launch
    return launch.command
