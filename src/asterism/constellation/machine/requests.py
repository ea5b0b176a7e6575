"""The requests to planners and devices, made from a run's memory. Pure.

A planner also receives earlier rounds of the session and archived generations of the run, bounded:
long results are cut, with a note; whole results are in the journals.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Literal

import msgspec

from asterism.constellation.machine.events import AskPlanner, Dispatch, LookAtAttempt, StopAttempt
from asterism.constellation.machine.items import stops_after_failure
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.model.resolution import predecessor_results
from asterism.devices.model.attempt import Attempt, AttemptFields, TaskError
from asterism.devices.model.references import SECRET, secret_paths
from asterism.engine.control.usage import Usage
from asterism.engine.kernel.machine import Effect, RequestFactory
from asterism.engine.kernel.phrase import phrase
from asterism.engine.kernel.profile import AgentProfile
from asterism.engine.kernel.run import Run

MAX_ROUNDS = 5
"""Number of earlier rounds and, separately, of archived generations; the newest ones."""
MAX_TASKS = 100
"""Number of tasks in each of them."""
MAX_TEXT = 500
"""Characters of one result, as JSON, or of one error."""


def previous_rounds_of(memory: ConstellationMemory) -> tuple[dict[str, Any], ...]:
    """Return the session's earlier rounds, then this run's archived generations, oldest first."""
    return (*memory.previous_rounds[-MAX_ROUNDS:], *(digest(archived) for archived in memory.archive[-MAX_ROUNDS:]))


def round_of(run_id: str, memory: ConstellationMemory) -> dict[str, Any]:
    """Return a run as an earlier round of another one.

    The round is ``{run, request, outcome, summary}`` and a digest of the last constellation.
    """
    head = {"run": run_id, "request": memory.request, "outcome": memory.outcome(), "summary": memory.result()["summary"]}
    return head | digest(memory.constellation.to_dict())


def digest(constellation: Mapping[str, Any]) -> dict[str, Any]:
    """Return a constellation in short.

    Args:
        constellation: as ``TaskConstellation.to_dict`` returns it.

    Returns:
        ``{generation, name, tasks: [{task_id, name, device, status, result, error}], dependencies:
            [{from, to}], left_out}``; ``left_out`` counts the tasks beyond ``MAX_TASKS``.
    """
    tasks = constellation["tasks"][:MAX_TASKS]
    listed = {task["task_id"] for task in tasks}
    pairs = [{"from": line["from"], "to": line["to"]} for line in constellation["dependencies"]]
    return {
        "generation": constellation["generation"],
        "name": constellation["name"],
        "tasks": [_task(task) for task in tasks],
        "dependencies": [pair for pair in pairs if pair["from"] in listed and pair["to"] in listed],
        "left_out": len(constellation["tasks"]) - len(tasks),
    }


def _task(task: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: task[name] for name in ("task_id", "name", "device", "status") if task.get(name)}
    if task.get("result") is not None:
        found["result"] = _cut(task["result"])
    if task.get("error"):
        found["error"] = msgspec.convert(task["error"], TaskError).words[:MAX_TEXT]
    return found


def _cut(result: Any) -> Any:
    text = msgspec.json.encode(result).decode()
    return result if len(text) <= MAX_TEXT else str(phrase("cut", text=text[:MAX_TEXT], count=len(text)))


class PlannerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request to a planner.

    Attributes:
        key: id of the effect, its idempotency key.
        mode: CREATION or EDITING.
        fleet: profiles by device id.
        lost: ids of the devices that are lost now.
        busy: number of attempts of this run that a device performs now, by device id.
        constellation: the current one as ``to_dict`` returns it; None in CREATION.
        batch: ids of the ended tasks to consider.
        feedback: reason why the last answer was refused or rejected; empty on a first request.
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
    lost: tuple[str, ...] = ()
    busy: dict[str, int] = {}
    constellation: dict[str, Any] | None = None
    batch: tuple[str, ...] = ()
    feedback: str = ""
    reason: str = ""
    rejections: tuple[str, ...] = ()
    previous_rounds: tuple[dict[str, Any], ...] = ()
    budget_left: Usage | None = None
    number: int = 1


def _question(run: Run[ConstellationMemory], effect_id: str, effect: AskPlanner) -> PlannerRequest:
    memory = run.memory
    return PlannerRequest(
        key=effect_id,
        mode=effect.mode.value,
        request=effect.request,
        fleet=dict(memory.fleet),
        lost=tuple(device for device in memory.lost_devices if device in memory.fleet),
        busy=dict(memory.busy),
        constellation=memory.schedule.constellation.to_dict() if memory.schedule else None,
        batch=effect.batch,
        feedback=str(effect.feedback or ""),
        reason=memory.open_request.reason,
        rejections=tuple(map(str, effect.rejections)),
        previous_rounds=previous_rounds_of(memory),
        budget_left=memory.budget_left(),
        number=effect.number,
    )


_FIELDS = AttemptFields.__struct_fields__
_fields_of = attrgetter(*_FIELDS)


def _attempt(run: Run[ConstellationMemory], effect_id: str, effect: Dispatch) -> Attempt:
    return attempt_request(run.memory, run.id, effect_id, effect)


def attempt_request(memory: ConstellationMemory, run_id: str, effect_id: str, effect: Dispatch) -> Attempt:
    """Return an attempt as its device receives it."""
    constellation = memory.constellation
    task = constellation.tasks[effect.task_id]
    results = predecessor_results(task, constellation)
    if effect.sources is not None:
        results = {task_id: result for task_id, result in results.items() if task_id in effect.sources}
    seq, _, index = effect_id.rpartition(":")[2].partition(".")
    key, repeatable = effect.key(effect_id), effect.repeatable
    queued = effect_id in memory.queued
    return Attempt(
        key=key,
        run_id=run_id,
        **dict(zip(_FIELDS, _fields_of(effect), strict=True)),
        results=results,
        issued=(int(seq), int(index)),
        folder=memory.working_directory,
        queued=queued,
        repeatable=repeatable,
        begins_durably=not repeatable or stops_after_failure(task, constellation),
        # Only repeatable work may have begun before its begin was journaled.
        again=effect_id in memory.recovered and (repeatable or not queued),
        handle=memory.handles.get(key, ""),
        since=task.started_at,
        secrets=() if SECRET in constellation.tasks else tuple(secret_paths(task.inputs, effect.arguments)),
        is_foreign=task.is_foreign,
    )


def _look(run: Run[ConstellationMemory], effect_id: str, effect: LookAtAttempt) -> Attempt:
    return attempt_request(run.memory, run.id, effect_id, run.memory.questions[effect.inquiry_id])


class StopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request to end an attempt on its device.

    Attributes:
        attempt: the attempt as far as it is known, without arguments.
        until: epoch second until which it is tried; at least one try is made.
    """

    attempt: Attempt
    until: float


def _stop(run: Run[ConstellationMemory], effect_id: str, effect: StopAttempt) -> StopRequest:
    attempt = Attempt(
        key=effect.of,
        run_id=run.id,
        task_id=effect.task_id,
        device_id=effect.device,
        skill=effect.skill,
        again=True,
        handle=effect.handle,
        leg=effect.leg,
        state=effect.state,
        since=run.memory.started_at,
    )
    return StopRequest(attempt=attempt, until=effect.until)


REQUESTS: Mapping[type[Effect], RequestFactory] = {
    # Tasks start and end while the planner works
    AskPlanner: RequestFactory(_question, fixed=PlannerRequest),
    Dispatch: RequestFactory(_attempt),
    LookAtAttempt: RequestFactory(_look),
    StopAttempt: RequestFactory(_stop),
}
"""The request factories of its effects."""
