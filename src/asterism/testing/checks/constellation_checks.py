"""Checks of a constellation run: its graph, task starts, read-only tasks, retries and approvals, and what its remote devices count."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from asterism.constellation.machine.events import (
    BUDGET,
    AskPlanner,
    AttemptBegun,
    AttemptEnded,
    AttemptQueued,
    AttemptStopped,
    Dispatch,
    Planned,
    PlanningFailed,
    Retry,
    StopAttempt,
)
from asterism.constellation.machine.memory import ConstellationMemory, NotPlanning
from asterism.constellation.model.task import TaskStar
from asterism.devices.model.attempt import DeviceFound, DeviceLost
from asterism.engine.control.children import ChildEnded, StartChild
from asterism.engine.control.run_control import Answered, AskPerson, CancelEffect, Forked, OwnershipAcquired
from asterism.engine.control.usage import Usage
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Effect, EffectResult, RecoveryPolicy
from asterism.engine.kernel.phrase import Text
from asterism.engine.kernel.run import Run
from asterism.testing.checks.run_checks import REACTION_S, RunChecks, canonical
from asterism.testing.device import Performance
from asterism.testing.invariants import (
    EDITABLE,
    SETTLED,
    constellation_facts,
    early_handler,
    find_cycle,
    held_by,
    read_only_form,
    retried_by,
    subject_of,
    unexplained_wait,
    unsatisfied_dependency,
    why_miscounted,
)
from asterism.testing.remote import RemoteJob

FULLY_CHECKED_TASKS = 64
"""Maximum number of tasks for a full check after every entry; larger constellations are checked at intervals."""
STRIDE = 200
"""Entries between two full checks of a large constellation."""
MAX_LOST = 10
"""Attempts at one task that may be lost with their device."""
GRACE_S = 10.0
"""Seconds that a stopped attempt may take to end."""


class _RemoteChecks:
    """The attempts of one run that remote devices perform. A fork begins with none: those of its original are not its own."""

    def __init__(self) -> None:
        self._ends: dict[str, AttemptEnded] = {}
        self._attempts: dict[str, Dispatch] = {}
        self._stopped: set[str] = set()
        self._jobs: dict[str, list[RemoteJob]] = {}

    def note(self, entry: Entry, effects: Mapping[str, Effect]) -> None:
        """Note an entry that was replayed, whose effects are among these."""
        event = entry.event
        if isinstance(event, Forked):
            self._ends.clear()
            self._attempts.clear()
        if entry.note:
            return
        effect = effects.get(event.effect_id) if isinstance(event, AttemptEnded | AttemptStopped) else None
        if isinstance(event, AttemptEnded) and isinstance(effect, Dispatch) and event.question is None:
            self._ends[effect.key(event.effect_id)] = event
            self._attempts[effect.key(event.effect_id)] = effect
        elif isinstance(event, AttemptStopped) and isinstance(effect, StopAttempt) and not event.error:
            self._stopped.add(effect.of)

    def why_not_begun(self, job: RemoteJob, *, is_known: bool, is_unrepeatable: bool) -> str:
        """Return why a job that has begun must not begin; empty if it may."""
        earlier = [it for it in self._jobs.get(job.key, []) if not it.is_forgotten]
        self._jobs.setdefault(job.key, []).append(job)
        if not is_known:
            return f"{job.key} has begun, but is not in the journal"
        if earlier and is_unrepeatable:
            return f"{job.key} has begun {len(earlier) + 1} times"
        return f"{job.key} has begun after it was stopped" if job.key in self._stopped else ""

    def why_left(self, run: Run[ConstellationMemory], jobs: Sequence[RemoteJob], devices: Mapping[str, object]) -> str:
        """Return what is wrong with the jobs of the run at the end of its world; empty if nothing is."""
        memory = run.memory
        named = {effect.key(effect_id) for effect_id, effect in memory.attempts.items()} | memory.still_running.keys()
        named |= {attempt.first for attempt in memory.questions.values()}
        named |= {effect.of for effect in run.outstanding.values() if isinstance(effect, StopAttempt)}
        named |= {key for key, end in self._ends.items() if end.error is not None and end.error.code == "interrupted"}
        for job in jobs:
            if job.status in ("running", "asking") and job.key not in named:
                return f"{job.key} is {job.status} on {job.attempt.device_id}, and the run does not name it"
        for key, end in self._ends.items():
            if end.error is None and self._attempts[key].device_id in devices:
                done = [job for job in jobs if job.key == key and job.status == "ended"]
                counted = [job for job in done if not job.is_forgotten]
                if not done or (len(counted) > 1 and not self._attempts[key].repeatable):
                    return f"{key} has a result, but {len(counted or done)} of its jobs have ended"
        return ""


class ConstellationChecks(RunChecks[ConstellationMemory]):
    """Checks of one run of the constellation agent."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._read_only: dict[str, tuple[bytes, bytes]] = {}
        self._generation: tuple[int, int] = (0, -1)
        self._approved: set[bytes] = set()
        self._approved_plans: set[int] = set()
        self._uncertain: set[str] = set()
        self._running: set[str] = set()
        self._lost: set[str] = set()  # devices, as this owner knows
        self._asked, self._used = 0, Usage()
        self._tried: dict[str, tuple[TaskStar, int, float]] = {}  # task, number of attempts, earliest next start
        self._ending: TaskStar | None = None
        self._remote = _RemoteChecks()
        self._started_at: dict[str, float] = {}
        self._decided: tuple[str, Text] | None = None
        self._queued: set[str] = set()  # attempts that have not begun
        self._begun: set[str] = set()  # attempts that were queued, and have begun
        self._settled: set[str] = set()  # tasks that had ended before an entry that asks the planner
        self._retried: set[str] = set()  # tasks that were retried, or an item of theirs
        self._begun_before_retry: dict[str, TaskStar] = {}  # tasks that had started when others were retried

    def compares_fully(self, written: int) -> bool:
        """Return True for a small constellation, and at intervals for a large one."""
        return len(self.replayed.memory.constellation.tasks) <= FULLY_CHECKED_TASKS or self.replayed.seq % STRIDE < written

    def unexplained_wait(self, run: Run[ConstellationMemory]) -> str:
        """Return as the base class does; a run may also wait for a backoff or a lost device.

        A backoff that has just passed counts: the store may be slow to write the retry.
        """
        return unexplained_wait(run, self.now() - REACTION_S, self._lost)

    def runnable_work(self) -> str:
        """Return the tasks that could start."""
        memory = self.replayed.memory
        held = held_by(memory)
        startable = [task_id for task_id in (memory.schedule.startable if memory.schedule else ()) if task_id not in held]
        return f"{', '.join(startable)} can start" if startable else ""

    def is_unrepeatable(self, effect: Effect) -> bool:
        if not isinstance(effect, Dispatch):
            return False
        profile = self.replayed.memory.fleet.get(effect.device_id)
        return not any(skill.name == effect.skill and skill.idempotent for skill in (profile.skills if profile else ()))

    def is_ending(self) -> bool:
        memory = self.replayed.memory
        return memory.concluding is not None and (memory.paused or bool(memory.questions))

    def facts(self, run: Run[ConstellationMemory]) -> dict[str, Any]:
        """Return the complete state of a run, for comparison."""
        return constellation_facts(run)

    def limit_s(self) -> float | None:
        ending = self.replayed.memory.concluding
        if ending is None:
            memory = self.replayed.memory
            return memory.options.wall_limit_s + memory.waited_until(self.now())
        is_stopping = any(isinstance(effect, StopAttempt) for effect in self.replayed.outstanding.values())
        if not ending.until or ending.asking_since or self.replayed.cancelled_effects or self.replayed.abandoned or is_stopping:
            return None  # handlers wait for a person, for what was cancelled, or for what is being stopped
        return ending.until - self.began_at

    def overdue(self) -> str:
        """Return as the base class does; also an attempt past its timeout or deadline."""
        by, gone = self.now() - GRACE_S - REACTION_S, self.replayed.cancelled_effects | self._copied_effects
        for key, effect in self.replayed.outstanding.items():
            if not isinstance(effect, Dispatch) or key in gone:
                continue
            since = self._started_at.get(key)
            if (since is not None and effect.timeout_s is not None and since + effect.timeout_s < by) or (effect.deadline or by) < by:
                return f"{key} still runs after its time (timeout {effect.timeout_s}, deadline {effect.deadline})"
        return super().overdue()

    def performance_started(self, performance: Performance) -> None:
        self._started_at[performance.key] = performance.started_at
        if performance.key in self._queued and self.is_unrepeatable(self.effects[performance.key]):
            raise self.fail(2, f"{performance.key} is performed before the journal says that it has begun")

    def remote_started(self, job: RemoteJob) -> None:
        effect = self.effects.get(job.key)
        is_unrepeatable = effect is not None and self.is_unrepeatable(effect)
        if why := self._remote.why_not_begun(job, is_known=effect is not None, is_unrepeatable=is_unrepeatable):
            raise self.fail(15, why)

    def check_jobs(self, jobs: Sequence[RemoteJob]) -> None:
        devices = {name: it for name, it in self.replayed.memory.fleet.items() if it.reattach}
        if why := self._remote.why_left(self.replayed, jobs, devices):
            raise self.fail(15, why)

    def before(self, entry: Entry) -> None:
        memory, event = self.replayed.memory, entry.event
        schedule = memory.schedule
        self._running = set(schedule.running if schedule else ())
        ended = memory.attempts.get(event.effect_id) if isinstance(event, AttemptEnded | ChildEnded) and not entry.note else None
        self._ending = memory.constellation.tasks[ended.task_id] if ended and ended.task_id in self._running else None
        self._track_devices(entry)
        if any(isinstance(effect, AskPlanner) for effect in entry.effects):
            self._settled = {task.task_id for task in memory.constellation.tasks.values() if task.settled}
        if isinstance(event, Retry) and not entry.note:
            for task_id in retried_by(memory, event):
                self._read_only.pop(task_id, None)
                self._retried.add(task_id)

    def after(self, entry: Entry) -> None:
        if isinstance(entry.event, Retry) and not entry.note:
            tasks = self.replayed.memory.constellation.tasks
            self._begun_before_retry = {task_id: task for task_id, task in tasks.items() if task.started_at and not task.settled}
        self._remote.note(entry, self.effects)
        self._check_fan_outs()
        self._check_begin(entry)
        self._check_retry(entry)
        self._check_graph(entry)
        self._track_result(entry)
        self._check_effects(entry)
        self._check_ending()

    def _check_ending(self) -> None:
        """Check that handlers change nothing about the decided end."""
        memory = self.replayed.memory
        decided = (memory.concluding.code, memory.concluding.reason) if memory.concluding else None
        if self._decided is not None and self._decided not in (decided, (memory.code, memory.why)):
            raise self.fail(4, f"the end of the run was {self._decided}, but is now {decided or (memory.code, memory.why)}")
        self._decided = decided or self._decided
        if self._decided is not None and memory.code and self._decided != (memory.code, memory.why):
            raise self.fail(4, f"the end of the run was {self._decided}, but it has ended as {memory.code}, {memory.reason}")

    def _check_begin(self, entry: Entry) -> None:
        """Check that an attempt begins once, and that nobody is asked about one that never began."""
        event = entry.event
        self._queued.update(
            key for key, it in zip(entry.effect_ids(), entry.effects, strict=True) if isinstance(it, Dispatch) and it.queued and it.leg == 1
        )
        if isinstance(event, AttemptBegun):
            if event.of in self._begun and self.is_unrepeatable(self.effects[event.of]):
                raise self.fail(2, f"{event.of} begins twice")
            self._begun.add(event.of)
            self._queued.discard(event.of)
        elif isinstance(event, AttemptQueued):
            effect = self.effects[event.of]
            if isinstance(effect, Dispatch) and effect.leg == 1:
                self._queued.add(event.of)
        elif isinstance(event, AttemptEnded) and event.effect_id in self._queued and self._ending:
            asked = [effect.subject.get("task_id") for effect in entry.effects if isinstance(effect, AskPerson)]
            if self._ending.task_id in asked:
                raise self.fail(13, f"{event.effect_id} never began, and entry {entry.seq} asks about it")

    def _check_graph(self, entry: Entry) -> None:
        memory = self.replayed.memory
        constellation = memory.constellation
        generation = (memory.restarts, constellation.version if memory.schedule else -1)
        edited = generation != self._generation
        is_yes = entry.event.from_outside and bool(entry.key)
        if edited and memory.options.approve_edits and self._generation[1] >= 0 and not is_yes:
            raise self.fail(9, f"entry {entry.seq} changes the constellation without an approval")
        if generation[0] != self._generation[0]:
            self._check_archived()
            if generation[0] > memory.options.max_restarts:
                raise self.fail(8, f"the run was replanned {generation[0]} times (max_restarts {memory.options.max_restarts})")
            for known in (self._read_only, self._approved, self._uncertain, self._tried):
                known.clear()
        self._generation = generation
        if not edited and not self.compares_fully(1):
            return
        if edited and (cycle := find_cycle(constellation)):
            raise self.fail(1, " -> ".join(cycle))
        ok, errors = constellation.validate_dag()
        if not ok:
            raise self.fail(1, "; ".join(errors))
        frozen = {task.task_id: read_only_form(constellation, task) for task in constellation.tasks.values() if task.status not in EDITABLE}
        for task_id, (planned, ended) in self._read_only.items():
            if task_id not in constellation.tasks:
                raise self.fail(3, f"{task_id} was read-only, but was removed")
            now_planned, now_ended = frozen.get(task_id, (planned, b""))
            if ended and now_ended != ended:
                raise self.fail(4, f"{task_id} had ended as {ended.decode()}, but is now {now_ended.decode() or 'editable'}")
            if now_planned != planned:
                raise self.fail(3, f"{task_id} is read-only, but was changed from {planned.decode()} to {now_planned.decode()}")
        self._read_only = frozen

    def _check_fan_outs(self) -> None:
        """Check the items of small fan-outs: their number, places and order, and the end and result of their task."""
        tasks = self.replayed.memory.constellation.tasks
        if len(tasks) > FULLY_CHECKED_TASKS:
            return
        items: dict[str, list[TaskStar]] = {task_id: [] for task_id, task in tasks.items() if task.items is not None}
        for task in tasks.values():
            if task.item_of:
                items.setdefault(task.item_of, []).append(task)
        for task_id, own in items.items():
            if why := why_miscounted(tasks[task_id], sorted(own, key=lambda item: item.index), is_retried=task_id in self._retried):
                raise self.fail(14, f"{task_id}: {why}")

    def _check_archived(self) -> None:
        """Check that every read-only task had ended when its constellation was replaced."""
        archived = {task["task_id"]: task for task in self.replayed.memory.archive[-1]["tasks"]}
        for task_id in self._read_only:
            if "[" in task_id:
                continue  # an archive has no items; they end before their task
            if task_id not in archived or archived[task_id].get("status", "PENDING") not in SETTLED:
                raise self.fail(4, f"{task_id} had no terminal status when its constellation was replaced")

    def _track_result(self, entry: Entry) -> None:
        event = entry.event
        effect = self.effects.get(event.effect_id) if isinstance(event, EffectResult) and not entry.note else None
        if isinstance(event, PlanningFailed) and event.code == BUDGET:
            self._asked -= 1  # the request is deferred until the limit is raised
        if isinstance(event, Planned | PlanningFailed) and effect is not None:
            self._used = self._used.plus(event.usage)
        if isinstance(event, Answered) and isinstance(effect, AskPerson) and event.verb in ("approve", "edit") and not event.cancelled:
            if "question" in effect.subject:
                return  # of a device
            if "kind" in effect.subject:
                self._approved_plans.add(self.replayed.memory.restarts)
                return
            changes = event.value if event.verb == "edit" else {}
            subject = {**effect.subject, "arguments": {**effect.subject["arguments"], **changes}}
            self._approved.add(canonical(subject))
        if (
            isinstance(event, AttemptEnded)
            and isinstance(effect, Dispatch)
            and event.error
            and event.error.code in ("interrupted", "device_lost")
        ):
            task = self.replayed.memory.constellation.tasks.get(effect.task_id)
            if (
                effect.recovery_policy is not RecoveryPolicy.RETRY_SAME_KEY
                and event.effect_id not in self._queued
                and task is not None
                and not task.retry.retries(event.error.code, repeatable=False)
            ):
                self._uncertain.add(effect.task_id)
                if self._ending is not None:  # else of the original of a fork, in which a person may have approved it since
                    self._approved.discard(canonical(subject_of(effect, task, self.replayed.memory)))

    def _check_effects(self, entry: Entry) -> None:
        memory = self.replayed.memory
        before_ask = self._effects_before_ask(entry)
        dropped = {effect.effect_id for effect in entry.effects if isinstance(effect, CancelEffect)}  # by the guards, of the next item
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            if isinstance(effect, AskPlanner):
                self._check_planner_limits()
            if not isinstance(effect, Dispatch | StartChild | AskPerson) or (isinstance(effect, AskPerson) and "kind" in effect.subject):
                continue
            if effect_id in dropped:
                continue
            task_id = _task_of(memory, effect_id, effect)
            task = memory.constellation.tasks[task_id]
            if task_id not in self._running:
                self._check_start(task, is_before_ask=effect_id in before_ask)
            if isinstance(effect, Dispatch) and effect.leg > 1:
                continue  # the attempt is under way
            if not isinstance(effect, AskPerson):
                self._check_backoff(entry, task)
                if memory.paused:
                    raise self.fail(2, f"{task_id} was started while the run was paused")
                if memory.options.approve_plan and memory.restarts not in self._approved_plans:
                    raise self.fail(9, f"{effect_id} runs {task_id} of a plan without an approval")
                nested = isinstance(effect, StartChild) and task.constellation is None
                shown = subject_of(memory.attempts[effect_id] if nested else effect, task, memory)
                is_lifted = isinstance(effect, Dispatch) and {effect.skill, effect.device_id} & {*memory.guards.lifted}
                if task.requires_approval and not is_lifted and canonical(shown) not in self._approved:
                    raise self.fail(9, f"{effect_id} runs {task_id} with {shown['arguments']} without an approval")
                # A new task under the id of a removed one
                is_new = memory.attempts[effect_id].number == 1 and task_id not in self._retried
                if task_id in self._uncertain and not is_new and canonical(shown) not in self._approved:
                    raise self.fail(9, f"{effect_id} repeats {task_id}, which may have finished, without an approval")
                self._uncertain.discard(task_id)

    def _effects_before_ask(self, entry: Entry) -> Collection[str]:
        """Return the effects that came before the planner was asked about tasks that ended at their start, without an attempt."""
        tasks = self.replayed.memory.constellation.tasks
        for at, effect in enumerate(entry.effects):
            if isinstance(effect, AskPlanner) and not self._settled.intersection(effect.batch):
                ended = [tasks[task_id].error for task_id in effect.batch if task_id in tasks]  # others were retried, and removed
                is_late = any(error is not None and error.code in ("deadline", "rejected") for error in ended)
                return () if is_late else entry.effect_ids()[:at]
        return ()

    def _check_planner_limits(self) -> None:
        """Check a planner request against the limits."""
        options, used = self.replayed.memory.options, self._used
        self._asked += 1
        if self._asked > options.max_asks:
            raise self.fail(8, f"planner request number {self._asked} is over the limit (max_asks {options.max_asks})")
        tokens, cost_usd = options.max_tokens, options.max_cost_usd
        if (tokens is not None and used.tokens >= tokens) or (cost_usd is not None and used.cost_usd >= cost_usd):
            raise self.fail(8, f"the planner is asked after planning has used {used}")

    def _check_retry(self, entry: Entry) -> None:
        """Check the number of attempts when a failed task becomes pending again."""
        task, event = self._ending, entry.event
        if task is None or task.status != "PENDING":
            return
        lost = isinstance(event, AttemptEnded) and event.error is not None and event.error.code in ("device_lost", "interrupted")
        attempts, most = self._attempts(task), max(task.retry.max_attempts, MAX_LOST if lost else 0)
        if attempts >= most:
            raise self.fail(8, f"{task.task_id} is retried after {attempts} attempts (at most {most})")
        wait_s = 0.0 if lost else min(task.retry.max_backoff_s, task.retry.backoff_s * 2.0 ** (attempts - 1)) / 2
        self._tried[task.task_id] = (task, attempts, entry.at + wait_s)

    def _attempts(self, task: TaskStar) -> int:
        known, attempts, _ = self._tried.get(task.task_id, (task, 0, 0.0))
        return attempts if known is task else 0  # a task that was removed and added again counts as new

    def _check_backoff(self, entry: Entry, task: TaskStar) -> None:
        """Check that the backoff after a failed attempt is over, and count this attempt."""
        known, _, not_before = self._tried.get(task.task_id, (task, 0, 0.0))
        if known is task and entry.at < not_before:
            raise self.fail(2, f"{task.task_id} started {not_before - entry.at:g} s before the end of its backoff")
        self._tried[task.task_id] = (task, self._attempts(task) + 1, 0.0)

    def _track_devices(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, OwnershipAcquired):
            self._lost.clear()
            self._started_at.clear()  # retried attempts may have to wait for a slot first
        elif isinstance(event, DeviceLost):
            self._lost.add(event.device)
        elif isinstance(event, DeviceFound):
            self._lost.discard(event.device)
        elif isinstance(event, Forked):
            self._tried = {name: (task, count, at and at + event.idle_s) for name, (task, count, at) in self._tried.items()}

    def _check_start(self, task: TaskStar, *, is_before_ask: bool) -> None:
        memory = self.replayed.memory
        of = memory.constellation.tasks[task.item_of] if task.item_of else task
        why = "" if self._begun_before_retry.get(of.task_id) is of else unsatisfied_dependency(memory.constellation, task)
        if why := why or early_handler(self.replayed, task):
            raise self.fail(2, why)
        if not is_before_ask and not isinstance(memory.planning, NotPlanning) and task.task_id in held_by(memory):
            batch = ", ".join(memory.open_request.batch)
            raise self.fail(2, f"{task.task_id} started while it is on hold for the planner's decision about {batch}")


def _task_of(memory: ConstellationMemory, effect_id: str, effect: Dispatch | StartChild | AskPerson) -> str:
    if isinstance(effect, StartChild):
        return memory.attempts[effect_id].task_id
    return effect.task_id if isinstance(effect, Dispatch) else str(effect.subject["task_id"])
