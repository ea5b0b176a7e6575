"""A scenario: every part of a world listed one by one, so that any part can be removed.

A seed draws its world while the world runs: the behaviour of a device depends on the name of its attempt, which depends
on everything before. Removing one task would change every later draw. The world therefore runs once and is recorded by
number of the attempt, the question and the reply; a removed part is replaced by success. Not here: which parts to
remove (``shrinking``).
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from asterism.constellation.machine.events import RunOptions
from asterism.constellation.model.documents import LineSpec, PlanDocument
from asterism.constellation.model.parameters import Param
from asterism.constellation.model.task import TaskSpec
from asterism.constellation.planner.model_choice import ModelChoice
from asterism.constellation.planner.port import Planner, PlannerRequest
from asterism.devices.port import Attempt
from asterism.engine.kernel.profile import AgentProfile
from asterism.engine.ports.store import InquiryRow
from asterism.testing.device import Behaviour, Faults
from asterism.testing.model_wire import ModelRequest, Say
from asterism.testing.people import Answer, Crash, ScheduledEvent
from asterism.testing.planner import Reply, ScriptedPlanner
from asterism.testing.scripted_model import Answering, Fault
from tests.simulation.search.setting import Setting

SUCCEEDS = Behaviour(result={"value": 0.6})
"""Behaviour of a device without a recorded part."""
CONTINUES = Say(text='{"thought": "simulated", "status": "CONTINUE"}')
"""Reply of a model without a recorded part."""
MAX_LINE = 1_000
"""Maximum characters of a line of the description."""

_PLAIN = ("task_id", "device", "skill", "constellation", "role")
_TRAITS = tuple(name for name in TaskSpec.__struct_fields__ if name not in _PLAIN)
_WORLD_ARGUMENTS = ("store", "drivers", "interval_chars", "program", "resends", "questions", "remote_faults")


class Trait(msgspec.Struct, frozen=True):
    """One optional field of a task."""

    task_id: str
    name: str
    value: Any


class Parameter(msgspec.Struct, frozen=True):
    """One parameter of the plan."""

    name: str
    value: Param


class Performed(msgspec.Struct, frozen=True):
    """Behaviour of a device for attempt ``number`` (from 1) at a task, in any run."""

    task_id: str
    number: int
    behaviour: Behaviour


class PlannerReply(msgspec.Struct, frozen=True):
    """Reply of the planner to question ``number`` (from 1), without its edits."""

    number: int
    reply: Reply


class ModelReply(msgspec.Struct, frozen=True):
    """Reply of the model to request ``number`` of the whole pipeline."""

    number: int
    reply: Say | Fault


class Action(msgspec.Struct, frozen=True):
    """One edit in the planner's reply ``number``."""

    number: int
    action: dict[str, Any]


class PersonAnswer(msgspec.Struct, frozen=True):
    """One answer of a person to inquiry ``number`` (from 1)."""

    number: int
    answer: Answer


class WorldArgument(msgspec.Struct, frozen=True):
    """One argument of the world."""

    name: str
    value: Any


class Option(msgspec.Struct, frozen=True):
    """One option of the run that is not the default."""

    name: str
    value: Any


Part = (
    TaskSpec
    | Trait
    | Parameter
    | LineSpec
    | ScheduledEvent
    | Crash
    | Action
    | PlannerReply
    | ModelReply
    | PersonAnswer
    | Performed
    | WorldArgument
    | Option
)


class Scenario(msgspec.Struct, frozen=True):
    """All parts of a world.

    Attributes:
        seed: seed of the schedule.
        fleet: profiles of the devices.
        planned: True if the run has a plan with the recorded tasks; False to ask the planner.
        parts: all other parts.
        choice: model settings of the whole pipeline; None for a scripted planner.
        forks: the forked run, as in ``Setting``.
    """

    seed: int
    fleet: tuple[AgentProfile, ...]
    planned: bool
    parts: tuple[Part, ...]
    choice: ModelChoice | None = None
    forks: tuple[Setting, float] | None = None

    def setting(self) -> Setting:
        """Return the world of this scenario."""
        parts = self.parts
        counts = collections.Counter[str]()
        performed = {(part.task_id, part.number): part.behaviour for part in parts if isinstance(part, Performed)}
        inquiries = itertools.count(1)

        def work(attempt: Attempt) -> Behaviour:
            counts[attempt.task_id] += 1
            return performed.get((attempt.task_id, counts[attempt.task_id]), SUCCEEDS)

        def people(_: InquiryRow) -> list[Answer]:
            number = next(inquiries)
            return [part.answer for part in parts if isinstance(part, PersonAnswer) and part.number == number]

        world: dict[str, Any] = {part.name: part.value for part in parts if isinstance(part, WorldArgument)}
        world |= {
            "fleet": self.fleet,
            "script": work,
            "people": people,
            "planner": self._planner(),
            "crashes": [part for part in parts if isinstance(part, Crash)],
            "scheduled_events": [part for part in parts if isinstance(part, ScheduledEvent)],
        }
        options = RunOptions(**{part.name: part.value for part in parts if isinstance(part, Option)})
        return Setting(seed=self.seed, world=world, plan=self._plan() if self.planned else None, options=options, forks=self.forks)

    def _plan(self) -> PlanDocument:
        traits: dict[str, dict[str, Any]] = collections.defaultdict(dict)
        for part in self.parts:
            if isinstance(part, Trait):
                traits[part.task_id][part.name] = part.value
        tasks = [msgspec.structs.replace(part, **traits[part.task_id]) for part in self.parts if isinstance(part, TaskSpec)]
        ids = {spec.task_id for spec in tasks}
        lines = [part for part in self.parts if isinstance(part, LineSpec) and {part.source, part.target} <= ids]
        params = {part.name: part.value for part in self.parts if isinstance(part, Parameter)}
        return PlanDocument(tasks=tuple(tasks), dependencies=tuple(lines), params=params)

    def _planner(self) -> Planner:
        if self.choice is not None:
            model_replies = {part.number: part.reply for part in self.parts if isinstance(part, ModelReply)}
            return _pipeline(lambda request: model_replies.get(request.number, CONTINUES), self.choice)
        replies, questions = self._replies(), itertools.count(1)
        return ScriptedPlanner(lambda _: replies.get(next(questions), Reply()))

    def _replies(self) -> dict[int, Reply]:
        replies = {part.number: part.reply for part in self.parts if isinstance(part, PlannerReply)}
        for part in self.parts:
            if isinstance(part, Action):
                reply = replies.get(part.number, Reply())
                proposal = msgspec.structs.replace(reply.proposal, actions=(*reply.proposal.actions, part.action))
                replies[part.number] = msgspec.structs.replace(reply, proposal=proposal)
        return replies

    @property
    def description(self) -> list[str]:
        """Return one line for each task, dependency and other part."""
        plan = self._plan()
        tasks = [f"task {describe(spec)}" for spec in plan.tasks]
        lines = [f"{line.source} -> {line.target}, {line.dependency_type} {line.condition}".rstrip() for line in plan.dependencies]
        others = [
            f"{type(part).__name__.lower()} {describe(part)}"[:MAX_LINE]
            for part in self.parts
            if not isinstance(part, TaskSpec | LineSpec | Trait)
        ]
        return [*tasks, *lines, *others]


