"""Random fleets, plans, device behaviour, edits and people, drawn from a seed.

The result of a device depends on the task and the seed, never on the order of events, so that two schedules of one
shape differ only in their schedule.
"""

from __future__ import annotations

import itertools
import random
from typing import Any, Literal

import msgspec

from asterism.constellation.machine.events import BUDGET
from asterism.constellation.model.documents import PlanDocument, parse_line, parse_plan, parse_task
from asterism.constellation.model.fan_out import ForEach
from asterism.constellation.model.line import DependencyType
from asterism.constellation.model.parameters import parse_params
from asterism.constellation.model.task import TaskSpec
from asterism.constellation.planner.port import PlannerRequest, Proposal
from asterism.devices.model.references import references
from asterism.devices.port import Attempt
from asterism.engine.control.run_control import Verb
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.ports.store import InquiryRow
from asterism.testing.device import Behaviour, Script
from asterism.testing.people import Answer, Answerer
from asterism.testing.planner import Reply

COMPLETION_ONLY = DependencyType.COMPLETION_ONLY
Shape = Literal["chain", "fan", "layers", "random"]
SHAPES: tuple[Shape, ...] = ("chain", "fan", "layers", "random")
TYPES = ("UNCONDITIONAL", "SUCCESS_ONLY", "SUCCESS_ONLY", "COMPLETION_ONLY", "CONDITIONAL", "CONDITIONAL")
CONDITIONS = ("value > 0.5", "value <= 0.8", "value > 0.1", "status == 'FAILED'", "missing > 1", "result.value > 0.3")

STATUSES: tuple[Literal["FAIL", "CONTINUE", "FINISH", "START"], ...] = ("FAIL", "CONTINUE", "FINISH", "START")
VERBS: tuple[Verb, ...] = ("approve", "approve", "approve", "reject", "respond", "edit", "cancel")

_TOOLS: tuple[str, ...] = (
    "add_task",
    "remove_task",
    "update_task",
    "add_dependency",
    "remove_dependency",
    "update_dependency",
    "build_constellation",
    "explode",
)
_CHANGES: tuple[dict[str, Any], ...] = (
    {"priority": 5},
    {"inputs": {"x": 2}},
    {"requires_approval": True},
    {"deadline_s": 200.0},
    {"device": "nowhere"},
)
_PARAMETERS = {"type": "object", "properties": {"x": {}, "note": {"type": "string"}, "value": {"type": "number"}}}


def likely(rng: random.Random, chance: float) -> bool:
    """Return True with this chance."""
    return rng.random() < chance


def fleet(rng: random.Random) -> list[AgentProfile]:
    """Return three or four devices; the skill ``safe`` is idempotent, ``work`` is not."""
    safe = Skill(name="safe", parameters=_PARAMETERS, idempotent=True)
    work = Skill(name="work", parameters=_PARAMETERS)
    return [
        AgentProfile(
            device_id=f"d{number}", skills=(safe, work) if number in (0, 1) or likely(rng, 0.5) else (safe,), concurrency=rng.randint(1, 3)
        )
        for number in range(rng.randint(3, 4))
    ]


def work(seed: int, *, longest_s: float = 20.0) -> Script:
    """Return a script: some seconds of work, a value between 0 and 1, sometimes progress and a request to replan."""

    def script(attempt: Attempt) -> Behaviour:
        rng = random.Random(f"{seed}:{attempt.task_id}:{attempt.number}")
        duration_s = round(rng.uniform(0.0, longest_s), 2)
        marks = ((duration_s / 3, 0.3, "a third"), (duration_s / 2, None, "half")) if likely(rng, 0.3) else ()
        result = {"value": round(rng.random(), 3), "replan": likely(rng, 0.1), "of": attempt.task_id}
        return Behaviour(duration_s=duration_s, result=result, marks=marks)

    return script


def questions(seed: int, chance: float, attempt: Attempt) -> int:
    """Return the number of questions that a remote device asks in an attempt."""
    rng = random.Random(f"questions:{seed}:{attempt.key}")
    return rng.choice((1, 2, 30)) if likely(rng, chance) else 0


# -- plans -----------------------------------------------------------------------------------------


def plan(rng: random.Random, devices: list[AgentProfile], *, most: int = 12) -> PlanDocument:
    """Return a random plan for a fleet."""
    ids = [f"t{number}" for number in range(rng.randint(1, most))]
    pairs = _pairs(rng, ids, rng.choice(SHAPES))
    upstream: dict[str, list[str]] = {task_id: [] for task_id in ids}
    for source, target in pairs:
        upstream[target].append(source)
    return parse_plan({
        "tasks": [task(rng, task_id, devices, upstream[task_id]) for task_id in ids],
        "dependencies": [dependency(rng, source, target) for source, target in pairs],
    })  # fmt: skip


