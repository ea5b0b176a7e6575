"""The invariants, and small functions that evaluate them on one run.

The functions read the plain data of the journal and implement the rules a second time: if they called the code under
test, they would share its defects. Not here: when the invariants are checked (``checks``).
"""

from __future__ import annotations

import graphlib
import itertools
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from asterism.constellation.machine.definition import ConstellationDefinition
from asterism.constellation.machine.events import Dispatch, Retry
from asterism.constellation.machine.memory import ConstellationMemory, NotPlanning
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.fan_out import ForEach, ItemCounts
from asterism.constellation.model.line import TaskStarLine
from asterism.constellation.model.resolution import predecessor_results
from asterism.constellation.model.task import TaskSpec, TaskStar
from asterism.engine.control.children import StartChild
from asterism.engine.kernel.run import Run
from asterism.errors import AsterismError

INVARIANTS = {
    1: "the graph is acyclic",
    2: "no task starts before its dependencies are satisfied, or twice under one effect id, or while it is held or paused",
    3: "no read-only task is ever edited",
    4: "terminal states have no exits",
    5: "replay equals the live state",
    6: "every effect has at most one accepted result, and none is lost across a crash",
    7: "one owner per run: two writers never both append",
    8: "every run ends, or waits on something it can name",
    9: "nothing runs that needed approval and did not get it",
    10: "the same seed gives the same journal",
    11: "no secret is ever written",
    12: "the view rows of a run are the same from its deltas and from its memory",
    13: "nobody is asked about an attempt that never began",
    14: "each item of a fan-out is performed as a task, at most so many at once, and its task ends last, with their results in order",
    15: "a remote attempt begins once, its result is that of one job, and nothing runs on its device that the run does not name",
    16: "the form's own invariants hold",
}

SETTLED = ("COMPLETED", "FAILED", "CANCELLED", "SKIPPED")
FAILED = ("FAILED", "CANCELLED")
EDITABLE = ("PENDING", "WAITING_DEPENDENCY")
SATISFIED_BY = {"UNCONDITIONAL": SETTLED, "SUCCESS_ONLY": ("COMPLETED",), "COMPLETION_ONLY": ("COMPLETED", "FAILED")}

_COMPARISON = re.compile(r"(\w+) (>=|<=|>|<) (-?[\d.]+)")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}
_SPEC = tuple(TaskSpec.__struct_fields__)
_OF_ITEMS = (
    "name",
    "skill",
    "resolved_skill",
    "retry",
    "timeout_s",
    "deadline_s",
    "priority",
    "requires_approval",
    "when",
    "role",
    "constellation",
)
_encode = msgspec.json.Encoder(enc_hook=lambda it: it.to_snapshot()).encode


class InvariantViolated(AsterismError):
    """An invariant does not hold.

    Attributes:
        number: number of the invariant.
        finding: description of the violation.
        history: the last entries of the run, one line each.
    """

    def __init__(self, number: int, finding: str, history: Iterable[str] = ()) -> None:
        self.number = number
        self.finding = finding
        self.history = tuple(history)
        lines = "".join(f"\n  {line}" for line in self.history)
        super().__init__(f"invariant {number} ({INVARIANTS[number]}) is violated: {finding}{lines}")


def find_cycle(constellation: TaskConstellation) -> Sequence[str] | None:
    """Return a cycle of dependencies, or None. The algorithm is not the constellation's own."""
    sorter: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter()
    for line in constellation.lines.values():
        sorter.add(line.target, line.source)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return None


def unsatisfied_dependency(constellation: TaskConstellation, task: TaskStar) -> str:
    """Return the unsatisfied dependency of a task that has just started; an empty text if there is none."""
    if task.item_of and constellation.tasks[task.item_of].status != "RUNNING":
        return f"{task.task_id} started, but {task.item_of} is {constellation.tasks[task.item_of].status}"
    lines = constellation.lines_in(task.item_of or task.task_id)
    if task.join == "any":
        if not lines or any(_is_satisfied(line, constellation.tasks[line.source]) for line in lines):
            return ""
        return f"{task.task_id} started, but none of its dependencies is satisfied"
    for line in lines:
        source = constellation.tasks[line.source]
        if not _is_satisfied(line, source):
            return f"{task.task_id} started, but {line.line_id} ({line.type}) is not satisfied: {line.source} is {source.status}"
    return ""


def _is_satisfied(line: TaskStarLine, source: TaskStar) -> bool:
    if line.type != "CONDITIONAL":
        return source.status in SATISFIED_BY[line.type]
    if source.status != "COMPLETED" and not (source.status == "FAILED" and "status" in line.condition):
        return False
    plain = _COMPARISON.fullmatch(line.condition)
    if plain and isinstance(source.result, dict):
        value = source.result.get(plain[1])
        return isinstance(value, int | float) and _COMPARE[plain[2]](value, float(plain[3]))
    return line.verdict is not None and line.verdict.satisfied


