"""A story: all that a world is made of, thing by thing, so that a thing can be left out.

A seed draws its world while it lives: what a device does depends on the name of its attempt, and that on everything before.
Leave one task out, and all is drawn anew. So a world is lived once and written down, by number of the attempt, the question and the
reply; what is left out of a story goes well instead. Not here: which things are left out (``shrinking``).
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from asterism.constellation.documents import LineSpec, PlanDocument, TaskSpec
from asterism.constellation.profile import AgentProfile
from asterism.machines.constellation_agent.events import RunOptions
from asterism.planner.model_choice import ModelChoice
from asterism.runtime.ports.device import Attempt
from asterism.runtime.ports.planner import Planner, PlannerQuestion
from asterism.runtime.ports.store import InquiryRow
from asterism.simulation.device import Behaviour, Faults
from asterism.simulation.model_wire import ModelRequest, Say
from asterism.simulation.people import Answer, Crash, ScheduledEvent
from asterism.simulation.planner import Reply, ScriptedPlanner
from asterism.simulation.scripted_model import Answering, Fault
from tests.simulation.search.setting import Setting

WELL = Behaviour(result={"value": 0.6})
"""What a device does where the story says nothing."""
NOTHING = Say(text='{"thought": "simulated", "status": "CONTINUE"}')
"""What a model says where it says nothing: that it goes on."""
MAX_LINE = 1_000
"""Characters of a line that is told."""

_TRAITS = ("name", "inputs", "priority", "timeout_s", "deadline_s", "retry", "requires_approval")
_CIRCUMSTANCES = ("store", "drivers", "spacing", "program", "resends")


class Trait(msgspec.Struct, frozen=True):
    """What a task has that it need not have."""

    task_id: str
    name: str
    value: Any


class Worked(msgspec.Struct, frozen=True):
    """What a device did with the attempt of that number at a task, from 1, whichever run it was of."""

    task_id: str
    number: int
    behaviour: Behaviour


class Replied(msgspec.Struct, frozen=True):
    """What the planner said to its question of that number, from 1, apart from edits."""

    number: int
    reply: Reply


class Uttered(msgspec.Struct, frozen=True):
    """What the model said to the request of that number, where it is asked by the whole pipeline."""

    number: int
    said: Say | Fault


class Action(msgspec.Struct, frozen=True):
    """An edit in the planner's reply of that number."""

    number: int
    action: dict[str, Any]


class Said(msgspec.Struct, frozen=True):
    """What somebody said to the question of that number that people were asked, from 1."""

    number: int
    answer: Answer


class Circumstance(msgspec.Struct, frozen=True):
    """An argument of the world."""

    name: str
    value: Any


class Option(msgspec.Struct, frozen=True):
    """An option of the run that is not as usual."""

    name: str
    value: Any


Part = TaskSpec | Trait | LineSpec | ScheduledEvent | Crash | Action | Replied | Uttered | Said | Worked | Circumstance | Option