def _pairs(rng: random.Random, ids: list[str], shape: Shape) -> list[tuple[str, str]]:
    if shape == "chain":
        return list(itertools.pairwise(ids))
    if shape == "fan":
        return [(ids[0], other) for other in ids[1:-1]] + [(other, ids[-1]) for other in ids[1:-1]]
    if shape == "layers":
        width = rng.randint(1, 4)
        layers = [ids[start : start + width] for start in range(0, len(ids), width)]
        return [(above, below) for one, two in itertools.pairwise(layers) for below in two for above in one]
    return [(source, target) for at, target in enumerate(ids) for source in ids[:at] if likely(rng, 2.0 / (at + 1))]


def task(rng: random.Random, task_id: str, devices: list[AgentProfile], upstream: list[str]) -> dict[str, Any]:
    """Return a random task of a plan document."""
    device = rng.choice(devices)
    found: dict[str, Any] = {"task_id": task_id, "device": device.device_id, "skill": rng.choice(device.skills).name, "inputs": {"x": 1}}
    if upstream and likely(rng, 0.3):
        found["inputs"]["x"] = f"${{{rng.choice(upstream)}.value}}"
    if likely(rng, 0.3):
        codes = rng.choice((["raised", "crashed", "timeout"], ["raised", "interrupted", "device_lost"]))
        found["retry"] = {"max_attempts": rng.randint(2, 4), "backoff_s": rng.choice((0.0, 0.5, 5.0)), "on": codes}
    extras: tuple[tuple[str, float, Any], ...] = (
        ("timeout_s", 0.3, rng.choice((1.0, 15.0, 30.0))),
        ("deadline_s", 0.1, rng.choice((20.0, 90.0))),
        ("requires_approval", 0.15, True),
        ("priority", 0.2, rng.randint(-2, 2)),
    )
    return found | {name: value for name, chance, value in extras if likely(rng, chance)}


def dependency(rng: random.Random, source: str, target: str) -> dict[str, Any]:
    """Return a random dependency of a plan document."""
    kind = rng.choice(TYPES)
    condition = {"condition": rng.choice(CONDITIONS)} if kind == "CONDITIONAL" else {}
    return {"from": source, "to": target, "type": kind, **condition}


def extended(rng: random.Random, outer: PlanDocument, devices: list[AgentProfile]) -> PlanDocument:
    """Return the plan with ``when``, ``join: any``, parameters, errors of other tasks, and handlers."""
    sources = {line.target: line for line in outer.dependencies}
    tasks = []
    for spec in outer.tasks:
        changes: dict[str, Any] = {}
        if "x" in spec.inputs and likely(rng, 0.2):
            changes["when"] = rng.choice(("x == 1", "x > 0.4", "x < 0.9", "x != null"))
        if likely(rng, 0.3):
            changes["join"] = "any"
        if spec.skill and likely(rng, 0.3):
            changes["inputs"] = {**spec.inputs, "note": rng.choice(("n", "${params.word}", "${params.word} ${params.count}"))}
        if (line := sources.get(spec.task_id)) and line.type in ("COMPLETION_ONLY", "UNCONDITIONAL") and spec.skill and likely(rng, 0.5):
            changes["inputs"] = {**spec.inputs, "note": f"it said: ${{{line.source}.error}}"}
        tasks.append(msgspec.structs.replace(spec, **changes))
    lines = list(outer.dependencies)
    for role in ("on_failure", "finally"):
        ids = [f"{role}{number}" for number in range(rng.choice((0, 1, 1, 2, 3)))]
        for task_id in ids:
            asked = rng.choice(outer.tasks)
            field = "value" if asked.skill and likely(rng, 0.7) else "error"
            field = "failed" if asked.for_each and field == "value" else field
            written = task(rng, task_id, devices, []) | {"role": role, "inputs": {"x": f"${{{asked.task_id}.{field}}}"}}
            written["inputs"]["note"] = rng.choice(("${run.outcome}: ${run.error}", "${run.id}"))
            written.pop("deadline_s", None)
            tasks.append(parse_task(written))
        lines += [parse_line({"from": one, "to": two, "type": rng.choice(TYPES[:4])}) for one, two in itertools.pairwise(ids)]
    params = parse_params({"word": {"type": "str", "default": "w"}, "count": {"type": "int", "default": 2}})
    return msgspec.structs.replace(outer, tasks=tuple(tasks), dependencies=tuple(lines), params=params)


def nested(rng: random.Random, outer: PlanDocument, devices: list[AgentProfile], *, levels: int = 3) -> PlanDocument:
    """Return the plan with some tasks, whose results no other task uses, replaced by nested constellations."""
    asked = {source for spec in outer.tasks for source, _ in references(spec.inputs)}
    asked |= {line.source for line in outer.dependencies if line.condition}
    tasks = [
        msgspec.structs.replace(spec, device="", skill="", constellation=_inner(rng, devices, levels - 1))
        if spec.task_id not in asked and likely(rng, 0.4)
        else spec
        for spec in outer.tasks
    ]
    return msgspec.structs.replace(outer, tasks=tuple(tasks))


