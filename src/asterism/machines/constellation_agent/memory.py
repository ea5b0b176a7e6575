"""What a constellation agent remembers. Only its moves write it.

All of it is data, or freezes to data: a snapshot is this, written down.
"""

from __future__ import annotations

import heapq
from typing import Any, Literal

import msgspec

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.profile import Fleet
from asterism.constellation.task import TaskStatus
from asterism.kernel.machine import EffectResult, StepContext
from asterism.machines.constellation_agent.events import Dispatch, Planned, PlanningFailed, RunOptions
from asterism.machines.constellation_agent.planning_state import NotPlanning, PlanningState, PlanRequest
from asterism.machines.run_control import RunMemory
from asterism.machines.task_coupling import TaskSchedule
from asterism.machines.usage import Usage

NAMED = 10
"""How many unfinished tasks a summary names."""
UNLIMITED = 2**53
"""What is left of a budget that nobody has limited: more than anybody uses, and still exact as a float."""


About = Literal["approval", "interruption"]
"""What a person is asked of an attempt."""


class AttemptInquiry(msgspec.Struct, frozen=True, kw_only=True):
    """What a person's answer will be about: the attempt that waits for it."""

    kind: About
    task_id: str
    attempt: Dispatch
    prompt: str
    expires_at: float


class ConstellationMemory(RunMemory, msgspec.Struct, kw_only=True, eq=False, omit_defaults=True):
    """The memory of one constellation agent.

    Attributes:
        request, working_directory, fleet_file, options, fleet, inputs, previous_rounds: as submitted.
        started_at: seconds since the epoch.
        schedule: the constellation and where its tasks stand; None before there is one.
        archive: earlier generations, as ``TaskConstellation.to_dict`` gives them.
        planning: what is being decided about the constellation.
        batch: ended tasks that the planner is to be asked about, in order.
        unseen: ended tasks it has not been asked about.
        attempts: attempts under way, by effect id; those made by child runs too.
        questions: open questions to people, by effect id.
        lost: devices that are gone, and why.
        limit: why it has paused itself; empty where it has not.
        asks, restarts: how many so far.
        used: what planning has used so far.
        summary: what the planner says the result is.
    """

    request: str = ""
    working_directory: str = ""
    fleet_file: str = ""
    inputs: dict[str, Any] = {}
    options: RunOptions = RunOptions()
    fleet: Fleet = {}
    previous_rounds: tuple[dict[str, Any], ...] = ()
    started_at: float = 0.0
    schedule: TaskSchedule | None = None
    archive: list[dict[str, Any]] = []
    planning: PlanningState = NotPlanning()
    batch: dict[str, None] = {}
    unseen: dict[str, None] = {}
    attempts: dict[str, Dispatch] = {}
    questions: dict[str, AttemptInquiry] = {}
    lost: dict[str, str] = {}
    limit: str = ""
    asks: int = 0
    restarts: int = 0
    used: Usage = Usage()
    summary: dict[str, Any] = {}
    _timers: list[float] = []

    @property
    def constellation(self) -> TaskConstellation:
        """The current constellation; an empty one before there is one."""
        return self.schedule.constellation if self.schedule else TaskConstellation()

    @property
    def open_request(self) -> PlanRequest:
        """What the planner is, was or will be asked about what is being decided; an empty one where nothing is."""
        return PlanRequest() if isinstance(self.planning, NotPlanning) else self.planning.request

    def wake_at(self) -> float | None:
        """When the next backoff, deadline, expiry or limit is due, seconds since the epoch."""
        return self._timers[0] if self._timers and not self.code else None

    def wake_up_at(self, at: float) -> None:
        """Have BatchEnded come at that time, whatever it finds then."""
        heapq.heappush(self._timers, at)

    def timers_due(self, at: float) -> bool:
        """Drop the times that have come; True if there were any."""
        due = False
        while self._timers and self._timers[0] <= at:
            heapq.heappop(self._timers)
            due = True
        return due

    def count_usage(self, event: EffectResult) -> None:
        """Count what planning has used."""
        if isinstance(event, Planned | PlanningFailed):
            self.used = self.used.plus(event.usage)

    def has_pending_work(self) -> bool:
        """True when it will go on without a person: after a backoff, or when a device is back."""
        return bool(self.schedule and set(self.schedule.startable) - self.held())

    def held(self) -> set[str]:
        """Ids of tasks that wait for a decision: something they depend on has been, or is about to be, asked about."""
        if self.schedule is None or self.options.hold == "none" or (isinstance(self.planning, NotPlanning) and not self.batch):
            return set()
        if self.options.hold == "all":
            return set(self.schedule.startable)
        constellation = self.schedule.constellation
        roots = [*self.open_request.batch, *self.batch]
        return set().union(*(constellation.descendants(task_id) for task_id in roots if task_id in constellation.tasks))

    def postpone(self, by_s: float, context: StepContext) -> None:
        """Move every time that lies ahead."""
        self.started_at += by_s
        self._timers = [at + by_s for at in self._timers]
        for task in self.constellation.tasks.values():
            if task.not_before:
                task.not_before += by_s
                context.touch("task", task.task_id)

    def budget_left(self) -> Usage | None:
        """What planning may still use, all tokens as ``input_tokens``; None where nothing is limited.

        Where one of the two is not limited, it is ``UNLIMITED``.
        """
        tokens, cost_usd = self.options.max_tokens, self.options.max_cost_usd
        if tokens is None and cost_usd is None:
            return None
        return Usage(
            input_tokens=UNLIMITED if tokens is None else max(0, tokens - self.used.tokens),
            cost_usd=float(UNLIMITED) if cost_usd is None else max(0.0, cost_usd - self.used.cost_usd),
        )

    def result(self) -> dict[str, Any]:
        """The result for the user: summary, total_tasks, completed, failed, skipped, cancelled; on failure code and reason."""
        tasks = list(self.constellation.tasks.values())
        counts = {status: sum(1 for task in tasks if task.status is status) for status in TaskStatus}
        return {
            "summary": self.summary.get("summary") or self._told(counts, len(tasks)),
            "total_tasks": len(tasks),
            "completed": counts[TaskStatus.COMPLETED],
            "failed": counts[TaskStatus.FAILED],
            "skipped": counts[TaskStatus.SKIPPED],
            "cancelled": counts[TaskStatus.CANCELLED],
            **self.failure_info(),
        }

    def report(self) -> dict[str, Any]:
        """The result for the run whose task this one carries out: with the results of its tasks, by id."""
        completed = (task for task in self.constellation.in_order() if task.status is TaskStatus.COMPLETED)
        return {**self.result(), "results": {task.task_id: task.result for task in completed}}

    def _told(self, counts: dict[TaskStatus, int], total: int) -> str:
        parts = [f"{counts[status]} {status.lower()}" for status in TaskStatus if counts[status]]
        told = f"{total} task{'s' * (total != 1)}: {', '.join(parts)}" if total else "no plan"
        unmet = [
            f"{task.task_id} {task.name}".rstrip() + f" ({task.error.message})"
            for task in self.constellation.in_order()
            if task.status in (TaskStatus.SKIPPED, TaskStatus.FAILED, TaskStatus.CANCELLED) and task.error
        ]
        more = [f"and {len(unmet) - NAMED} more"] if len(unmet) > NAMED else []
        return "; ".join([told, *unmet[:NAMED], *more])
