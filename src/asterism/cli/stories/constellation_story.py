"""The story of a constellation: its tasks and what came of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from rich.text import Text

from asterism.cli.stories.picture import Sign, count_words, status_lines
from asterism.cli.stories.story import Happening, Story, Weight
from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.edits import (
    AddDependency,
    AddTask,
    BuildConstellation,
    Edit,
    RemoveDependency,
    RemoveTask,
    UpdateDependency,
    UpdateTask,
    parse_action,
    refusal_of,
)
from asterism.constellation.task import TaskStar, TaskStatus
from asterism.kernel.journal import Entry
from asterism.kernel.machine import Effect, Event, Machine, Outcome, kind_of
from asterism.machines.children import ChildEnded, ChildRested, Relay, StartChild, child_of
from asterism.machines.constellation_agent.approval import why_rejected
from asterism.machines.constellation_agent.events import (
    AskPlanner,
    DeviceFound,
    DeviceLost,
    Dispatch,
    Edited,
    Planned,
    PlanningFailed,
    Progressed,
    RaiseLimits,
    Submitted,
    TaskEnded,
    WeavingMode,
)
from asterism.machines.constellation_agent.memory import AgentMemory
from asterism.machines.control import Answered, Ask, Broke, Cancel, Claimed, Drained, Forked, Pause, Unpause, Withdraw, Withdrawn
from asterism.views.words import answer_words, control_words, count, duration, last_line, plain, preview


class ConstellationStory(Story):
    """A run of a constellation agent as far as it has been read; its parts are tasks.

    Attributes:
        signs: the last sign of life, by task.
        waited: seconds between being able to start and starting, by task.
    """

    def __init__(self, machine: Machine[AgentMemory], run: str) -> None:
        super().__init__(machine, run)
        self.signs: dict[str, Sign] = {}
        self.waited: dict[str, float] = {}

    @property
    def memory(self) -> AgentMemory:
        """What the agent remembers."""
        memory: AgentMemory = self.run.memory
        return memory

    @property
    def constellation(self) -> TaskConstellation:
        """The current one."""
        return self.memory.constellation

    # -- how it stands -----------------------------------------------------------------------------

    def picture(self, now: float, limit: int, frame: int = 0) -> list[Text]:
        """Each task with its status, its progress, its time, and why."""
        return status_lines(self.constellation, self.signs, now, limit=limit, frame=frame) if self.constellation.tasks else []

    def counted(self) -> str:
        """How many tasks have come to what."""
        return count_words(self.constellation)

    def outcome(self) -> dict[str, Any]:
        """The tasks, for programs."""
        tasks = {
            task.task_id: {
                "name": task.name,
                "device": task.device,
                "status": str(task.status),
                "result": task.result,
                "error": msgspec.to_builtins(task.error),
            }
            for task in self.constellation.in_order()
        }
        return {"tasks": tasks}

    def standing(self) -> dict[str, str]:
        """What each task has come to, by its id."""
        return {task_id: _standing(task) for task_id, task in self.constellation.tasks.items()}

    # -- words -------------------------------------------------------------------------------------

    def _noted(self, entry: Entry) -> str:
        if isinstance(entry.event, Edited) and (refusal := refusal_of(entry.note)):
            return f"an edit by {entry.actor} is refused: {refusal.what}: {refusal.why} ({refusal.code})"
        return super()._noted(entry)

    def _told(self, entry: Entry) -> list[Happening]:
        watched = self._unsettled(entry)
        was, limited, version = self.run.state, self.memory.limit, self.constellation.version
        self.run.replay([entry])
        told = [*self._event(entry), *self._effects(entry), *self._settled(entry, watched)]
        if isinstance(entry.event, Edited) and self.constellation.version == version:  # it was so already; its notes say that
            told = [it for it in told if it.weight == "detail"]
        memory = self.memory
        if memory.limit and memory.limit != limited:
            told.append(Happening(entry, f"the run pauses itself: {plain(memory.limit)}"))
        if self.run.state != was and memory.code and memory.code != "cancelled":  # that was said already
            told.append(Happening(entry, "the run has finished" if memory.code == "finished" else f"the run fails: {plain(memory.reason)}"))
        return told or [Happening(entry, _PLAIN_WORDS.get(type(entry.event), kind_of(entry.event)), weight="detail")]

    # -- what an entry may settle besides what it is about -----------------------------------------

    def _unsettled(self, entry: Entry) -> list[TaskStar]:
        """Tasks that this entry may settle though its event is not about them; one event only may do that to many."""
        board = self.memory.board
        if board is None or isinstance(entry.event, Progressed | Claimed | TaskEnded | ChildEnded | ChildRested):
            return []
        if self.run.machine.is_terminal(entry.state) or entry.state != self.run.state:
            return [task for task in board.constellation.in_order() if not task.settled]
        tasks = board.constellation.tasks
        asked = [question.task_id for question in self.memory.questions.values()]
        late = [task.task_id for task in tasks.values() if task.deadline_s is not None and not task.settled]
        return [tasks[task_id] for task_id in dict.fromkeys((*board.doomed, *board.startable, *asked, *late))]

    def _settled(self, entry: Entry, watched: list[TaskStar]) -> Iterator[Happening]:
        """What was settled among the watched tasks, and downstream of what was skipped."""
        about = self.part_of(entry.event.effect) if isinstance(entry.event, Outcome) else ""
        board = self.memory.board
        seen = {task.task_id for task in watched}
        queue = [task for task in watched if task.settled]
        for task in queue:  # grows: a skip may have caused others
            if task.task_id != about:
                why = f": {plain(task.error.message)}" if task.error else ""
                yield Happening(entry, f"{str(task.status).lower()}{why}", task.task_id, task.status)
            if board is None or task.task_id not in board.constellation.tasks or task.status is TaskStatus.COMPLETED:
                continue
            for following in board.constellation.successors(task.task_id):
                if following not in seen and board.constellation.tasks[following].settled:
                    seen.add(following)
                    queue.append(board.constellation.tasks[following])

    # -- what events and effects mean --------------------------------------------------------------

    def _event(self, entry: Entry) -> Iterator[Happening]:
        event = entry.event
        match event:
            case Submitted():
                plan = f" with a plan of {count(len(event.plan.tasks), 'task')}" if event.plan else ""
                yield Happening(entry, f"submitted{plan}: {plain(event.request)}", weight="detail")
            case Claimed():
                yield from self._claimed(entry, event)
            case Planned() | PlanningFailed():
                yield Happening(entry, self._planned(event))
            case TaskEnded() | ChildEnded() | Answered():
                yield self._outcome(entry, event)
            case ChildRested():
                words = "waits for a person, or is paused" if event.resting else "goes on"
                yield Happening(entry, words, self.part_of(event.of), TaskStatus.RUNNING, "event" if event.resting else "detail")
            case Progressed():
                self.signs[self.part_of(event.of)] = sign = Sign(event.fraction, last_line(event.message))
                percent = f"{event.fraction:.0%} " if event.fraction is not None else ""
                yield Happening(entry, f"{percent}{plain(sign.message)}".strip(), self.part_of(event.of), TaskStatus.RUNNING, "progress")
            case Edited():
                yield from self._edited(entry, event)
            case DeviceLost() | DeviceFound():
                said = f"lost: {plain(event.reason)}" if isinstance(event, DeviceLost) else "back"
                yield Happening(entry, f"device {plain(event.device)} is {said}")
            case Pause() | Unpause() | RaiseLimits() | Cancel() | Forked() | Broke():
                yield Happening(entry, control_words(entry))
            case _:
                pass

    def _claimed(self, entry: Entry, event: Claimed) -> Iterator[Happening]:
        again = "taken" if event.epoch == 1 else "taken up again"
        yield Happening(entry, f"{again} by {plain(event.owner)}", weight="detail" if event.epoch == 1 else "event")
        for effect in event.redone:
            if isinstance(self.spans[effect].effect, Dispatch):  # the journal of a child says how it is taken up
                yield Happening(entry, "made again, under the same key", self.part_of(effect), TaskStatus.RUNNING)

    def _edited(self, entry: Entry, event: Edited) -> Iterator[Happening]:
        """One line for each edit that somebody has made."""
        for number, action in enumerate(event.actions, start=1):
            edit, tasks = parse_action(action), self.constellation.tasks
            after = f", version {self.constellation.version}" if number == len(event.actions) else ""
            task_id, words = edit_words(edit)
            status = tasks[task_id].status if task_id in tasks else None
            yield Happening(entry, f"{plain(entry.actor)} {words}{after}", task_id, status)
        for note in entry.facts.get("notes", ()):
            yield Happening(entry, plain(note), weight="detail")

    def _planned(self, event: Planned | PlanningFailed) -> str:
        asked = self.spans[event.effect].effect if event.effect in self.spans else None
        editing = isinstance(asked, AskPlanner) and asked.mode is WeavingMode.EDITING
        if isinstance(event, PlanningFailed):
            return f"{'no edit' if editing else 'no plan'} can be had: {plain(event.reason, 2000)}"
        if editing:
            return f"the planner answers {event.status} with {count(len(event.actions), 'edit')}"
        return f"planned {count(len(event.plan.tasks), 'task')}" if event.plan else f"the planner answers {event.status}, without a plan"

    def _outcome(self, entry: Entry, event: TaskEnded | ChildEnded | Answered) -> Happening:
        """The end of an attempt, or an answer."""
        task_id = self.part_of(event.effect)
        task = self.constellation.tasks.get(task_id)
        status = task.status if task else None
        if isinstance(event, Answered):
            if event.withdrawn:
                return Happening(entry, "the question is withdrawn", task_id, status, "detail")
            return Happening(entry, answer_words(entry, event), task_id, status)
        self.signs.pop(task_id, None)
        weight: Weight = "detail" if status is TaskStatus.CANCELLED else "event"
        return Happening(entry, _end_words(event, task, entry.at), task_id, status, weight)

    def _part(self, effect_id: str, effect: Effect) -> str:
        match effect:
            case Dispatch(task_id=task_id):
                return task_id
            case StartChild():
                return self.memory.attempts[effect_id].task_id
            case Ask(subject=subject):
                return str(subject.get("task_id", ""))
            case _:
                return ""

    def _effect(self, entry: Entry, effect_id: str, effect: Effect) -> Iterator[Happening]:
        task_id = self.part_of(effect_id)
        self._count_wait(task_id, entry)
        match effect:
            case Dispatch():
                task = self.constellation.tasks.get(task_id)
                skill = f" {plain(effect.skill)}" if effect.skill and (task is None or task.name != effect.skill) else ""
                again = f", attempt {effect.number}" if effect.number > 1 else ""
                yield Happening(entry, f"started{skill} on {plain(effect.device)}{again}", task_id, TaskStatus.RUNNING)
            case AskPlanner():
                told = f": {plain(why_rejected(effect.told))}" if effect.told else ""
                yield Happening(entry, f"the planner is asked{told}", weight="event" if effect.told else "detail")
            case StartChild():
                yield Happening(entry, f"started as run {plain(child_of(effect_id))}", task_id, TaskStatus.RUNNING)
            case Relay():
                told = str(effect.command.get("type", ""))
                yield Happening(entry, f"its run is told to {plain(told)}", task_id, weight="detail")
            case Ask():
                yield Happening(entry, f"waits for a person: {plain(effect.prompt)}", task_id, TaskStatus.RUNNING)
            case Withdraw():
                yield Happening(entry, "an effect is called off", task_id, weight="detail")
            case _:
                pass

    def _count_wait(self, task_id: str, entry: Entry) -> None:
        # Only Drained starts tasks; a question that comes with another event is about an attempt that was made.
        task = self.constellation.tasks.get(task_id)
        if task is not None and task.status is TaskStatus.RUNNING and isinstance(entry.event, Drained):
            self.waited[task_id] = self.waited.get(task_id, 0.0) + max(0.0, entry.at - task.became_pending_at)


def edit_words(edit: Edit) -> tuple[str, str]:
    """The task that an edit is about, if it is about one; and what it does, after the name of whoever does it."""
    task_id = words = ""
    match edit:
        case BuildConstellation(plan=plan, clear=clear):
            words = f"{'builds it anew with' if clear else 'merges'} a plan of {count(len(plan.tasks), 'task')}"
        case AddTask(task=task):
            task_id, words = task.task_id, f"adds it on {plain(task.device)}" if task.device else "adds it"
        case RemoveTask(task_id=task_id):
            words = "removes it"
        case UpdateTask(task_id=task_id, changes=changes):
            words = f"changes it: {preview(changes)}"
        case AddDependency(dependency=line):
            words = f"adds the dependency {plain(line.line_id)}" + (f" if {plain(line.condition)}" if line.condition else "")
        case RemoveDependency(dependency_id=line_id):
            words = f"removes the dependency {plain(line_id)}"
        case UpdateDependency(dependency_id=line_id, type=kind, condition=condition):
            words = f"changes the dependency {plain(line_id)}: {plain(' '.join(filter(None, (kind, condition))))}"
    return task_id, words


def _end_words(event: TaskEnded | ChildEnded, task: TaskStar | None, at: float) -> str:
    finished = event.error is None if isinstance(event, TaskEnded) else event.outcome == "finished"
    if finished:
        return f"completed: {preview(event.result)}"
    said = plain(event.reason if isinstance(event, ChildEnded) else event.error.message if event.error else "")
    if task is not None and task.status is TaskStatus.PENDING:
        wait_s = task.not_before - at
        return f"{said}; again{f' in {duration(wait_s)}' if wait_s > 0 else ''}"
    return f"{str(task.status).lower()}: {said}" if task is not None and task.settled else said


def _standing(task: TaskStar) -> str:
    if task.error:
        return f"{task.status} ({plain(task.error.message)})"
    return f"{task.status} ({preview(task.result)})" if task.result is not None else str(task.status)


_PLAIN_WORDS: dict[type[Event], str] = {Drained: "looked at the whole", Withdrawn: "called off"}