def fanned_out(rng: random.Random, outer: PlanDocument) -> PlanDocument:
    """Return the plan with some tasks performed for each item of a list of 0 to 5: given, or returned by a task before."""
    upstream: dict[str, list[str]] = {}
    for line in outer.dependencies:
        upstream.setdefault(line.target, []).append(line.source)
    tasks = []
    for spec in outer.tasks:
        if likely(rng, 0.4):
            before = upstream.get(spec.task_id, [])
            items: Any = f"${{{rng.choice(before)}.list}}" if before and likely(rng, 0.5) else list(range(rng.randint(0, 5)))
            each = ForEach(items=items, max_concurrent=rng.choice((None, None, 1, 2, 3)), failed=rng.choice(("stop", "omit")))
            when = rng.choice(("", "", "x != 1"))
            spec = msgspec.structs.replace(spec, for_each=each, inputs={"x": rng.choice(("${item}", "${index}"))}, when=when)  # noqa: PLW2901
        tasks.append(spec)
    lists = {spec.task_id for spec in tasks if spec.for_each}
    lines = [
        msgspec.structs.replace(line, type=DependencyType.COMPLETION_ONLY, condition="")
        if line.condition and line.source in lists
        else line
        for line in outer.dependencies
    ]
    tasks = [_with_list_references(spec, lists) for spec in tasks]
    return msgspec.structs.replace(outer, tasks=tuple(tasks), dependencies=tuple(lines))


def _with_list_references(spec: TaskSpec, lists: set[str]) -> TaskSpec:
    """Return a task that refers to the results of tasks with items as lists."""
    inputs = {
        name: f"${{{source[0]}}}" if (source := [it for it, _ in references(value) if it in lists]) else value
        for name, value in spec.inputs.items()
    }
    each = spec.for_each
    if each is not None and isinstance(each.items, str) and any(it in lists for it, _ in references(each.items)):
        each = msgspec.structs.replace(each, items=each.items.replace(".list}", "}"))
    return msgspec.structs.replace(spec, inputs=inputs, for_each=each)


def with_lists(script: Script, seed: int) -> Script:
    """Return a script whose results also have a list of up to five items, and sometimes something else in its place."""

    def listing(attempt: Attempt) -> Behaviour:
        rng = random.Random(f"{seed}:{attempt.task_id}:list")
        found = script(attempt)
        items: Any = "no list" if likely(rng, 0.1) else list(range(rng.randint(0, 5)))
        return msgspec.structs.replace(found, result={**found.result, "list": items}) if isinstance(found.result, dict) else found

    return listing


def _inner(rng: random.Random, devices: list[AgentProfile], levels: int) -> dict[str, Any]:
    document = plan(rng, devices, most=4)
    if levels and likely(rng, 0.3):
        document = nested(rng, document, devices, levels=levels)
    return msgspec.json.decode(msgspec.json.encode(document), type=dict[str, Any])


# -- a planner -------------------------------------------------------------------------------------


class RandomPlanner:
    """Script of a planner with random replies: legal and illegal edits, any status, delays and errors."""

    def __init__(self, seed: int, devices: list[AgentProfile], *, wild: float = 0.25) -> None:
        self._seed = seed
        self._devices = devices
        self._wild = wild

    def __call__(self, question: PlannerRequest) -> Reply:
        """Return a reply that depends only on the seed and the key of the question."""
        rng = random.Random(f"{self._seed}:{question.key}")
        after_s = rng.choice((0.0, 1.0, 10.0, 40.0))
        if likely(rng, 0.05):
            return rng.choice((
                Reply(after_s=after_s, unavailable="simulated: no model"),
                Reply(after_s=after_s, unavailable="simulated: too dear", code=BUDGET),
                Reply(after_s=after_s, breaks="simulated"),
                Reply(after_s=after_s, proposal=Proposal(result={"summary": "half a character: \ud800"})),
            ))  # fmt: skip
        if question.mode == "CREATION":
            proposed = None if likely(rng, 0.1) else plan(rng, self._devices, most=8)
            if proposed and likely(rng, self._wild / 2):
                proposed = invalid_plan(rng, proposed)
            status = rng.choices(STATUSES, (1, 3, 3, 3))[0]
            return Reply(after_s=after_s, proposal=Proposal(plan=proposed, status=status))
        there = question.constellation or {}
        actions = tuple(edit(rng, self._devices, there, wild=self._wild) for _ in range(rng.choice((0, 0, 1, 1, 2, 3))))
        status = rng.choices(STATUSES, (1, 13, 7, 3))[0]
        if likely(rng, self._wild / 3):
            merged = Proposal(plan=plan(rng, self._devices, most=3), actions=actions, status=status)
            return Reply(after_s=after_s, proposal=merged)
        return Reply(after_s=after_s, proposal=Proposal(actions=actions, status=status, result={"summary": "simulated"}))


