"""What a constellation's run promises besides: of its graph, of starts, of read-only tasks, and of what needs a yes."""

from __future__ import annotations

from typing import Any

from asterism.constellation.task import TaskStar
from asterism.kernel.journal import Entry
from asterism.kernel.machine import Effect, EffectResult, RecoveryPolicy
from asterism.kernel.run import Run
from asterism.machines.children import ChildEnded, StartChild
from asterism.machines.constellation_agent.events import (
    BUDGET,
    AskPlanner,
    AttemptEnded,
    DeviceFound,
    DeviceLost,
    Dispatch,
    Planned,
    PlanningFailed,
)
from asterism.machines.constellation_agent.memory import ConstellationMemory
from asterism.machines.constellation_agent.planning_state import NotPlanning
from asterism.machines.run_control import Answered, AskPerson, Forked, OwnershipAcquired
from asterism.machines.usage import Usage
from asterism.simulation.checks.watched import NOTICED_S, Watched, canonical
from asterism.simulation.device import Performance
from asterism.simulation.invariants import (
    EDITABLE,
    SETTLED,
    cycle_of,
    frozen_form,
    held_by,
    subject_of,
    unnamed_wait,
    why_not_startable,
)

SMALL = 64
"""Tasks up to which everything is checked after every entry; larger constellations are looked through at intervals."""
STRIDE = 200
"""Entries between two looks through a large constellation."""
MOST_LOST = 10
"""Attempts at one task that may be lost with their device."""
GRACE_S = 10.0
"""How long what is stopped may go on before its caller is answered."""


