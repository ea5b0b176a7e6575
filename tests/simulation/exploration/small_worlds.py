"""Small worlds of a constellation agent, whole: every order of completions, failures, edits, cancels, answers and crashes.

Not here: what the small worlds of all machines share (``small_run``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from asterism.constellation.machine.events import (
    AskPlanner,
    AttemptBegun,
    AttemptEnded,
    ConstellationAgentStatus,
    ConstellationSubmitted,
    Dispatch,
    Edited,
    Planned,
    PlanningFailed,
    RunOptions,
    WeavingMode,
)
from asterism.constellation.machine.memory import Awaiting, ConstellationMemory, NotPlanning, PlanRequest
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import PlanDocument, parse_plan, parse_task
from asterism.devices.model.attempt import TaskError
from asterism.engine.control.run_control import Answered, AskPerson, BatchEnded
from asterism.engine.kernel.machine import Effect, Event, kind_of
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.kernel.run import Run
from asterism.testing.invariants import (
    EDITABLE,
    InvariantViolated,
    early_handler,
    find_cycle,
    held_by,
    life_without_schedule,
    read_only_form,
    unexplained_wait,
    unsatisfied_dependency,
    why_miscounted,
)
from tests.simulation.exploration.small_run import NOW, Budget, Move, Situation, SmallRun


class AgentSpace(SmallRun[ConstellationMemory]):
    """What can happen to one plan.

    Args:
        plan: what is run, and what the planner gives again after a restart.
        budget: how much trouble there may be.
        options: of the run.
        idempotent: whether its tasks may be done again after a crash.
        concurrency: attempts that the device performs at a time.
        edits: what the planner may answer when it is asked for edits, apart from "no change".
    """

    def __init__(
        self,
        plan: PlanDocument,
        budget: Budget,
        *,
        options: RunOptions = RunOptions(),  # noqa: B008 - frozen
        idempotent: bool = True,
        concurrency: int = 8,
        edits: Callable[[ConstellationMemory], Iterable[Sequence[dict[str, Any]]]] = lambda _: (),
    ) -> None:
        super().__init__(CONSTELLATION_AGENT, budget)
        self._plan = plan
        self._options = options
        self._idempotent = idempotent
        self._concurrency = concurrency
        self._edits = edits

    def first(self) -> Event:
        """The plan, and one device for all of it."""
        device = AgentProfile(
            device_id="d",
            skills=(Skill(name="work", parameters={"properties": {"x": {}}}, idempotent=self._idempotent),),
            concurrency=self._concurrency,
        )
        return ConstellationSubmitted(request="small", fleet=(device,), plan=self._plan, options=self._options)

    def name_of(self, effect: Effect) -> str:
        """The task and the attempt, the planner's question, or the task that a person is asked about."""
        if isinstance(effect, Dispatch):
            return f"{effect.task_id}#{effect.number}"
        if isinstance(effect, AskPlanner):
            return f"planner, {effect.mode}"
        return f"question about {effect.subject.get('task_id', '')}" if isinstance(effect, AskPerson) else kind_of(effect)

    def remembered(self, run: Run[ConstellationMemory]) -> dict[str, Any]:
        """What decides what can happen, and not what is only told.

        Left out are the fleet; how often and when the planner was asked, whose bound is out of reach here; what it alone is told, in
        words (refusals, what moved, earlier constellations), and the order of its batch; and, of a run that has ended, all but whose
        outcomes it still takes. That two states which differ in nothing else can do the same is shown by a walk with all of it
        (``tests/simulation/test_exploration.py``).
        """
        if run.machine.is_terminal(run.state):
            return {}
        facts = super().remembered(run)
        for unread in ("fleet", "asks", "archive"):
            del facts[unread]
        planning = run.memory.planning
        if not isinstance(planning, NotPlanning):
            request = PlanRequest(batch=tuple(sorted(planning.request.batch)), reasks=planning.request.reasks)
            facts["planning"] = (
                msgspec.structs.replace(planning, request=request, asked_at=0, moved={})
                if isinstance(planning, Awaiting)
                else msgspec.structs.replace(planning, request=request)
            )
        board = run.memory.schedule
        facts["life"] = life_without_schedule(run.memory)
        if board is not None:
            facts["constellation"] = board.constellation.to_dict()
            facts["schedule"] = [sorted(board.startable), sorted(board.running), sorted(board.unsatisfiable), board.role]
        return facts

    def why_quiet(self, run: Run[ConstellationMemory]) -> str:
        """As the world's checker judges it."""
        return unexplained_wait(run, NOW, run.memory.lost_devices)

    # -- what can happen ---------------------------------------------------------------------------

    def outcomes(self, state: Situation[ConstellationMemory], effect_id: str, effect: Effect) -> Iterator[Move[ConstellationMemory]]:
        """Begun, completed or failed, an answer of the planner, a yes or a no."""
        name, memory = self.name_of(effect), state.run.memory
        if isinstance(effect, Dispatch) and effect_id in memory.queued:
            if memory.has_free_place(effect.device_id):
                yield f"{name} begins", lambda: self.take(state, [AttemptBegun(of=effect_id)])
        elif isinstance(effect, Dispatch):
            yield f"{name} completes", lambda: self.take(state, [AttemptEnded(effect_id=effect_id, result={"value": 1})])
            if state.left.failures:
                error = TaskError(code="raised", message="no")
                yield f"{name} fails", lambda: self.take(state, [AttemptEnded(effect_id=effect_id, error=error)], spend="failures")
        elif isinstance(effect, AskPlanner):
            yield from self._answers(state, effect_id, effect, name)
        elif isinstance(effect, AskPerson):
            for verb in effect.verbs:
                if verb in ("approve", "reject"):
                    yield f"{name}: {verb}", lambda verb=verb: self.take(state, [Answered(effect_id=effect_id, verb=verb)])  # type: ignore[misc]

    def _answers(
        self, state: Situation[ConstellationMemory], effect_id: str, effect: AskPlanner, name: str
    ) -> Iterator[Move[ConstellationMemory]]:
        anew = effect.mode is WeavingMode.CREATION
        plan = self._plan if anew else None
        yield f"{name}: {'the plan' if anew else 'no change'}", lambda: self.take(state, [Planned(effect_id=effect_id, plan=plan)])
        if not state.left.edits:
            return
        yield (
            f"{name}: unavailable",
            lambda: self.take(state, [PlanningFailed(effect_id=effect_id, code="planning", reason="no")], spend="edits"),
        )
        if anew:
            return
        for status in (ConstellationAgentStatus.FINISH, ConstellationAgentStatus.FAIL, ConstellationAgentStatus.START):
            yield f"{name}: {status}", lambda status=status: self.take(state, [Planned(effect_id=effect_id, status=status)], spend="edits")  # type: ignore[misc]
        for actions in self._edits(state.run.memory):
            yield (
                f"{name}: {_told(actions)}",
                lambda actions=actions: self.take(state, [Planned(effect_id=effect_id, actions=tuple(actions))], spend="edits"),  # type: ignore[misc]
            )

    def commands(self, state: Situation[ConstellationMemory]) -> Iterator[Move[ConstellationMemory]]:
        """Edits."""
        run = state.run
        for actions in self._edits(run.memory) if state.left.live_edits and Edited in run.machine.table[run.state] else ():
            edited = Edited(actions=tuple(actions), base_version=run.memory.constellation.version)
            yield f"from outside: {_told(actions)}", lambda edited=edited: self.take(state, [edited], spend="live_edits")  # type: ignore[misc]

    def watch(self, run: Run[ConstellationMemory]) -> Callable[[Event], None]:
        """No cycle, nothing read-only edited, nothing started that may not be, and nobody asked about what never began."""
        memory = run.memory
        running = set(memory.schedule.running if memory.schedule else ())
        frozen = {} if memory.schedule is None else _frozen(memory)
        generation, queued = memory.restarts, {effect_id: memory.attempts[effect_id].task_id for effect_id in memory.queued}

        def look_after(event: Event) -> None:
            held = (
                held_by(memory) if isinstance(event, BatchEnded) else set()
            )  # an answer releases what it had held: only BatchEnded starts anything
            _check_tasks(run, running, held, frozen if memory.restarts == generation else {})
            asked = [it.about for it in memory.inquiries.values() if it.kind == "interruption"]
            if isinstance(event, AttemptEnded) and queued.get(event.effect_id) in asked:
                raise InvariantViolated(13, f"{event.effect_id} never began", run.history)

        return look_after