def record_scenario(setting: Setting, execute: Callable[[Setting], object]) -> Scenario:
    """Run a world with ``execute`` and record its parts."""
    performed: list[Performed] = []
    answers: list[PersonAnswer] = []
    replies: list[Reply] = []
    attempts, performances, inquiries = collections.Counter[str](), collections.Counter[str](), itertools.count(1)
    model_replies: list[ModelReply] = []
    world = dict(setting.world)
    script, faults, planner, ask_people = world["script"], world.pop("faults", Faults()), world.get("planner"), world["people"]
    choice: ModelChoice | None = getattr(planner, "choice", None)
    model: Any = getattr(planner, "script", None)

    def work(attempt: Attempt) -> Behaviour:
        behaviour: Behaviour = faults.apply(script(attempt), attempt.key, performances[attempt.key])
        performances[attempt.key] += 1
        attempts[attempt.task_id] += 1
        performed.append(Performed(attempt.task_id, attempts[attempt.task_id], behaviour))
        return behaviour

    def people(inquiry: InquiryRow) -> list[Answer]:
        number, given = next(inquiries), list(ask_people(inquiry))
        answers.extend(PersonAnswer(number, answer) for answer in given)
        return given

    def reply_to(question: PlannerRequest) -> Reply:
        reply: Reply = planner.reply_to(question) if planner else Reply()
        replies.append(reply)
        return reply

    def model_reply(request: ModelRequest) -> Say | Fault:
        reply: Say | Fault = model(request)
        model_replies.append(ModelReply(request.number, reply))
        return reply

    recorder: Planner = _pipeline(model_reply, choice) if choice else ScriptedPlanner(reply_to)
    execute(msgspec.structs.replace(setting, world={**world, "script": work, "people": people, "planner": recorder}))
    parts: list[Part] = [*_planned(setting.plan), *world.get("scheduled_events", ()), *world.get("crashes", ())]
    for number, reply in enumerate(replies, start=1):
        parts += [Action(number, action) for action in reply.proposal.actions]
        parts.append(PlannerReply(number, msgspec.structs.replace(reply, proposal=msgspec.structs.replace(reply.proposal, actions=()))))
    parts += [*model_replies, *answers, *performed, *(WorldArgument(name, world[name]) for name in _WORLD_ARGUMENTS if name in world)]
    defaults = RunOptions()
    chosen = {name: getattr(setting.options, name) for name in RunOptions.__struct_fields__}
    # ``is not``: a journal omits a field whose value is the default object, and writes an equal one
    parts += [Option(name, value) for name, value in chosen.items() if value is not getattr(defaults, name)]
    return Scenario(setting.seed, tuple(world["fleet"]), setting.plan is not None, tuple(parts), choice, setting.forks)


def _pipeline(script: Answering, choice: ModelChoice) -> Planner:
    from asterism.testing.pipeline import PipelinePlanner  # noqa: PLC0415 - heavy, and an extra

    return PipelinePlanner(script, choice)


def _planned(plan: PlanDocument | None) -> list[Part]:
    parts: list[Part] = []
    for spec in plan.tasks if plan else ():
        plain = TaskSpec(**{name: getattr(spec, name) for name in _PLAIN})
        traits = {name: getattr(spec, name) for name in _TRAITS}
        parts += [plain, *(Trait(spec.task_id, name, value) for name, value in traits.items() if value != getattr(plain, name))]
    return [*parts, *(Parameter(name, it) for name, it in plan.params.items()), *plan.dependencies] if plan else []


def describe(part: Any) -> str:
    """Describe the fields of a part that are not the default."""
    if not isinstance(part, msgspec.Struct):
        return msgspec.json.encode(part).decode() if isinstance(part, dict | list | tuple) else str(part)
    found = []
    for field in msgspec.structs.fields(part):
        value = getattr(part, field.name)
        if value != field.default and value not in ((), {}, None):
            inner = describe(value)
            found.append(f"{field.name} ({inner})" if isinstance(value, msgspec.Struct) else f"{field.name} {inner}")
    return ", ".join(found)
