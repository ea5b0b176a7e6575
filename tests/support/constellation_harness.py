"""A test harness for the constellation agent: feeds it events without a driver, devices or a planner."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, TypeVar

import msgspec

from asterism.constellation.machine.events import (
    AskPlanner,
    AttemptEnded,
    ConstellationAgentStatus,
    ConstellationSubmitted,
    Dispatch,
    Planned,
    PlanningFailed,
    Retry,
    RunOptions,
)
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.machine.retry import FAILED
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.devices.model.attempt import ErrorCode, TaskError
from asterism.engine.control.run_control import Answered, AskPerson, Forked, Verb
from asterism.engine.kernel.machine import Effect, Machine
from asterism.engine.kernel.permissions import ALL, Permissions
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.kernel.refusal import Refusal
from asterism.engine.kernel.run import Run
from asterism.testing.invariants import life_without_schedule
from tests.support.machine_harness import MachineHarness

E = TypeVar("E", bound=Effect)

# ``d`` and ``d2`` take anything that is said to them; ``s`` and ``s2`` have skills, one of them idempotent.
FLEET = (
    AgentProfile(device_id="d", natural_language=True),
    AgentProfile(device_id="d2", natural_language=True),
    *(
        AgentProfile(
            device_id=device,
            skills=(
                Skill(name="once", description="does it once", parameters={"properties": {"x": {}, "y": {}}}),
                Skill(name="again", description="does it again", parameters={"properties": {"x": {}, "y": {}}}, idempotent=True),
            ),
        )
        for device in ("s", "s2")
    ),
)


class Agent(MachineHarness[ConstellationMemory]):
    """One run of the constellation agent.

    Args:
        plan: given with the request, or None to have it asked for.
        at: seconds since the epoch at which it is submitted.
    """

    machine: ClassVar[Machine[ConstellationMemory]] = CONSTELLATION_AGENT

    def __init__(
        self,
        plan: dict[str, Any] | None = None,
        *,
        at: float = 1000.0,
        fleet: Any = FLEET,
        earlier: Any = (),
        permissions: Permissions = ALL,
        **options: Any,
    ) -> None:
        document = parse_plan(plan) if plan else None
        first = ConstellationSubmitted(request="do it", fleet=fleet, plan=document, options=RunOptions(**options), previous_rounds=earlier)
        super().__init__(self.machine, first, at, permissions)

    # -- what is there -------------------------------------------------------------------------------

    @property
    def constellation(self) -> TaskConstellation:
        return self.memory.constellation

    def task(self, task_id: str) -> TaskStar:
        return self.constellation.tasks[task_id]

    def statuses(self) -> dict[str, str]:
        return {task.task_id: str(task.status) for task in self.constellation.in_order()}

    def with_status(self, status: TaskStatus) -> list[str]:
        return [task.task_id for task in self.constellation.in_order() if task.status is status]

    def running(self) -> list[str]:
        return self.with_status(TaskStatus.RUNNING)

    def outstanding(self, kind: type[E]) -> dict[str, E]:
        return {effect_id: effect for effect_id, effect in self.run.outstanding.items() if isinstance(effect, kind)}

    def attempt(self, task_id: str) -> Dispatch:
        return next(effect for effect in self.outstanding(Dispatch).values() if effect.task_id == task_id)

    def question(self) -> AskPlanner | None:
        return next((it for key, it in self.outstanding(AskPlanner).items() if key not in self.run.cancelled_effects), None)

    def inquiry(self) -> AskPerson:
        return next(iter(self.outstanding(AskPerson).values()))

    # -- what happens --------------------------------------------------------------------------------

    def end_of(self, task_id: str, result: Any = None, error: ErrorCode | None = None) -> AttemptEnded:
        effect = next(key for key, it in self.outstanding(Dispatch).items() if it.task_id == task_id)
        return AttemptEnded(effect_id=effect, result=result, error=TaskError(code=error, message=f"{task_id}: {error}") if error else None)

    def ends(self, task_id: str, result: Any = None, error: ErrorCode | None = None) -> None:
        self.batch(self.end_of(task_id, result, error))

    def reply(self, *actions: dict[str, Any], status: str = "CONTINUE", plan: dict[str, Any] | None = None, **more: Any) -> Planned:
        effect = next(key for key in self.outstanding(AskPlanner) if key not in self.run.cancelled_effects)
        return Planned(
            effect_id=effect, status=ConstellationAgentStatus(status), actions=actions, plan=parse_plan(plan) if plan else None, **more
        )

    def plans(self, *actions: dict[str, Any], **more: Any) -> None:
        self.batch(self.reply(*actions, **more))

    def planning_fails(self, code: str = "planning", reason: str = "no model") -> None:
        effect = next(key for key in self.outstanding(AskPlanner) if key not in self.run.cancelled_effects)
        self.batch(PlanningFailed(effect_id=effect, code=code, reason=reason))

    def answer(self, verb: Verb, value: Any = None, reason: str = "") -> Answered:
        return Answered(effect_id=next(iter(self.outstanding(AskPerson))), verb=verb, value=value, reason=reason)

    def answers(self, verb: Verb, value: Any = None, reason: str = "") -> None:
        self.batch(self.answer(verb, value, reason))


def refusal_in(question: AskPlanner | None) -> Refusal:
    """Return the refusal in the feedback of a request."""
    assert question is not None
    assert question.feedback is not None
    return msgspec.convert(question.feedback.data, Refusal)


def agent_of_rules(rules: int) -> type[Agent]:
    """Return agents that move by an earlier version of the rules."""
    earlier = copy.copy(CONSTELLATION_AGENT)
    earlier.rules = rules

    class Earlier(Agent):
        machine = earlier

    return Earlier


def retried(agent: Agent, *tasks: str) -> Agent:
    """Let tasks of a run run again in a fork, which has its entries before its end was decided."""
    machine = agent.run.machine
    again, copied = agent.__class__.__new__(agent.__class__), Run(machine, "r")
    before = 0
    for entry in agent.entries:
        copied.replay([entry])
        before = entry.seq if copied.state == "CONTINUE" and not copied.memory.concluding else before
    again.run, again.entries, again.now = Run(machine, "r"), agent.entries[:before], agent.now
    again.run.replay(again.entries)
    failed = any(task.status in FAILED for task in again.constellation.in_order())
    retry = [Retry(tasks=tasks)] if tasks or failed else []
    again.batch(Forked(origin="r", seq=again.run.seq, idle_s=0.0), *retry)
    return again


def memory_of(run: Run[ConstellationMemory]) -> dict[str, Any]:
    """Return the memory of a run as JSON data."""
    memory = msgspec.structs.asdict(run.memory) | {"life": life_without_schedule(run.memory)}
    schedule = run.memory.schedule
    return {
        "state": str(run.state),
        "seq": run.seq,
        "outstanding": msgspec.to_builtins(run.outstanding),
        "abandoned": sorted(run.abandoned),
        "story": list(run.history),
        "memory": msgspec.to_builtins(memory, order="deterministic"),
        "schedule": schedule
        and [list(schedule.startable), list(schedule.running), list(schedule.unsatisfiable), schedule.constellation.to_dict()],
        "items": [msgspec.to_builtins(task) for task in run.memory.constellation.in_order_with_items() if task.item_of],
    }