def early_handler(run: Run[ConstellationMemory], task: TaskStar) -> str:
    """Return why a handler that has just started should not have; an empty text for any other task."""
    if task.role == "task":
        return ""
    memory = run.memory
    if memory.concluding is None:
        return f"the {task.role} task {task.task_id} started before the end of the run was decided"
    if task.role == "on_failure" and memory.concluding.code in ("finished", "cancelled"):
        return f"the on_failure task {task.task_id} started, but the run is {memory.concluding.code}"
    before = ("task", "on_failure") if task.role == "finally" else ("task",)
    left = [it.task_id for it in memory.constellation.tasks.values() if it.role in before and it.status not in SETTLED]
    if task.role == "finally" and memory.concluding.code in ("finished", "cancelled"):
        left = [task_id for task_id in left if memory.constellation.tasks[task_id].role == "task"]
    if left:
        return f"the {task.role} task {task.task_id} started, but {left[0]} is not settled"
    mine = {key for key, attempt in memory.attempts.items() if memory.constellation.tasks[attempt.task_id].role == task.role}
    under_way = [key for key, it in run.outstanding.items() if isinstance(it, Dispatch | StartChild) and key not in mine]
    return f"the {task.role} task {task.task_id} started, but {under_way[0]} is under way" if under_way else ""


def held_by(memory: ConstellationMemory) -> set[str]:
    """Return the tasks on hold while the planner decides about tasks they depend on."""
    if isinstance(memory.planning, NotPlanning) or memory.options.hold == "none":
        return set()
    if memory.options.hold == "all":
        return set(memory.constellation.tasks)
    targets: dict[str, list[str]] = {}
    for line in memory.constellation.lines.values():
        targets.setdefault(line.source, []).append(line.target)
    held: set[str] = set()
    stack = [*memory.planning.request.batch, *memory.batch]
    while stack:
        for target in targets.get(stack.pop(), ()):
            if target not in held:
                held.add(target)
                stack.append(target)
    return held


def retried_by(memory: ConstellationMemory, retry: Retry) -> set[str]:
    """Return the ended tasks that a retry may let run again: failed ones, and what was skipped or decided because of them."""
    constellation = memory.constellation
    failed = {task.task_id for task in constellation.in_order() if task.status in FAILED}
    retried = {*retry.tasks} or failed
    owners = {constellation.tasks[task_id].item_of or task_id for task_id in retried}
    below = set().union(*(constellation.descendants(task_id) for task_id in owners))
    found = {task_id for task_id in below if constellation.tasks[task_id].status == "SKIPPED"}
    for task in constellation.tasks.values():
        if task.item_of in owners and (task.task_id in retried or task.status in (*FAILED, "SKIPPED")):
            found.add(task.task_id)
    return found | owners


def why_miscounted(task: TaskStar, items: Sequence[TaskStar], *, is_retried: bool = False) -> str:
    """Return what is wrong with the items of a task, in words; an empty text if nothing is.

    Args:
        task: a task that has fanned out.
        items: its items, by index.
        is_retried: True if some of them were retried: they may start after another one has failed.
    """
    each, counts = task.for_each, task.items
    if each is None or counts is None or [item.index for item in items] != list(range(counts.total)):
        return f"its items are {', '.join(item.task_id for item in items)}"
    findings = itertools.chain(_miscounts(each, counts, items, is_retried=is_retried), _mismatches(task, each, items))
    return next(findings, "")


def _miscounts(each: ForEach, counts: ItemCounts, items: Sequence[TaskStar], *, is_retried: bool) -> Iterator[str]:
    number = Counter(str(item.status) for item in items)
    found = (*(number[status] for status in SETTLED), number["PENDING"] + number["RUNNING"])
    if (counts.completed, counts.failed, counts.cancelled, counts.skipped, counts.under_way) != found:
        yield f"it counts {counts}, but has {found}"
    most = each.max_concurrent or counts.total
    if counts.under_way > most:
        yield f"{counts.under_way} items are under way, at most {most} may be"
    unbegun = [item.task_id for item in items if item.status not in SETTLED and not item.attempts]
    if counts.unsuccessful and each.failed == "stop" and unbegun and (counts.stopped or not is_retried):
        yield f"an item has failed, but {unbegun[0]} may still start"
    if number["WAITING_DEPENDENCY"] and counts.under_way < most:
        yield f"{number['WAITING_DEPENDENCY']} items wait, but only {counts.under_way} are under way"


def _mismatches(task: TaskStar, each: ForEach, items: Sequence[TaskStar]) -> Iterator[str]:
    unsettled = [item.task_id for item in items if item.status not in SETTLED]
    if (task.status in SETTLED) != (not unsettled):
        yield f"it is {task.status} while {len(unsettled)} of its items are left"
    changed = [item.task_id for item in items if any(getattr(item, name) != getattr(task, name) for name in _OF_ITEMS)]
    if changed:
        yield f"{changed[0]} is planned differently from it"
    is_stopped = each.failed == "stop" and any(item.status in FAILED for item in items)
    if task.status == "COMPLETED" and (is_stopped or task.result != [item.result for item in items if item.status == "COMPLETED"]):
        yield f"it completed with {task.result}"
    if task.status == "FAILED" and not is_stopped:
        yield f"it failed with {task.error}"


