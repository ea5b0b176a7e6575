"""The memory of a constellation agent. Only its moves write it.

All of it can be converted to data, for snapshots.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from asterism.constellation.machine.answers import check_types, edited_arguments
from asterism.constellation.machine.events import Dispatch, Planned, PlanningFailed, RunOptions, StopAttempt
from asterism.constellation.machine.task_coupling import TaskSchedule
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.fan_out import items_words
from asterism.constellation.model.task import Role, TaskStar, TaskStatus
from asterism.engine.control.run_control import Answered, RunMemory
from asterism.engine.control.usage import Usage
from asterism.engine.control.waits import WaitFor
from asterism.engine.kernel.guards import union
from asterism.engine.kernel.machine import Effect, EffectResult, RecoveryPolicy, StepContext
from asterism.engine.kernel.phrase import Phrase, Text, phrase
from asterism.engine.kernel.profile import Fleet, skill_of

EXTENDED = 4
"""Rules from which on plans have reserved ids and ``${task.error}``, and live edits exact names."""
DEVICE = "device"
"""Kind of a question that the device of an attempt asks."""
NAMED = 10
"""Number of tasks that a summary names."""
UNLIMITED = 2**53
"""Remaining budget where there is no limit: beyond any real usage, and exact as a float."""


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a planner request.

    Attributes:
        batch: ids of the ended tasks to consider.
        reasks: number of refused or rejected answers about this batch.
        feedback: reason why the last answer was refused or rejected.
        reason: reason for the restart, if one asks for a new constellation.
        rejections: reasons why people rejected earlier answers, oldest first.
    """

    batch: tuple[str, ...] = ()
    reasks: int = 0
    feedback: Phrase | None = None
    reason: str = ""
    rejections: tuple[Phrase, ...] = ()


class NotPlanning(msgspec.Struct, frozen=True, tag=True):
    """No decision is open."""