def _check_tasks(run: Run[ConstellationMemory], running: set[str], held: set[str], frozen: dict[str, tuple[bytes, bytes]]) -> None:
    constellation = run.memory.constellation
    if cycle := find_cycle(constellation):
        raise InvariantViolated(1, " -> ".join(cycle), run.history)
    for task_id, (planned, ended) in frozen.items():
        task = constellation.tasks.get(task_id)
        now = read_only_form(constellation, task) if task else (b"", b"")
        if now[0] != planned or (ended and now[1] != ended):
            raise InvariantViolated(3, f"{task_id} was changed while it was read-only", run.history)
    begun = [task for task in constellation.tasks.values() if task.status == "RUNNING" and task.task_id not in running]
    for task in constellation.in_order():
        items = [item for item in constellation.in_order_with_items() if item.item_of == task.task_id]
        if task.items is not None and (why := why_miscounted(task, items)):
            raise InvariantViolated(14, f"{task.task_id}: {why}", run.history)
    for task in begun:
        if why := unsatisfied_dependency(constellation, task) or early_handler(run, task):
            raise InvariantViolated(2, why, run.history)
        if task.task_id in held:
            raise InvariantViolated(2, f"{task.task_id} started while it was held", run.history)
        if run.memory.paused:
            raise InvariantViolated(2, f"{task.task_id} started while the run was paused", run.history)
        if task.requires_approval and not task.inquiry_id and not task.approved:
            raise InvariantViolated(9, f"{task.task_id} started without a yes", run.history)


