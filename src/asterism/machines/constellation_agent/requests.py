"""The requests to planners and devices, made from a run's memory. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from asterism.constellation.profile import AgentProfile
from asterism.constellation.resolution import predecessor_results
from asterism.kernel.machine import Effect, RequestFactory
from asterism.kernel.run import Run
from asterism.machines.constellation_agent.events import AskPlanner, Dispatch
from asterism.machines.constellation_agent.memory import ConstellationMemory
from asterism.machines.constellation_agent.previous_rounds import previous_rounds_of
from asterism.machines.usage import Usage


class PlannerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request to a planner.

    Attributes:
        key: id of the effect, its idempotency key.
        mode: CREATION or EDITING.
        request: the user's words.
        fleet: profiles by device id.
        constellation: the current one as ``to_dict`` returns it; None in CREATION.
        batch: ids of the ended tasks to consider.
        feedback: reason why the last answer was rejected; empty on a first request.
        reason: reason for a new constellation after a restart.
        rejections: reasons why people rejected earlier answers, oldest first.
        previous_rounds: rounds of the session, then archived generations of this run, oldest first, bounded
            (``previous_rounds_of``).
        budget_left: ``tokens`` and ``cost_usd`` left for the answer; None for no limit.
        number: number of the request within the run, from 1.
    """

    key: str
    mode: Literal["CREATION", "EDITING"]
    request: str
    fleet: dict[str, AgentProfile]
    constellation: dict[str, Any] | None = None
    batch: tuple[str, ...] = ()
    feedback: str = ""
    reason: str = ""
    rejections: tuple[str, ...] = ()
    previous_rounds: tuple[dict[str, Any], ...] = ()
    budget_left: Usage | None = None
    number: int = 1


class AttemptRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request for an attempt.

    Attributes:
        attempt: the effect: task, device, skill and arguments.
        results: JSON results of the direct predecessors, by task id.
        folder: working directory of the run.
    """

    attempt: Dispatch
    results: dict[str, Any] = msgspec.field(default_factory=dict)
    folder: str = ""


def _question(run: Run[ConstellationMemory], effect_id: str, effect: AskPlanner) -> PlannerRequest:
    memory = run.memory
    return PlannerRequest(
        key=effect_id,
        mode=effect.mode.value,
        request=effect.request,
        fleet=dict(memory.fleet),
        constellation=memory.schedule.constellation.to_dict() if memory.schedule else None,
        batch=effect.batch,
        feedback=effect.feedback,
        reason=memory.open_request.reason,
        rejections=effect.rejections,
        previous_rounds=previous_rounds_of(memory),
        budget_left=memory.budget_left(),
        number=effect.number,
    )


def _attempt(run: Run[ConstellationMemory], effect_id: str, effect: Dispatch) -> AttemptRequest:
    constellation = run.memory.constellation
    results = predecessor_results(constellation.tasks[effect.task_id], constellation)
    if effect.sources is not None:  # others may have completed since
        results = {task_id: result for task_id, result in results.items() if task_id in effect.sources}
    return AttemptRequest(attempt=effect, results=results, folder=run.memory.working_directory)


REQUESTS: Mapping[type[Effect], RequestFactory] = {
    # Tasks start and end while the planner works
    AskPlanner: RequestFactory(_question, fixed=PlannerRequest),
    Dispatch: RequestFactory(_attempt),
}
"""The request factories of its effects."""
