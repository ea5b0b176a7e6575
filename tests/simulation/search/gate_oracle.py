"""An oracle of its own for gated work: what devices received, against what people were shown and have answered.

It reads the plans of the journal, the rows of the store, and the attempts that simulated devices received. It calls
nothing that decides about guards: no ``permit``, no digest, no function that makes the subject of a question.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from asterism.constellation.machine.events import ConstellationSubmitted, Dispatch, Edited, Planned, Retry
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.model.task import TaskSpec, TaskStar
from asterism.devices.port import Attempt
from asterism.engine.control.children import StartChild, child_run_id
from asterism.engine.control.run_control import Answered, AskPerson, Forked, GuardLifted, Imported, OwnershipAcquired
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import kind_of
from asterism.engine.kernel.permissions import Permission
from asterism.engine.kernel.profile import AgentProfile
from asterism.stores.memory import MemoryDatabase
from asterism.testing.checks.constellation_checks import ConstellationChecks
from asterism.testing.checks.flow_checks import FlowChecks
from asterism.testing.device import Performance
from asterism.testing.invariants import retried_by
from asterism.testing.remote import RemoteJob

FOREIGN = "FOREIGN"
"""Name of a secret, and beginning of names of variables, that only planners and clients write, and no fleet lists."""

RENAMED = "_renamed"
"""End of the name under which a device later reports a skill."""

Identity = tuple[int, str, int]
"""Generation and id of a task, and how often it was removed or retried before."""


class Given(msgspec.Struct, frozen=True):
    """A yes of a person: to which task, and to exactly which request."""

    of: Identity
    request: bytes


class Begun(msgspec.Struct, frozen=True):
    """An attempt in the journal: of which task, and if a plan asks for an approval of it."""

    of: Identity
    asks: bool


class Request(msgspec.Struct, frozen=True):
    """The request of a task that has started a conversation.

    Attributes:
        values: its arguments.
        is_gated: True if a person had to approve it.
        has_bounds: True if no argument may begin as an option does.
    """

    values: dict[str, Any]
    is_gated: bool
    has_bounds: bool


class Told(msgspec.Struct):
    """What a run was told about gates.

    Attributes:
        gates: skills, and devices without skills, that a plan has gated so far.
        lifted: those that an admin has lifted.
        first: gates that concern the first tasks; only a child run has some.
        came_with_plan: True if the submission wrote the first tasks.
        concerning: gates that concern a task, since they stood before it was written.
        written: tasks as they were written last.
        request: of a conversation: the request that has started it.
        wrong: what is wrong with the start of the run; empty if nothing is.
    """

    gates: set[str] = msgspec.field(default_factory=set)
    lifted: set[str] = msgspec.field(default_factory=set)
    first: frozenset[str] = frozenset()
    came_with_plan: bool = False
    generation: int = -1
    concerning: dict[str, frozenset[str]] = msgspec.field(default_factory=dict)
    written: dict[str, bytes] = msgspec.field(default_factory=dict)
    times: collections.Counter[str] = msgspec.field(default_factory=collections.Counter)
    given: set[Given] = msgspec.field(default_factory=set)
    begun: dict[str, Begun] = msgspec.field(default_factory=dict)
    request: Request | None = None
    wrong: str = ""

    def below(self, first: Iterable[str], **more: Any) -> Told:
        """Return what a run is told that this one starts."""
        return Told(gates=set(self.gates), lifted=set(self.lifted), first=frozenset(first), **{"wrong": self.wrong, **more})

    def identity(self, task_id: str) -> Identity:
        """Return what a task is now."""
        return self.generation, task_id, self.times[task_id]


class GateOracle:
    """Judges the work that the devices of a world receive.

    Args:
        fleet: profiles of the devices, with what the fleet guards.
        database: database of the world.

    Attributes:
        imports: True if a journal of another world is imported: its answers count for what has begun there,
            although their rows are not here.
        stale: inbox rows, by run and key, of people who had read another question.
        received: the newest attempt of each key, as its device received it.
        judged: number of gated attempts that devices received.
    """

    def __init__(self, fleet: Mapping[str, AgentProfile], database: MemoryDatabase) -> None:
        self._fleet = fleet
        self._database = database
        self._told: dict[str, Told] = {}
        self._children: dict[str, Told] = {}
        self.imports = False
        self.stale: set[tuple[str, str]] = set()
        self.received: dict[str, Attempt] = {}
        self.judged = 0

    # -- what the journal says ---------------------------------------------------------------------

    def follow(self, entry: Entry, checks: ConstellationChecks, retried: Iterable[str]) -> str:
        """Follow an entry that was replayed; return what is wrong with it, or an empty text."""
        memory, event = checks.replayed.memory, entry.event
        told = self._told.setdefault(entry.run_id, self._children.get(entry.run_id, Told()))
        wrong = ""
        for task_id in retried:
            told.times[task_id] += 1
        if isinstance(event, Imported):
            has_begun = {one.of for one in told.begun.values()}
            told.given = {yes for yes in told.given if yes.of in has_begun}
        if isinstance(event, Imported) or (isinstance(event, Forked) and Permission.ADMIN not in entry.permissions):
            told.gates |= told.lifted
            told.concerning = {task_id: names | told.lifted for task_id, names in told.concerning.items()}
            told.first |= told.lifted
            told.lifted.clear()
        if isinstance(event, GuardLifted) and not entry.note:
            wrong = self._lift(told, event, entry)
        subject = self._subject(event, checks) if not entry.note else None
        if subject is not None and "kind" not in subject:
            self._take(told, event, entry, subject)
        is_plan = isinstance(event, ConstellationSubmitted | Planned | Edited) or (subject is not None and "kind" in subject)
        if isinstance(event, ConstellationSubmitted):
            told.came_with_plan = event.plan is not None
        is_unchanged = isinstance(event, ConstellationSubmitted) or (isinstance(event, Answered) and event.verb == "approve")
        is_given = told.came_with_plan and told.generation < 0 and is_unchanged
        self._read(told, memory, is_written=is_plan, is_given=is_given)
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            if isinstance(effect, Dispatch) and effect.leg == 1:
                task = memory.constellation.tasks[effect.task_id]
                told.begun[effect_id] = Begun(told.identity(effect.task_id), self._asks(told, task, effect.device_id, effect.skill))
            elif isinstance(effect, StartChild):
                task = memory.constellation.tasks[memory.attempts[effect_id].task_id]
                self._children[child_run_id(effect_id)] = told.below(
                    told.concerning[_owner(task)], request=self._request(told, task, effect.start.inputs)
                )
        return wrong

    def _request(self, told: Told, task: TaskStar, inputs: dict[str, Any]) -> Request | None:
        if task.device not in self._fleet:
            return None  # a nested plan
        guard = self._fleet[task.device].guards.every
        return Request(inputs, guard.approval or self._asks(told, task, task.device, ""), "*" in guard.no_options)

    def follow_conversation(self, entry: Entry) -> str:
        """Follow an entry of a conversation, and what it starts; return what is wrong with the entry, or an empty text."""
        told = self._told.setdefault(entry.run_id, self._children.get(entry.run_id, Told()))
        if isinstance(entry.event, GuardLifted) and not entry.note:
            return self._lift(told, entry.event, entry)
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            if isinstance(effect, StartChild) and told.request is not None:
                asked, given = told.request, effect.start.inputs
                changed = {name: given.get(name) for name, value in asked.values.items() if name in given and given[name] != value}
                wrong = f"which is gated above, without a yes to exactly this request: {changed}" if changed and asked.is_gated else ""
                if asked.has_bounds and any(text.startswith("-") for text in _texts(given)):
                    wrong = f"with an option in {given}, out of bounds of the conversation above"
                below = told.below(told.gates if changed else told.first, wrong=wrong or told.wrong)
                self._children[child_run_id(effect_id)] = below
        return ""

    def _subject(self, event: object, checks: ConstellationChecks) -> dict[str, Any] | None:
        asked = checks.effects.get(event.effect_id) if isinstance(event, Answered) else None
        return asked.subject if isinstance(asked, AskPerson) else None

    def _lift(self, told: Told, event: GuardLifted, entry: Entry) -> str:
        row = self._database.inbox.get((entry.run_id, entry.key))
        if Permission.ADMIN not in (row.permissions if row else entry.permissions):
            return f"entry {entry.seq} lifts the guard of {event.name}, and {entry.actor} is no admin"
        told.gates -= {event.name}
        told.lifted.add(event.name)
        return ""

    def _take(self, told: Told, event: object, entry: Entry, subject: dict[str, Any]) -> None:
        """Take a yes that stands in an inbox of this world: a copied journal brings none."""
        row = self._database.inbox.get((entry.run_id, entry.key))
        if not isinstance(event, Answered) or event.verb not in ("approve", "edit") or event.cancelled or not entry.key:
            return
        if row is None and not self.imports:
            return
        is_stale = (entry.run_id, entry.key) in self.stale
        if is_stale or (row is not None and (Permission.ANSWER not in row.permissions or row.kind != kind_of(Answered))):
            return
        asked = self._database.inquiries.get(event.effect_id)
        shown = msgspec.json.decode(asked.subject) if asked else {**subject}
        if event.verb == "edit":
            shown["arguments"] = {**shown.get("arguments", {}), **event.value}
            if shown.get("task_id") in told.concerning:  # an item's edit concerns that item only
                told.concerning[shown["task_id"]] = frozenset(told.gates)
        if "question" not in shown and "constellation" not in shown:
            told.given.add(Given(told.identity(subject["task_id"]), _canonical(shown)))

    def _read(self, told: Told, memory: ConstellationMemory, *, is_written: bool, is_given: bool) -> None:
        """Read the plan as it stands; what was written is concerned by the gates that stood before, unless it was given to a run."""
        if memory.schedule is None:
            return
        if told.generation != memory.restarts:
            told.generation = memory.restarts
            told.written, told.concerning, told.times = {}, {}, collections.Counter()
            before = told.first if is_given else frozenset(told.gates)
        else:
            before = frozenset(told.gates)
        there = {task.task_id: task for task in memory.constellation.tasks.values() if not task.item_of}
        for task_id in told.written.keys() - there.keys():
            told.times[task_id] += 1
            del told.written[task_id], told.concerning[task_id]
        for task_id, task in there.items():
            document = _encode([getattr(task, name) for name in TaskSpec.__struct_fields__])
            if (is_written or task_id not in told.written) and told.written.get(task_id) != document:
                told.concerning[task_id] = before
                asked = set(self._asked_for(task.requires_approval, task.resolved_skill, task.device, task.constellation))
                told.gates |= asked
                told.lifted -= asked
            told.written[task_id] = document

    def _asked_for(self, flag: bool, skill: str, device: str, nested: dict[str, Any] | None) -> Iterator[str]:  # noqa: FBT001 - a field
        """Yield what a task asks to gate."""
        for spec in (nested or {}).get("tasks", ()):
            inner = flag or spec.get("requires_approval", False)
            yield from self._asked_for(inner, spec.get("skill", ""), spec.get("device", ""), spec.get("constellation"))
        if flag and nested is None:
            yield from (name for name in self._names(device, skill) if name in (skill, device))

    def _names(self, device: str, skill: str) -> list[str]:
        is_natural = device in self._fleet and self._fleet[device].natural_language
        return [name for name in dict.fromkeys((skill, skill.removesuffix(RENAMED), device if is_natural else "")) if name]

    def _asks(self, told: Told, task: TaskStar, device: str, skill: str) -> bool:
        flag = task.requires_approval and not told.lifted & {skill, device}
        return flag or bool(told.concerning[_owner(task)] & told.gates & {*self._names(device, skill)})

    # -- what a device received --------------------------------------------------------------------

    def judge(self, attempt: Attempt) -> str:
        """Return what is wrong with an attempt that a device has received; an empty text if nothing is."""
        told, profile = self._told[attempt.run_id], self._fleet[attempt.device_id]
        begun = told.begun[attempt.key]
        guard = profile.guards.skills.get(attempt.skill.removesuffix(RENAMED), profile.guards.every)
        what = f"a device received {attempt.key}, {attempt.skill or 'words'} of {attempt.task_id} on {attempt.device_id}"
        texts = list(_texts(attempt.arguments))
        if "*" in guard.no_options and any(text.startswith("-") for text in texts):
            return f"{what}, with an option in {attempt.arguments}"
        if any(f"${{secret.{FOREIGN}" in text for text in texts) or any(name.startswith(FOREIGN) for name in attempt.env):
            return f"{what}, with a secret or a variable of others that no fleet lists"
        if told.wrong:
            return f"{what}, {told.wrong}"
        if not (guard.approval or begun.asks):
            return ""
        self.judged += 1
        received = {
            "task_id": attempt.task_id,
            "device": attempt.device_id,
            "skill": attempt.skill,
            "description": attempt.description,
            "arguments": attempt.arguments,
            "results": attempt.results,
            "env": attempt.env,
            "folder": attempt.task_folder,
        }
        if Given(begun.of, _canonical(received)) in told.given:
            return ""
        why = "fleet" if guard.approval else "plan"
        return f"{what}, which the {why} gates, without a yes to exactly this request: {_canonical(received).decode()}"


class GateChecks(ConstellationChecks):
    """The checks of a constellation, with the oracle."""

    def __init__(self, oracle: GateOracle, *given: Any) -> None:
        super().__init__(*given)
        self._oracle = oracle
        self._retried_now: set[str] = set()

    def before(self, entry: Entry) -> None:
        super().before(entry)
        if self._oracle.imports and isinstance(entry.event, OwnershipAcquired) and entry.event.epoch == 1:
            self._keys.clear()  # the rows of the journal's answers are not there, so their keys are used again
        is_retry = isinstance(entry.event, Retry) and not entry.note
        self._retried_now = retried_by(self.replayed.memory, entry.event) if is_retry else set()  # type: ignore[arg-type]

    def after(self, entry: Entry) -> None:
        super().after(entry)
        if wrong := self._oracle.follow(entry, self, self._retried_now):
            raise self.fail(9, wrong)

    def performance_started(self, performance: Performance) -> None:
        super().performance_started(performance)
        self._judge(self._oracle.received.get(performance.key))

    def remote_started(self, job: RemoteJob) -> None:
        super().remote_started(job)
        self._judge(job.attempt)

    def _judge(self, attempt: Attempt | None) -> None:
        if attempt is not None and (wrong := self._oracle.judge(attempt)):
            raise self.fail(9, wrong)


class ConversationGateChecks(FlowChecks):
    """The checks of a conversation, with the oracle."""

    def __init__(self, oracle: GateOracle, *given: Any) -> None:
        super().__init__(*given)
        self._oracle = oracle

    def after(self, entry: Entry) -> None:
        super().after(entry)
        if wrong := self._oracle.follow_conversation(entry):
            raise self.fail(9, wrong)


def _owner(task: TaskStar) -> str:
    return task.item_of or task.task_id


def _canonical(request: dict[str, Any]) -> bytes:
    """Return a request as text, without what is empty."""
    return _encode({name: value for name, value in request.items() if value not in ("", {}, [], None)})


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(inner)
