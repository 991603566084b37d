"""The simulated server of one session, as the plan has it."""

from __future__ import annotations

from tests.chaos.plan import CONTEXT, Plan
from tests.sim.small_server import RoundCosts
from widelane.clock import Clock
from widelane.sim.answers.answer import Answerer
from widelane.sim.chat_template import ChatTemplate
from widelane.sim.faults.catalogue import FaultChoice
from widelane.sim.server import SimServer
from widelane.sim.settings import ServerSettings


def chaos_server(plan: Plan, number: int, *, answerer: Answerer, faults: FaultChoice | None, clock: Clock) -> SimServer:
    """A server with round costs; each session's is another boot of it, with other noise.

    Args:
        number: of the session.
        faults: None: healthy, and called without a byte of HTTP where its habits allow it.
    """
    config = plan.config
    settings = ServerSettings(
        engine=plan.engine, model="Qwen/Qwen3.6-27B", template=ChatTemplate(thinks=False, xml_calls=True),
        slots=config.slots, context_tokens=CONTEXT, unified=plan.unified,
        pool_tokens=None if config.pool is None else config.pool.capacity,
        draft_depth=config.draft_depth, habits=plan.habits,
    )  # fmt: skip
    return SimServer(
        config, RoundCosts(), settings,
        seed=plan.seed * 100 + number, answerer=answerer, faults=faults, clock=clock,
    )  # fmt: skip