def read_only_form(constellation: TaskConstellation, task: TaskStar) -> tuple[bytes, bytes]:
    """Return the parts of a read-only task that must not change: its plan with its dependencies, and its end (empty before it)."""
    planned = [getattr(task, name) for name in _SPEC]
    waits = sorted((line.line_id, line.source, line.type, line.condition) for line in constellation.lines_in(task.task_id))
    ended = (task.status, task.result, task.error, task.attempts, task.ended_at) if task.status in SETTLED else ()
    return _encode((planned, waits)), _encode(ended) if ended else b""


def subject_of(attempt: Dispatch | StartChild, task: TaskStar, memory: ConstellationMemory) -> dict[str, Any]:
    """Return the subject that a person approves for an attempt at a task: all that its device or child run gets."""
    results = predecessor_results(task, memory.constellation)
    found: dict[str, Any] = {"task_id": task.task_id, "results": results}
    if isinstance(attempt, StartChild):
        plan = attempt.start.defined_as(ConstellationDefinition).plan
        found |= {"description": task.description or task.name, "arguments": attempt.start.inputs}
        found["constellation"] = msgspec.to_builtins(plan)
    else:
        if attempt.sources is not None:
            found["results"] = {source: result for source, result in results.items() if source in attempt.sources}
        found |= {"device": attempt.device_id, "skill": attempt.skill, "description": attempt.description}
        found |= {"arguments": attempt.arguments, "env": attempt.env, "folder": attempt.task_folder}
    return {name: value for name, value in found.items() if value or name == "arguments"}


def difference(live: Run[Any], replayed: Run[Any], facts: Callable[[Run[Any]], dict[str, Any]]) -> str:
    """Return the first difference between a live run and a replay of its journal; an empty text if they are equal."""
    ours, theirs = facts(live), facts(replayed)
    if _encode(ours) == _encode(theirs):
        return ""
    for name, value in ours.items():
        if _encode(_ordered(value)) != _encode(_ordered(theirs.get(name))):
            return f"{name} is {_shown(value)} live, but {_shown(theirs.get(name))} replayed"
    return ""


def life_without_schedule(memory: ConstellationMemory) -> dict[str, Any]:
    """Return the life of a constellation agent as plain data, but for its schedule."""
    return {name: value for name, value in msgspec.structs.asdict(memory.life).items() if name != "schedule"}


def _ordered(value: Any) -> Any:
    """Return a value as plain data, with every set sorted."""
    match value:
        case msgspec.Struct():
            return {name: _ordered(getattr(value, name)) for name in value.__struct_fields__}
        case dict():
            return {name: _ordered(it) for name, it in value.items()}
        case set() | frozenset():
            return sorted((_ordered(it) for it in value), key=_encode)
        case list() | tuple():
            return [_ordered(it) for it in value]
        case _:
            return value


def _shown(value: Any) -> str:
    return _encode(value).decode()[:400]


def facts_of(run: Run[Any]) -> dict[str, Any]:
    """Return the complete state of a run, its timers included."""
    facts: dict[str, Any] = {
        "state": run.state,
        "seq": run.seq,
        "rules": run.rules,
        "outstanding": run.outstanding,
        "abandoned": sorted(run.abandoned),
        "requests": run.fixed_requests,
    }
    for name, value in msgspec.structs.asdict(run.memory).items():
        facts[name] = sorted(value, key=_encode) if isinstance(value, set) else value
    return facts


def constellation_facts(run: Run[ConstellationMemory]) -> dict[str, Any]:
    """Return the complete state of a run of a constellation."""
    facts = facts_of(run)
    facts |= {"_timers": sorted(facts["_timers"]), "life": life_without_schedule(run.memory)}
    if (schedule := run.memory.schedule) is not None:
        facts["constellation"] = schedule.constellation.to_dict()
        facts["items"] = [task for task in schedule.constellation.in_order_with_items() if task.item_of]
        facts["schedule"] = [list(schedule.startable), list(schedule.running), list(schedule.unsatisfiable)]
        facts["wanting"] = [list(schedule.constellation.unevaluated), list(schedule.constellation.dirty)]
    return facts


def unexplained_wait(run: Run[Any], now: float, lost: Collection[str]) -> str:
    """Return the state of a run that waits although no effect, question, pause, backoff or lost device explains it.

    Empty if something does.
    """
    memory = run.memory
    if run.ended or run.outstanding or memory.paused:
        return ""
    schedule = memory.schedule
    for task_id in schedule.startable if schedule else ():
        task = schedule.constellation.tasks[task_id]
        able = [name for name, profile in memory.fleet.items() if name == task.device or profile.skill(task.resolved_skill)]
        if task.not_before > now or all(name in lost for name in able):
            return ""
    return f"the run is in {run.state}, nothing is outstanding, it is not paused, and no task waits for a backoff or a lost device"