class Story(msgspec.Struct, frozen=True):
    """What a world is made of.

    Attributes:
        seed: of the schedule.
        fleet: profiles of the devices.
        planned: a plan is given, and the tasks are its own; else the planner is asked for one.
        parts: everything else.
        choice: how a model is asked, where the planner is the whole pipeline; None where it is scripted itself.
        forks: which run it goes on with, as in a setting.
    """

    seed: int
    fleet: tuple[AgentProfile, ...]
    planned: bool
    parts: tuple[Part, ...]
    choice: ModelChoice | None = None
    forks: tuple[Setting, float] | None = None

    def setting(self) -> Setting:
        """The world it tells of."""
        parts = self.parts
        counts = collections.Counter[str]()
        worked = {(part.task_id, part.number): part.behaviour for part in parts if isinstance(part, Worked)}
        inquiries = itertools.count(1)

        def work(attempt: Attempt) -> Behaviour:
            counts[attempt.task_id] += 1
            return worked.get((attempt.task_id, counts[attempt.task_id]), WELL)

        def people(_: InquiryRow) -> list[Answer]:
            number = next(inquiries)
            return [part.answer for part in parts if isinstance(part, Said) and part.number == number]

        world: dict[str, Any] = {part.name: part.value for part in parts if isinstance(part, Circumstance)}
        world |= {
            "fleet": self.fleet,
            "script": work,
            "people": people,
            "planner": self._planner(),
            "crashes": [part for part in parts if isinstance(part, Crash)],
            "happenings": [part for part in parts if isinstance(part, ScheduledEvent)],
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
        return PlanDocument(tasks=tuple(tasks), dependencies=tuple(lines))

    def _planner(self) -> Planner:
        if self.choice is not None:
            uttered = {part.number: part.said for part in self.parts if isinstance(part, Uttered)}
            return _pipeline(lambda request: uttered.get(request.number, NOTHING), self.choice)
        replies, questions = self._replies(), itertools.count(1)
        return ScriptedPlanner(lambda _: replies.get(next(questions), Reply()))

    def _replies(self) -> dict[int, Reply]:
        replies = {part.number: part.reply for part in self.parts if isinstance(part, Replied)}
        for part in self.parts:
            if isinstance(part, Action):
                reply = replies.get(part.number, Reply())
                proposal = msgspec.structs.replace(reply.proposal, actions=(*reply.proposal.actions, part.action))
                replies[part.number] = msgspec.structs.replace(reply, proposal=proposal)
        return replies

    @property
    def told(self) -> list[str]:
        """It, one line for each task, dependency and happening."""
        plan = self._plan()
        tasks = [f"task {words(spec)}" for spec in plan.tasks]
        lines = [f"{line.source} -> {line.target}, {line.dependency_type} {line.condition}".rstrip() for line in plan.dependencies]
        others = [
            f"{type(part).__name__.lower()} {words(part)}"[:MAX_LINE]
            for part in self.parts
            if not isinstance(part, TaskSpec | LineSpec | Trait)
        ]
        return [*tasks, *lines, *others]


def story_of(setting: Setting, lived: Callable[[Setting], object]) -> Story:
    """Have a world lived, and write down what it was made of."""
    worked: list[Worked] = []
    said: list[Said] = []
    replied: list[Reply] = []
    tries, seen, inquiries = collections.Counter[str](), collections.Counter[str](), itertools.count(1)
    uttered: list[Uttered] = []
    world = dict(setting.world)
    script, faults, planner, asked = world["script"], world.pop("faults", Faults()), world.get("planner"), world["people"]
    choice: ModelChoice | None = getattr(planner, "choice", None)
    model: Any = getattr(planner, "script", None)

    def work(attempt: Attempt) -> Behaviour:
        behaviour: Behaviour = faults.befall(script(attempt), attempt.key, seen[attempt.key])
        seen[attempt.key] += 1
        tries[attempt.task_id] += 1
        worked.append(Worked(attempt.task_id, tries[attempt.task_id], behaviour))
        return behaviour

    def people(inquiry: InquiryRow) -> list[Answer]:
        number, answers = next(inquiries), list(asked(inquiry))
        said.extend(Said(number, answer) for answer in answers)
        return answers

    def reply_to(question: PlannerQuestion) -> Reply:
        reply: Reply = planner.reply_to(question) if planner else Reply()
        replied.append(reply)
        return reply

    def utter(request: ModelRequest) -> Say | Fault:
        said: Say | Fault = model(request)
        uttered.append(Uttered(request.number, said))
        return said

    written: Planner = _pipeline(utter, choice) if choice else ScriptedPlanner(reply_to)
    lived(msgspec.structs.replace(setting, world={**world, "script": work, "people": people, "planner": written}))
    parts: list[Part] = [*_planned(setting.plan), *world.get("happenings", ()), *world.get("crashes", ())]
    for number, reply in enumerate(replied, start=1):
        parts += [Action(number, action) for action in reply.proposal.actions]
        parts.append(Replied(number, msgspec.structs.replace(reply, proposal=msgspec.structs.replace(reply.proposal, actions=()))))
    parts += [*uttered, *said, *worked, *(Circumstance(name, world[name]) for name in _CIRCUMSTANCES if name in world)]
    usual = RunOptions()
    chosen = {name: getattr(setting.options, name) for name in RunOptions.__struct_fields__}
    parts += [Option(name, value) for name, value in chosen.items() if value != getattr(usual, name)]
    return Story(setting.seed, tuple(world["fleet"]), setting.plan is not None, tuple(parts), choice, setting.forks)


def _pipeline(script: Answering, choice: ModelChoice) -> Planner:
    from asterism.simulation.pipeline import PipelinePlanner  # noqa: PLC0415 - heavy, and an extra

    return PipelinePlanner(script, choice)


def _planned(plan: PlanDocument | None) -> list[Part]:
    parts: list[Part] = []
    for spec in plan.tasks if plan else ():
        plain = TaskSpec(task_id=spec.task_id, device=spec.device, skill=spec.skill, constellation=spec.constellation)
        traits = {name: getattr(spec, name) for name in _TRAITS}
        parts += [plain, *(Trait(spec.task_id, name, value) for name, value in traits.items() if value != getattr(plain, name))]
    return [*parts, *(plan.dependencies if plan else ())]


def words(part: Any) -> str:
    """What is not as usual about a part of a world."""
    if not isinstance(part, msgspec.Struct):
        return msgspec.json.encode(part).decode() if isinstance(part, dict | list | tuple) else str(part)
    told = []
    for field in msgspec.structs.fields(part):
        value = getattr(part, field.name)
        if value != field.default and value not in ((), {}, None):
            inner = words(value)
            told.append(f"{field.name} ({inner})" if isinstance(value, msgspec.Struct) else f"{field.name} {inner}")
    return ", ".join(told)
