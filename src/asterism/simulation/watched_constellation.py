"""What a constellation's run promises besides: of its graph, of starts, of read-only tasks, and of what needs a yes."""

from __future__ import annotations

from typing import Any

from asterism.constellation.task import TaskStar
from asterism.kernel.journal import Entry
from asterism.kernel.machine import Outcome, Redo
from asterism.kernel.run import Run
from asterism.machines.children import StartChild
from asterism.machines.constellation_agent.events import Dispatch, TaskEnded
from asterism.machines.constellation_agent.memory import AgentMemory
from asterism.machines.control import Answered, Ask
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
from asterism.simulation.watched import Watched, canonical

SMALL = 64
"""Tasks up to which everything is checked after every entry; larger constellations are looked through at intervals."""
STRIDE = 200
"""Entries between two looks through a large constellation."""


class WatchedConstellation(Watched[AgentMemory]):
    """One run of the constellation agent."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._frozen: dict[str, tuple[bytes, bytes]] = {}
        self._generation: tuple[int, int] = (0, -1)
        self._approved: set[bytes] = set()
        self._approved_plans: set[int] = set()
        self._unsure: set[str] = set()
        self._running: set[str] = set()

    def looks_through(self, written: int) -> bool:
        """A large one is, now and then."""
        return len(self.replayed.memory.constellation.tasks) <= SMALL or self.replayed.seq % STRIDE < written

    def unnamed_wait(self, run: Run[AgentMemory]) -> str:
        """A backoff and a lost device are names, too."""
        return unnamed_wait(run, self.now())

    def goes_on(self) -> str:
        """Tasks that can start."""
        memory = self.replayed.memory
        held = held_by(memory)
        startable = [task_id for task_id in (memory.board.startable if memory.board else ()) if task_id not in held]
        return f"{', '.join(startable)} can start" if startable else ""

    def before(self, _: Entry) -> None:
        board = self.replayed.memory.board
        self._running = set(board.running if board else ())

    def after(self, entry: Entry) -> None:
        self._check_graph(entry)
        self._check_outcome(entry)
        self._check_effects(entry)

    def _check_graph(self, entry: Entry) -> None:
        memory = self.replayed.memory
        constellation = memory.constellation
        generation = (memory.restarts, constellation.version if memory.board else -1)
        edited = generation != self._generation
        is_yes = entry.event.from_outside and bool(entry.key)
        if edited and memory.options.approve_edits and self._generation[1] >= 0 and not is_yes:
            raise self.fail(9, f"entry {entry.seq} changes the constellation, and nobody has approved it")
        if generation[0] != self._generation[0]:
            self._check_archived()
            for known in (self._frozen, self._approved, self._unsure):
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
        effect = self.effects.get(event.effect) if isinstance(event, Outcome) and not entry.note else None
        if isinstance(event, Answered) and isinstance(effect, Ask) and event.verb in ("approve", "edit") and not event.withdrawn:
            if "kind" in effect.subject:
                self._approved_plans.add(self.replayed.memory.restarts)
                return
            changes = event.value if event.verb == "edit" else {}
            subject = {**effect.subject, "arguments": {**effect.subject["arguments"], **changes}}
            self._approved.add(canonical(subject))
        if (
            isinstance(event, TaskEnded)
            and isinstance(effect, Dispatch)
            and event.error
            and event.error.code in ("interrupted", "device_lost")
        ):
            task = self.replayed.memory.constellation.tasks.get(effect.task_id)
            if effect.redo is Redo.NEVER and task is not None and not task.retry.retries(event.error.code, repeatable=False):
                self._unsure.add(effect.task_id)

    def _check_effects(self, entry: Entry) -> None:
        memory = self.replayed.memory
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            if not isinstance(effect, Dispatch | StartChild | Ask) or (isinstance(effect, Ask) and "kind" in effect.subject):
                continue
            task_id = _task_of(memory, effect_id, effect)
            task = memory.constellation.tasks[task_id]
            if task_id not in self._running:
                self._check_start(task)
            if not isinstance(effect, Ask):
                if memory.paused:
                    raise self.fail(2, f"{task_id} was started while the run was paused")
                if memory.options.approve_plan and memory.restarts not in self._approved_plans:
                    raise self.fail(9, f"{effect_id} runs {task_id} of a plan that nobody has approved")
                nested = isinstance(effect, StartChild) and task.constellation is None
                shown = subject_of(memory.attempts[effect_id] if nested else effect, task)
                if task.requires_approval and canonical(shown) not in self._approved:
                    raise self.fail(9, f"{effect_id} runs {task_id} with {shown['arguments']}, which nobody has approved")
                if task_id in self._unsure and canonical(shown) not in self._approved:
                    raise self.fail(9, f"{effect_id} repeats {task_id}, which may have finished, as nobody has approved")
                self._unsure.discard(task_id)

    def _check_start(self, task: TaskStar) -> None:
        memory = self.replayed.memory
        if why := why_not_startable(memory.constellation, task):
            raise self.fail(2, why)
        if memory.asking and task.task_id in held_by(memory):
            raise self.fail(2, f"{task.task_id} started while the planner is asked about {', '.join(memory.asking.batch)}")


def _task_of(memory: AgentMemory, effect_id: str, effect: Dispatch | StartChild | Ask) -> str:
    if isinstance(effect, StartChild):
        return memory.attempts[effect_id].task_id
    return effect.task_id if isinstance(effect, Dispatch) else str(effect.subject["task_id"])