class WatchedConstellation(Watched[ConstellationMemory]):
    """One run of the constellation agent."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._frozen: dict[str, tuple[bytes, bytes]] = {}
        self._generation: tuple[int, int] = (0, -1)
        self._approved: set[bytes] = set()
        self._approved_plans: set[int] = set()
        self._unsure: set[str] = set()
        self._running: set[str] = set()
        self._lost: set[str] = set()  # devices, as this owner has heard
        self._asked, self._used = 0, Usage()
        self._tried: dict[str, tuple[TaskStar, int, float]] = {}  # attempts at each task, and when the next may be
        self._ending: TaskStar | None = None
        self._since: dict[str, float] = {}

    def looks_through(self, written: int) -> bool:
        """A large one is, now and then."""
        return len(self.replayed.memory.constellation.tasks) <= SMALL or self.replayed.seq % STRIDE < written

    def unnamed_wait(self, run: Run[ConstellationMemory]) -> str:
        """A backoff and a lost device are names, too."""
        return unnamed_wait(run, self.now(), self._lost)

    def goes_on(self) -> str:
        """Tasks that can start."""
        memory = self.replayed.memory
        held = held_by(memory)
        startable = [task_id for task_id in (memory.schedule.startable if memory.schedule else ()) if task_id not in held]
        return f"{', '.join(startable)} can start" if startable else ""

    def is_once(self, effect: Effect) -> bool:
        if not isinstance(effect, Dispatch):
            return False
        profile = self.replayed.memory.fleet.get(effect.device)
        return not any(skill.name == effect.skill and skill.idempotent for skill in (profile.skills if profile else ()))

    def limit_s(self) -> float | None:
        return self.replayed.memory.options.wall_limit_s

    def overdue(self) -> str:
        """Attempts, too: past their timeout, or their deadline."""
        by, gone = self.now() - GRACE_S - NOTICED_S, self.replayed.cancelled_effects | self._copied
        for key, effect in self.replayed.outstanding.items():
            if not isinstance(effect, Dispatch) or key in gone:
                continue
            since = self._since.get(key)
            if (since is not None and effect.timeout_s is not None and since + effect.timeout_s < by) or (effect.deadline_at or by) < by:
                return f"{key} goes on, and its time is over (timeout {effect.timeout_s}, deadline {effect.deadline_at})"
        return super().overdue()

    def performed(self, performance: Performance) -> None:
        self._since[performance.key] = performance.started_at

    def before(self, entry: Entry) -> None:
        memory, event = self.replayed.memory, entry.event
        schedule = memory.schedule
        self._running = set(schedule.running if schedule else ())
        ended = memory.attempts.get(event.effect_id) if isinstance(event, AttemptEnded | ChildEnded) and not entry.note else None
        self._ending = memory.constellation.tasks[ended.task_id] if ended and ended.task_id in self._running else None
        self._hear_of_devices(entry)

    def after(self, entry: Entry) -> None:
        self._check_again(entry)
        self._check_graph(entry)
        self._check_outcome(entry)
        self._check_effects(entry)

    def _check_graph(self, entry: Entry) -> None:
        memory = self.replayed.memory
        constellation = memory.constellation
        generation = (memory.restarts, constellation.version if memory.schedule else -1)
        edited = generation != self._generation
        is_yes = entry.event.from_outside and bool(entry.key)
        if edited and memory.options.approve_edits and self._generation[1] >= 0 and not is_yes:
            raise self.fail(9, f"entry {entry.seq} changes the constellation, and nobody has approved it")
        if generation[0] != self._generation[0]:
            self._check_archived()
            if generation[0] > memory.options.max_restarts:
                raise self.fail(8, f"it was planned anew {generation[0]} times (max_restarts {memory.options.max_restarts})")
            for known in (self._frozen, self._approved, self._unsure, self._tried):
                known.clear()
        self._generation = generation
        if not edited and not self.looks_through(1):
            return
        if edited and (cycle := cycle_of(constellation)):
            raise self.fail(1, " -> ".join(cycle))
        ok, errors = constellation.validate_dag()
        if not ok:
            raise self.fail(1, "; ".join(errors))
        frozen = {task.task_id: frozen_form(constellation, task) for task in constellation.tasks.values() if task.status not in EDITABLE}
        for task_id, (planned, ended) in self._frozen.items():
            if task_id not in constellation.tasks:
                raise self.fail(3, f"{task_id} was read-only, and is gone")
            now_planned, now_ended = frozen.get(task_id, (planned, b""))
            if ended and now_ended != ended:
                raise self.fail(4, f"{task_id} had settled as {ended.decode()}, and is {now_ended.decode() or 'editable'} now")
            if now_planned != planned:
                raise self.fail(3, f"{task_id} is read-only, and was changed from {planned.decode()} to {now_planned.decode()}")
        self._frozen = frozen

    def _check_archived(self) -> None:
        """A restart settles what ran; what had settled is archived as it was."""
        archived = {task["task_id"]: task for task in self.replayed.memory.archive[-1]["tasks"]}
        for task_id in self._frozen:
            if task_id not in archived or archived[task_id].get("status", "PENDING") not in SETTLED:
                raise self.fail(4, f"{task_id} was not settled when its constellation was archived")

    def _check_outcome(self, entry: Entry) -> None:
        event = entry.event
        effect = self.effects.get(event.effect_id) if isinstance(event, EffectResult) and not entry.note else None
        if isinstance(event, PlanningFailed) and event.code == BUDGET:
            self._asked -= 1  # it waits for a higher limit, and is put again then
        if isinstance(event, Planned | PlanningFailed) and effect is not None:
            self._used = self._used.plus(event.usage)
        if isinstance(event, Answered) and isinstance(effect, AskPerson) and event.verb in ("approve", "edit") and not event.cancelled:
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
                effect.recovery_policy is RecoveryPolicy.DO_NOT_RETRY
                and task is not None
                and not task.retry.retries(event.error.code, repeatable=False)
            ):
                self._unsure.add(effect.task_id)

    def _check_effects(self, entry: Entry) -> None:
        memory = self.replayed.memory
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            if isinstance(effect, AskPlanner):
                self._check_asked()
            if not isinstance(effect, Dispatch | StartChild | AskPerson) or (isinstance(effect, AskPerson) and "kind" in effect.subject):
                continue
            task_id = _task_of(memory, effect_id, effect)
            task = memory.constellation.tasks[task_id]
            if task_id not in self._running:
                self._check_start(task)
            if not isinstance(effect, AskPerson):
                self._check_wait(entry, task)
                if memory.paused:
                    raise self.fail(2, f"{task_id} was started while the run was paused")
                if memory.options.approve_plan and memory.restarts not in self._approved_plans:
                    raise self.fail(9, f"{effect_id} runs {task_id} of a plan that nobody has approved")
                nested = isinstance(effect, StartChild) and task.constellation is None
                shown = subject_of(memory.attempts[effect_id] if nested else effect, task)
                if task.requires_approval and canonical(shown) not in self._approved:
                    raise self.fail(9, f"{effect_id} runs {task_id} with {shown['arguments']}, which nobody has approved")
                is_new = memory.attempts[effect_id].attempt == 1  # another task, under the id of one that was removed
                if task_id in self._unsure and not is_new and canonical(shown) not in self._approved:
                    raise self.fail(9, f"{effect_id} repeats {task_id}, which may have finished, as nobody has approved")
                self._unsure.discard(task_id)

    def _check_asked(self) -> None:
        """The planner is asked within its limits."""
        options, used = self.replayed.memory.options, self._used
        self._asked += 1
        if self._asked > options.max_asks:
            raise self.fail(8, f"the planner is asked for the {self._asked}th time (max_asks {options.max_asks})")
        tokens, cost_usd = options.max_tokens, options.max_cost_usd
        if (tokens is not None and used.tokens >= tokens) or (cost_usd is not None and used.cost_usd >= cost_usd):
            raise self.fail(8, f"the planner is asked, and planning has used {used}")

    def _check_again(self, entry: Entry) -> None:
        """What has failed is tried again as often as its task says."""
        task, event = self._ending, entry.event
        if task is None or task.status != "PENDING":
            return
        lost = isinstance(event, AttemptEnded) and event.error is not None and event.error.code == "device_lost"
        attempts, most = self._attempts(task), max(task.retry.max_attempts, MOST_LOST if lost else 0)
        if attempts >= most:
            raise self.fail(8, f"{task.task_id} was tried {attempts} times, and is tried again (at most {most})")
        wait_s = 0.0 if lost else min(task.retry.max_backoff_s, task.retry.backoff_s * 2.0 ** (attempts - 1)) / 2
        self._tried[task.task_id] = (task, attempts, entry.at + wait_s)

    def _attempts(self, task: TaskStar) -> int:
        known, attempts, _ = self._tried.get(task.task_id, (task, 0, 0.0))
        return attempts if known is task else 0  # one that was removed, and added again, is another one

    def _check_wait(self, entry: Entry, task: TaskStar) -> None:
        """Not before its time, after an attempt that failed; counts this one."""
        known, _, not_before = self._tried.get(task.task_id, (task, 0, 0.0))
        if known is task and entry.at < not_before:
            raise self.fail(2, f"{task.task_id} started {not_before - entry.at:g} s before it was to be tried again")
        self._tried[task.task_id] = (task, self._attempts(task) + 1, 0.0)

    def _hear_of_devices(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, OwnershipAcquired):
            self._lost.clear()
            self._since.clear()  # what this owner performs again waits for its turn first
        elif isinstance(event, DeviceLost):
            self._lost.add(event.device)
        elif isinstance(event, DeviceFound):
            self._lost.discard(event.device)
        elif isinstance(event, Forked):
            self._tried = {name: (task, count, at and at + event.idle_s) for name, (task, count, at) in self._tried.items()}

    def _check_start(self, task: TaskStar) -> None:
        memory = self.replayed.memory
        if why := why_not_startable(memory.constellation, task):
            raise self.fail(2, why)
        if not isinstance(memory.planning, NotPlanning) and task.task_id in held_by(memory):
            raise self.fail(2, f"{task.task_id} started while the planner is asked about {', '.join(memory.open_request.batch)}")


def _task_of(memory: ConstellationMemory, effect_id: str, effect: Dispatch | StartChild | AskPerson) -> str:
    if isinstance(effect, StartChild):
        return memory.attempts[effect_id].task_id
    return effect.task_id if isinstance(effect, Dispatch) else str(effect.subject["task_id"])