def _frozen(memory: ConstellationMemory) -> dict[str, tuple[bytes, bytes]]:
    constellation = memory.constellation
    return {task.task_id: read_only_form(constellation, task) for task in constellation.tasks.values() if task.status not in EDITABLE}


def _told(actions: Sequence[dict[str, Any]]) -> str:
    return ", ".join(f"{action['tool']} {next(iter(action['parameters'].values()), '')}" for action in actions)


# -- plans and edits -------------------------------------------------------------------------------


def small_plans(tasks: int, **each: Any) -> list[PlanDocument]:
    """One plan for each DAG of so many tasks that is not another one renamed; its dependencies take turns in their types.

    Args:
        tasks: how many.
        each: what else is planned of each task, as plan files say it.
    """
    ids = list(range(tasks))
    pairs = list(itertools.combinations(ids, 2))
    found: dict[frozenset[tuple[int, int]], frozenset[tuple[int, int]]] = {}
    for chosen in itertools.chain.from_iterable(itertools.combinations(pairs, count) for count in range(len(pairs) + 1)):
        found.setdefault(_canonical(ids, chosen), frozenset(chosen))
    return [_plan(tasks, sorted(edges), each) for edges in found.values()]


def _canonical(ids: Sequence[int], edges: Iterable[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    renamed = (frozenset((order[a], order[b]) for a, b in edges) for order in itertools.permutations(ids))
    return min(renamed, key=sorted)


TYPES = ("SUCCESS_ONLY", "UNCONDITIONAL", "COMPLETION_ONLY", "CONDITIONAL")


def _plan(tasks: int, edges: Sequence[tuple[int, int]], each: dict[str, Any]) -> PlanDocument:
    types = itertools.cycle(TYPES)
    lines: list[dict[str, Any]] = []
    for source, target in edges:
        kind = next(types)
        line = {"from": f"t{source}", "to": f"t{target}", "type": kind}
        lines.append({**line, "condition": "value > 0"} if kind == "CONDITIONAL" else line)
    return parse_plan({
        "tasks": [{"task_id": f"t{number}", "device": "d", "skill": "work", **each} for number in range(tasks)],
        "dependencies": lines,
    })  # fmt: skip


def with_handlers(plan: PlanDocument) -> PlanDocument:
    """The plan with one task that runs if it fails, and one that runs in any case."""
    handlers = [
        {"task_id": role, "device": "d", "skill": "work", "role": role, "inputs": {"x": "${run.error}"}}
        for role in ("on_failure", "finally")
    ]
    return msgspec.structs.replace(plan, tasks=(*plan.tasks, *map(parse_task, handlers)))


def small_edits(memory: ConstellationMemory) -> Iterator[Sequence[dict[str, Any]]]:
    """One edit of each kind on each thing it could be about, whether it is allowed or not."""
    constellation = memory.constellation
    tasks = [task.task_id for task in constellation.in_order()]
    new = {"task_id": "new", "device": "d", "skill": "work"}
    yield [{"tool": "add_task", "parameters": new}]
    for task_id in tasks:
        yield [
            {"tool": "add_task", "parameters": new},
            {"tool": "add_dependency", "parameters": {"from": task_id, "to": "new", "type": "COMPLETION_ONLY"}},
        ]
        yield [{"tool": "remove_task", "parameters": {"task_id": task_id}}]
        yield [{"tool": "update_task", "parameters": {"task_id": task_id, "priority": 3}}]
    for source, target in itertools.permutations(tasks, 2):
        if constellation.line_between(source, target) is None:
            yield [{"tool": "add_dependency", "parameters": {"from": source, "to": target}}]
    for line_id in list(constellation.lines):
        yield [{"tool": "remove_dependency", "parameters": {"id": line_id}}]
        yield [{"tool": "update_dependency", "parameters": {"id": line_id, "type": "UNCONDITIONAL"}}]