class Deferred(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The planner is to be asked, but cannot be asked yet.

    Attributes:
        counted: True if the request was asked and counted before and ran out of budget; it is asked
            again once the limit is raised.
    """

    request: PlanRequest
    counted: bool = False


class Awaiting(msgspec.Struct, kw_only=True):
    """A request to the planner, or a question to a person, is outstanding.

    Attributes:
        asked_at: seq of the entry that asked the planner; 0 if the plan came with the request.
        moved: ids of tasks that have started or ended since.
        ended_since: True if one of them has ended.
    """

    request: PlanRequest
    effect_id: str
    asked_at: int = 0
    moved: dict[str, None] = msgspec.field(default_factory=dict)
    ended_since: bool = False


class AwaitingPlanner(Awaiting, kw_only=True, tag=True):
    """The planner is asked."""


class AwaitingApproval(Awaiting, kw_only=True, tag=True):
    """A person is asked to approve a proposal of the planner, or a plan that came with the request.

    Attributes:
        proposed: the proposal.
        version: that of the constellation when the question was asked; 0 before there is one, -1 after a device has changed since.
    """

    proposed: Planned
    version: int = 0


PlanningState = NotPlanning | Deferred | AwaitingPlanner | AwaitingApproval
"""Idle, or one open decision of the planner or a person.

    NotPlanning ──► AwaitingPlanner ──► AwaitingApproval    a person must approve the proposal
      ▲                 │  ▲  │                 │
      │                 ▼  │  ▼                 │
      │               Deferred                  │           until cancellations of a restart end,
      │                 │                       │           or the limit is raised
      └─────────────────┴───────────────────────┘           decided

The tasks that ``hold`` names stay on hold until the decision is made. A cancel, an expiry, a fork or
a crash finds one decision to handle.
"""


class Planning(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """There is no constellation: none has been made yet, or a restart has dropped it."""

    schedule: ClassVar[None] = None


class Working(msgspec.Struct, kw_only=True, tag=True):
    """The tasks of the constellation are under way."""

    schedule: TaskSchedule


class Concluding(msgspec.Struct, kw_only=True, tag=True):
    """The end of the run is decided, and its handlers run; they change neither code nor reason.

    Attributes:
        code, reason: code and reason of the end.
        role: role of the handlers that may run; ``task`` until all cancelled effects have ended.
        until: end of their time, in seconds since the epoch; 0 before they may run.
        asking_since: time since when one of them waits for a person, which does not count; 0 if none does.
    """

    schedule: TaskSchedule
    code: str
    reason: Text
    role: Role = "task"
    until: float = 0.0
    asking_since: float = 0.0


RunLife = Planning | Working | Concluding
"""The life of a run. A state CONTINUE is ``Working`` or ``Concluding``; a run that has ended stays as it ended.

    Planning ◄──► Working ──► Concluding    restart; end or give up, with handlers
"""


class ConstellationMemory(RunMemory, msgspec.Struct, kw_only=True, eq=False, omit_defaults=True):
    """The memory of one constellation agent.

    Attributes:
        request, working_directory, fleet_file, options, fleet, inputs, previous_rounds: as
            submitted.
        started_at: seconds since the epoch.
        life: planning, working or concluding, with the constellation and the status of its tasks.
        archive: earlier generations, as ``TaskConstellation.to_dict`` returns them.
        dropped: failed tasks of earlier generations that no task has handled.
        batch: ended tasks for the next planner request, in order.
        unseen: ended tasks that no planner request has included.
        attempts: running attempts by effect id, including those of child runs.
        queued: ids of the attempts that no device has begun.
        busy: number of begun attempts, by device.
        questions: attempts that wait for the answer of a person, by the id of the question.
        waits: open waits of tasks, by the id of the effect.
        looks: questions of devices whose attempts may go on without an answer, by id: the time of the next
            look at the attempt, and the seconds before it. One that is under way is not there.
        handles: handles that devices have reported, by the key of the attempt, until it ends.
        recovered: ids of the running attempts that this owner performs again.
        still_running: what may still run although it was to be stopped, by the key of the
            attempt.
        unstopped: the stops of these that were given up, by the same key, until they are tried again.
        lost_devices: devices that are marked as lost, with the reason.
        changed_devices: devices whose profile has changed since the run began.
        limit: reason why the run has paused itself; empty otherwise.
        asks, restarts: number so far.
        summary: the planner's description of the result.
        params: values of the plan's parameters.
    """

    request: str = ""
    working_directory: str = ""
    fleet_file: str = ""
    inputs: dict[str, Any] = {}
    options: RunOptions = RunOptions()
    fleet: Fleet = {}
    previous_rounds: tuple[dict[str, Any], ...] = ()
    started_at: float = 0.0
    life: RunLife = Planning()
    archive: list[dict[str, Any]] = []
    dropped: tuple[TaskStar, ...] = ()
    planning: PlanningState = NotPlanning()
    batch: dict[str, None] = {}
    unseen: dict[str, None] = {}
    attempts: dict[str, Dispatch] = {}
    queued: dict[str, None] = {}
    busy: dict[str, int] = {}
    questions: dict[str, Dispatch] = {}
    waits: dict[str, WaitFor] = {}
    looks: dict[str, tuple[float, float]] = {}
    handles: dict[str, str] = {}
    recovered: dict[str, None] = {}
    still_running: dict[str, Text] = {}
    unstopped: dict[str, StopAttempt] = {}
    lost_devices: dict[str, str] = {}
    changed_devices: dict[str, None] = {}
    limit: Text = ""
    asks: int = 0
    restarts: int = 0
    used: Usage = Usage()
    summary: dict[str, Any] = {}
    params: dict[str, Any] = {}
    _timers: list[float] = []

    @property
    def schedule(self) -> TaskSchedule | None:
        """Return the constellation with the status of its tasks; None before there is one."""
        return self.life.schedule

    @property
    def concluding(self) -> Concluding | None:
        """Return the decided end of a run with handlers, while they run and after them; None for any other run."""
        return self.life if isinstance(self.life, Concluding) else None

    @property
    def constellation(self) -> TaskConstellation:
        """Return the current constellation; an empty one before there is one."""
        schedule = self.life.schedule
        return schedule.constellation if schedule else TaskConstellation()

    @property
    def open_request(self) -> PlanRequest:
        """Return the planner request of the open decision; an empty one if none is open."""
        return PlanRequest() if isinstance(self.planning, NotPlanning) else self.planning.request

    def wake_at(self) -> float | None:
        """Return the time of the next timer, in seconds since the epoch; None without one."""
        if self.code:
            return None
        ends = not self.waiting_since and self.started_at and not self.concluding
        timers = [*self._timers[:1], *([self.wall_end(self.started_at)] if ends else [])]
        return min(timers, default=None)

    def wall_end(self, at: float) -> float:
        """Return when the time of the run is over, as far as is known at ``at``: time in which it only waits does not count."""
        return self.started_at + self.options.wall_limit_s + self.waited_until(at)

    def wake_up_at(self, at: float) -> None:
        """Schedule a `BatchEnded` event at ``at``, in seconds since the epoch."""
        heapq.heappush(self._timers, at)

    def inquiry_limit_s(self, kind: str) -> float | None:
        """Return the seconds after which a question expires: nothing else bounds that of a handler."""
        return self.options.inquiry_timeout_s or (self.options.wall_limit_s if self.concluding else None)

    @staticmethod
    def edit_of(subject: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
        """Return an edit of a task's arguments without those that are shown as references to secrets."""
        return edited_arguments(subject, value)

    def check_values(self, given: Answered) -> None:
        """Check an edit or a result against the types that the skill of the task declares."""
        attempt = self.questions.get(given.effect_id)
        if attempt is None or self.asked_by_device(given.effect_id):
            return  # it is about a plan, or a device has asked and checks the answer; or it has just been closed
        if skill := skill_of(self.fleet, attempt.device_id, attempt.skill):
            check_types(attempt, skill, given)

    def asked_by_device(self, inquiry_id: str) -> Dispatch | None:
        """Return the attempt whose device has asked an open question; None for any other id."""
        inquiry = self.inquiries.get(inquiry_id)
        return self.questions[inquiry_id] if inquiry is not None and inquiry.kind == DEVICE else None

    def timers_due(self, at: float) -> bool:
        """Remove the timers that are due; return True if there were any."""
        due = False
        while self._timers and self._timers[0] <= at:
            heapq.heappop(self._timers)
            due = True
        return due

    def count_usage(self, event: EffectResult) -> None:
        """Add the usage of a planner result."""
        if isinstance(event, Planned | PlanningFailed):
            self.used = self.used.plus(event.usage)

    def has_free_place(self, device: str) -> bool:
        """Return True if this run has fewer begun attempts on a device than the device performs at a time."""
        return device not in self.fleet or self.busy.get(device, 0) < self.fleet[device].concurrency

    def add_attempt(self, effect_id: str, attempt: Dispatch) -> None:
        """Add a running attempt."""
        self.attempts[effect_id] = attempt
        if attempt.queued:
            self.queued[effect_id] = None
        else:
            self._count_busy(effect_id, 1)

    def begin_attempt(self, effect_id: str) -> None:
        """Count a queued attempt as begun."""
        del self.queued[effect_id]
        self._count_busy(effect_id, 1)

    def queue_attempt(self, effect_id: str) -> None:
        """Count a begun attempt as queued."""
        self.queued[effect_id] = None
        self._count_busy(effect_id, -1)

    def remove_attempt(self, effect_id: str) -> None:
        """Remove an attempt, if it is running."""
        if effect_id in self.queued:
            del self.queued[effect_id]
        elif effect_id in self.attempts:
            self._count_busy(effect_id, -1)
        self.attempts.pop(effect_id, None)
        self.recovered.pop(effect_id, None)

    def never_began(self, effect_id: str) -> bool:
        """Return True for an attempt of which nothing has happened: it waits in the queue for its first leg."""
        return effect_id in self.queued and self.attempts[effect_id].leg == 1

    def _count_busy(self, effect_id: str, by: int) -> None:
        device = self.attempts[effect_id].device_id
        if busy := self.busy.get(device, 0) + by:
            self.busy[device] = busy
        else:
            del self.busy[device]

    def recovery_of(self, effect_id: str, effect: Effect) -> RecoveryPolicy:
        """Return the policy for an effect after a crash: an attempt that has not begun, or has a handle, is performed."""
        if effect_id in self.queued:
            return RecoveryPolicy.RETRY_SAME_KEY
        found = isinstance(effect, Dispatch) and effect.key(effect_id) in self.handles and not effect.repeatable
        return RecoveryPolicy.REATTACH if found else effect.recovery_policy

    def note_concerned(self, names: tuple[str, ...]) -> None:
        """Note that guards of a plan concern the tasks that are there."""
        for task in self.constellation.tasks.values():
            task.concerned_by = union(task.concerned_by, names)

    def has_pending_work(self) -> bool:
        """Return True if a task can start without a person, perhaps after a backoff."""
        return bool(self.schedule and set(self.schedule.startable) - self.held())

    def held(self) -> set[str]:
        """Return the ids of tasks on hold, which wait for the open decision."""
        if self.schedule is None or self.options.hold == "none" or (isinstance(self.planning, NotPlanning) and not self.batch):
            return set()
        if self.options.hold == "all":
            return set(self.schedule.startable)
        constellation = self.schedule.constellation
        roots = [*self.open_request.batch, *self.batch]
        return set().union(*(constellation.descendants(task_id) for task_id in roots if task_id in constellation.tasks))

    def postpone(self, by_s: float, context: StepContext) -> None:
        """Move all timers later."""
        self.started_at += by_s
        self._timers = [at + by_s for at in self._timers]
        if (concluding := self.concluding) and concluding.until:
            concluding.until += by_s
            concluding.asking_since += by_s if concluding.asking_since else 0.0
        for task in self.constellation.tasks.values():
            if task.not_before:
                task.not_before += by_s
                context.touch("task", task.task_id)

    def budget_left(self) -> Usage | None:
        """Return the usage left for planning, with all tokens as ``input_tokens``.

        Return None without limits. If one of the two is not limited, it is ``UNLIMITED``.
        """
        tokens, cost_usd = self.options.max_tokens, self.options.max_cost_usd
        if tokens is None and cost_usd is None:
            return None
        return Usage(
            input_tokens=UNLIMITED if tokens is None else max(0, tokens - self.used.tokens),
            cost_usd=float(UNLIMITED) if cost_usd is None else max(0.0, cost_usd - self.used.cost_usd),
        )

    def result(self) -> dict[str, Any]:
        """Return the result for the user.

        It has a summary and the number of tasks by status; on failure a code and reason. Handlers are
        not counted; those that failed are named, with their errors.
        """
        tasks = [task for task in self.constellation.tasks.values() if task.role == "task" and not task.item_of]
        failed = {task.task_id: task.error.words for task in self.constellation.in_order() if _is_failed_handler(task) and task.error}
        counts = {status: sum(1 for task in tasks if task.status is status) for status in TaskStatus}
        return {
            "summary": self.summary.get("summary") or self._summary(counts, len(tasks)),
            "total_tasks": len(tasks),
            "completed": counts[TaskStatus.COMPLETED],
            "failed": counts[TaskStatus.FAILED],
            "skipped": counts[TaskStatus.SKIPPED],
            "cancelled": counts[TaskStatus.CANCELLED],
            **({"handlers_failed": failed} if failed else {}),
            **({"still_running": [*map(str, self.still_running.values())]} if self.still_running else {}),
            **self.failure_info(),
        }

    def report(self) -> dict[str, Any]:
        """Return the result for the parent run, with the results of the completed tasks by id."""
        completed = (task for task in self.constellation.in_order() if task.status is TaskStatus.COMPLETED)
        return {**self.result(), "results": {task.task_id: task.result for task in completed}}

    def _summary(self, counts: dict[TaskStatus, int], total: int) -> str:
        parts = [f"{counts[status]} {status.lower()}" for status in TaskStatus if counts[status]]
        head = f"{total} task{'s' * (total != 1)}: {', '.join(parts)}" if total else str(phrase("no_plan"))
        unmet = [
            f"{task.task_id} {task.name}".rstrip() + f" ({task.error.words})"
            for task in self.constellation.in_order()
            if task.role == "task" and task.status in (TaskStatus.SKIPPED, TaskStatus.FAILED, TaskStatus.CANCELLED) and task.error
        ]
        unmet += [
            f"{task.role} task {task.task_id} is {task.status} ({task.error.words})"
            for task in self.constellation.in_order()
            if _is_failed_handler(task) and task.error
        ]
        unmet += [
            f"{task.task_id}: {items_words(task.items)}"
            for task in self.constellation.in_order()
            if task.items is not None and task.status is TaskStatus.COMPLETED and task.items.completed < task.items.total
        ]
        more = [f"and {len(unmet) - NAMED} more"] if len(unmet) > NAMED else []
        return "; ".join([head, *unmet[:NAMED], *more])


def _is_failed_handler(task: TaskStar) -> bool:
    return task.role != "task" and task.status in (TaskStatus.FAILED, TaskStatus.CANCELLED)