def invalid_plan(rng: random.Random, planned: PlanDocument) -> PlanDocument:
    """Return the plan with one task that is invalid, or whose skill must be searched for."""
    first, *others = planned.tasks
    changes: tuple[dict[str, Any], ...] = (
        {"device": "nowhere"},
        {"skill": "", "name": "", "description": "keep it safe"},
        {"skill": "", "name": "whatever"},
        {"inputs": {"x": "${nobody.value}"}},
        {"inputs": {"unknown": 1}},
    )
    return msgspec.structs.replace(planned, tasks=(msgspec.structs.replace(first, **rng.choice(changes)), *others))


def edit(rng: random.Random, devices: list[AgentProfile], there: dict[str, Any], *, wild: float = 0.25) -> dict[str, Any]:
    """Return a random edit, legal or not, of a constellation as ``to_dict`` returns it; ``wild``: chance to edit a started task."""
    listed = there.get("tasks", ())
    ids = [found["task_id"] for found in listed]
    editable = [found["task_id"] for found in listed if found.get("status", "PENDING") in ("PENDING", "WAITING_DEPENDENCY")]
    lines = [found["id"] for found in there.get("dependencies", ())]
    target = rng.choice((ids if likely(rng, wild) else editable) or ids)
    parameters: dict[str, Any]
    tool = rng.choice(_TOOLS)
    match tool:
        case "remove_task":
            parameters = {"task_id": target}
        case "update_task":
            parameters = {"task_id": target, **rng.choice(_CHANGES)}
        case "add_dependency":
            parameters = dependency(rng, rng.choice(ids), target)
        case "remove_dependency" if lines:
            parameters = {"dependency_id": rng.choice(lines)}
        case "update_dependency" if lines:
            parameters = {"dependency_id": rng.choice(lines), "type": rng.choice(TYPES[:4])}
        case "build_constellation" | "explode" if likely(rng, wild):
            parameters = {"tasks": [], "clear": True}
        case _:
            tool, parameters = "add_task", task(rng, f"n{len(ids)}_{rng.randrange(100_000)}", devices, [])
    return {"tool": tool, "parameters": parameters}


# -- people ----------------------------------------------------------------------------------------


def helpful(seed: int) -> Answerer:
    """Return one person who answers every inquiry soon, usually with an approval."""

    def answers(inquiry: InquiryRow) -> list[Answer]:
        rng = random.Random(f"{seed}:{inquiry.inquiry_id}")
        verb: Verb = "respond" if "respond" in inquiry.verbs and likely(rng, 0.2) else "reject" if likely(rng, 0.2) else "approve"
        if verb == "approve" and "approve" not in inquiry.verbs:
            verb = "respond"
        return [Answer(verb=verb, after_s=rng.choice((0.5, 5.0)), value={"value": 0.6} if verb == "respond" else None)]

    return answers


def _by_hand(inquiry: InquiryRow) -> dict[str, Any]:
    """Return a person's version of a proposed plan or edit; empty if the inquiry has none."""
    subject = msgspec.json.decode(inquiry.subject)
    if "actions" in subject:
        return {"actions": subject["actions"][:1]}
    found: dict[str, Any] = subject.get("plan", {})
    return found


def people(seed: int) -> Answerer:
    """Return people who answer late, twice, in contradiction, without the client, or not at all."""

    def answers(inquiry: InquiryRow) -> list[Answer]:
        rng = random.Random(f"{seed}:{inquiry.inquiry_id}")
        names = iter(("ada", "bob", "eve"))
        found = []
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            verb = rng.choice(VERBS)
            value: Any = (
                rng.choice(({"x": 3}, {"x": 3}, {"unknown": 1}, {"x": "${t0.value}"}, 7))
                if verb == "edit"
                else {"value": 0.7}
                if verb == "respond"
                else None
            )
            if verb == "edit" and (proposed := _by_hand(inquiry)):
                nobody = {"actions": [{"tool": "update_task", "parameters": {"task_id": "nobody", "priority": 1}}]}
                value = rng.choice((proposed, proposed, {"tasks": []}, nobody))
            if verb == "approve" and '"tool":' in inquiry.subject:
                value = random.Random(f"always:{seed}:{inquiry.inquiry_id}").choice((None, {"always": True}))
            after_s = rng.choice((0.0, 0.5, 1.0, 1.0, 30.0, 400.0))
            found.append(Answer(verb=verb, after_s=after_s, value=value, by=next(names), bypasses_client=likely(rng, 0.2)))
        return found

    return answers
