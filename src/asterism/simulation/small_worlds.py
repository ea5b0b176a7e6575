"""Small worlds of a constellation agent, whole: every order of completions, failures, edits, cancels, answers and crashes.

Time stands still, but for one jump past the wall limit where a budget has it; so a state is what the run
remembers, and the name of an effect is what it is about rather than its place in the journal.
"""

from __future__ import annotations

import itertools
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from asterism.constellation.documents import PlanDocument, parse_plan
from asterism.constellation.profile import AgentProfile, Skill
from asterism.constellation.task import TaskError
from asterism.errors import AsterismError, IllegalTransition, Refused
from asterism.kernel.machine import Effect, Event, Outcome, Redo
from asterism.kernel.run import JournalMismatch, Run, packer
from asterism.machines.constellation_agent.events import (
    AskPlanner,
    ConstellationAgentStatus,
    Dispatch,
    Edited,
    Planned,
    PlanningFailed,
    RunOptions,
    Submitted,
    TaskEnded,
)
from asterism.machines.constellation_agent.memory import AgentMemory
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.control import Answered, Ask, Cancel, Claimed, Drained, Pause, Unpause, Withdraw, Withdrawn
from asterism.simulation.invariants import (
    EDITABLE,
    InvariantViolated,
    cycle_of,
    difference,
    frozen_form,
    held_by,
    unnamed_wait,
    why_not_startable,
)

RUN = "r"
NOW = 1000.0
LATE = 1e9
_EFFECT_ID = re.compile(RUN + r":\d+\.\d+")
_encode = msgspec.json.Encoder(order="sorted").encode


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How often each kind of trouble may come in one run.

    Attributes:
        edits: answers of the planner that change something, or try to.
        live_edits: edits that come from outside, at any moment.
        failures: attempts that fail.
        crashes: owners that die; another one claims the run.
        cancels, pauses, lapses: cancels, pauses (each may be lifted once), jumps of the clock past the wall limit.
    """

    edits: int = 0
    live_edits: int = 0
    failures: int = 0
    crashes: int = 0
    cancels: int = 0
    pauses: int = 0
    lapses: int = 0


class Situation:
    """One state of a small world.

    Attributes:
        run: the machine with its memory, as its owner has it.
        left: what the budget still allows.
        drained: nothing has happened since the last look at the whole.
        epoch: how often the run was claimed.
    """

    def __init__(self, run: Run[AgentMemory], left: Budget, *, drained: bool, epoch: int) -> None:
        self.run = run
        self.left = left
        self.drained = drained
        self.epoch = epoch
        self._packed = b""

    def copy_of_run(self) -> Run[AgentMemory]:
        """A run in this state that shares nothing which a step changes."""
        run = self.run
        self._packed = self._packed or pickle.dumps(run.memory)
        copy: Run[AgentMemory] = Run(run.machine, run.id)
        copy.state, copy.seq = run.state, run.seq
        copy.memory = pickle.loads(self._packed)  # noqa: S301 - our own bytes, from two lines above
        copy.outstanding = dict(run.outstanding)
        copy.withdrawn = set(run.withdrawn)
        return copy


Move = tuple[str, Callable[[], Situation]]


class AgentSpace:
    """What can happen to one plan.

    Args:
        plan: what is run; None to have the planner asked for it first is not offered: creation is a plan or a failure.
        budget: how much trouble there may be.
        options: of the run.
        idempotent: whether its tasks may be done again after a crash.
        edits: what the planner may answer when it is asked for edits, apart from "no change".
    """

    def __init__(
        self,
        plan: PlanDocument,
        budget: Budget,
        *,
        options: RunOptions = RunOptions(),  # noqa: B008 - frozen
        idempotent: bool = True,
        edits: Callable[[AgentMemory], Iterable[Sequence[dict[str, Any]]]] = lambda _: (),
    ) -> None:
        self._plan = plan
        self._budget = budget
        self._options = options
        self._idempotent = idempotent
        self._edits = edits

    def start(self) -> Situation:
        """The run as it was submitted."""
        device = AgentProfile(device_id="d", skills=(Skill(name="work", idempotent=self._idempotent),), concurrency=8)
        first = Submitted(request="small", fleet=(device,), plan=self._plan, options=self._options)
        run = Run(CONSTELLATION_AGENT, RUN)
        run.take(first, at=NOW, actor="person")
        run.take(Claimed(epoch=1, owner="p"), at=NOW, actor="system")
        return Situation(run, self._budget, drained=False, epoch=1)

    def is_end(self, state: Situation) -> bool:
        """True when the run has ended."""
        return state.run.ended

    def key(self, state: Situation) -> bytes:
        """All that the run remembers, in the names of things rather than their places in the journal."""
        run = state.run
        names = {effect_id: _name(effect, run.outstanding) for effect_id, effect in run.outstanding.items()}
        facts = _remembered(run)
        told = _encode([run.state, facts, sorted(names.values()), sorted(run.withdrawn), state.left, state.drained]).decode()
        return _EFFECT_ID.sub(lambda found: names.get(found[0], "gone"), told).encode()

    # -- what can happen ---------------------------------------------------------------------------

    def moves(self, state: Situation) -> Iterator[Move]:
        """Everything that can happen next."""
        if not state.drained:
            yield "drained", lambda: self._take(state, [Drained()], drained=True)
        for effect_id, effect in state.run.outstanding.items():
            yield from self._outcomes(state, effect_id, effect)
        yield from self._trouble(state)

    def _outcomes(self, state: Situation, effect_id: str, effect: Effect) -> Iterator[Move]:
        name = _name(effect, state.run.outstanding)
        if isinstance(effect, Dispatch):
            yield f"{name} completes", lambda: self._take(state, [TaskEnded(effect=effect_id, result={"value": 1})])
            if state.left.failures:
                error = TaskError(code="raised", message="no")
                yield f"{name} fails", lambda: self._take(state, [TaskEnded(effect=effect_id, error=error)], spend="failures")
        elif isinstance(effect, AskPlanner):
            yield from self._answers(state, effect_id, name)
        elif isinstance(effect, Ask):
            for verb in effect.verbs:
                if verb in ("approve", "reject"):
                    yield f"{name}: {verb}", lambda verb=verb: self._take(state, [Answered(effect=effect_id, verb=verb)])  # type: ignore[misc]
        elif isinstance(effect, Withdraw):
            target = state.run.outstanding.get(effect.target)
            outcomes: list[Event] = [target.interrupted(effect.target, "called off")] if target else []
            yield f"{name} is done", lambda: self._take(state, [*outcomes, Withdrawn(effect=effect_id)])

    def _answers(self, state: Situation, effect_id: str, name: str) -> Iterator[Move]:
        yield f"{name}: no change", lambda: self._take(state, [Planned(effect=effect_id)])
        if not state.left.edits:
            return
        yield (
            f"{name}: unavailable",
            lambda: self._take(state, [PlanningFailed(effect=effect_id, code="planning", reason="no")], spend="edits"),
        )
        for status in (ConstellationAgentStatus.FINISH, ConstellationAgentStatus.FAIL):
            yield f"{name}: {status}", lambda status=status: self._take(state, [Planned(effect=effect_id, status=status)], spend="edits")  # type: ignore[misc]
        for actions in self._edits(state.run.memory):
            yield (
                f"{name}: {_told(actions)}",
                lambda actions=actions: self._take(state, [Planned(effect=effect_id, actions=tuple(actions))], spend="edits"),  # type: ignore[misc]
            )

    def _trouble(self, state: Situation) -> Iterator[Move]:
        left, run = state.left, state.run
        if run.ended:
            return
        table = run.machine.table[run.state]
        if left.crashes:
            yield "crash", lambda: self._crash(state)
        if left.cancels and Cancel in table:
            yield "cancel", lambda: self._take(state, [Cancel()], spend="cancels")
        if Pause in table and run.memory.paused:
            yield "unpause", lambda: self._take(state, [Unpause()])
        elif left.pauses and Pause in table:
            yield "pause", lambda: self._take(state, [Pause()], spend="pauses")
        for actions in self._edits(run.memory) if left.live_edits and Edited in table else ():
            edited = Edited(actions=tuple(actions), version=run.memory.constellation.version)
            yield f"from outside: {_told(actions)}", lambda edited=edited: self._take(state, [edited], spend="live_edits")  # type: ignore[misc]
        if left.lapses and run.machine.is_terminal(run.state) is False:
            yield "the wall limit passes", lambda: self._take(state, [Drained()], drained=True, spend="lapses", at=LATE)

    # -- taking ------------------------------------------------------------------------------------

    def _crash(self, state: Situation) -> Situation:
        """The owner dies between two appends; the next one claims, and settles what may not be done again."""
        outstanding, withdrawn = state.run.outstanding, state.run.withdrawn
        redone = tuple(
            key for key, it in outstanding.items() if it.performed_outside and it.redo is not Redo.NEVER and key not in withdrawn
        )
        lost: list[Event] = [
            it.interrupted(key, "its owner died") for key, it in outstanding.items() if key in withdrawn or it.redo is Redo.NEVER
        ]
        claimed = Claimed(epoch=state.epoch + 1, owner="p", redone=redone)
        return self._take(state, [claimed, *lost], spend="crashes", epoch=state.epoch + 1)

    def _take(
        self, state: Situation, events: Sequence[Event], *, drained: bool = False, spend: str = "", at: float = NOW, epoch: int = 0
    ) -> Situation:
        left = msgspec.structs.replace(state.left, **{spend: getattr(state.left, spend) - 1}) if spend else state.left
        run, twin = state.copy_of_run(), state.copy_of_run()
        for event in events:
            _take_checked(run, twin, event, at)
        after = Situation(run, left, drained=drained, epoch=epoch or state.epoch)
        if drained and at == NOW and (why := unnamed_wait(run, at)):
            raise InvariantViolated(8, why, run.story)
        return after


def _take_checked(run: Run[AgentMemory], twin: Run[AgentMemory], event: Event, at: float) -> None:
    """Take one event, see that its packed entry takes the twin to the same state, and that nothing happened that must not."""
    before = run.state
    memory = run.memory
    running = set(memory.board.running if memory.board else ())
    frozen = {} if memory.board is None else _frozen(memory)
    generation = memory.restarts
    try:
        entry = run.take(event, at=at, actor="somebody")
    except (IllegalTransition, Refused) as refused:
        if isinstance(event, Outcome) and not isinstance(event, Answered):
            raise InvariantViolated(6, f"an outcome was refused: {refused}", run.story) from None
        return
    except (AsterismError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise InvariantViolated(5, f"{type(event).__name__} breaks its move: {type(error).__name__}: {error}", run.story) from error
    if entry is None:
        if found := difference(run, twin):
            raise InvariantViolated(5, f"{type(event).__name__} made no entry and changed something: {found}", run.story)
        return
    pack = packer(run.machine)
    try:
        twin.replay([pack.unpack(pack.pack(entry))])
    except JournalMismatch as mismatch:
        raise InvariantViolated(5, str(mismatch), run.story) from None
    if found := difference(run, twin):
        raise InvariantViolated(5, found, run.story)
    if run.machine.is_terminal(before) and run.state != before:
        raise InvariantViolated(4, f"from {before} to {run.state}", run.story)
    held = held_by(memory) if isinstance(event, Drained) else set()  # an answer releases what it had held: only Drained starts anything
    _check_tasks(run, running, held, frozen if run.memory.restarts == generation else {})


def _check_tasks(run: Run[AgentMemory], running: set[str], held: set[str], frozen: dict[str, tuple[bytes, bytes]]) -> None:
    constellation = run.memory.constellation
    if cycle := cycle_of(constellation):
        raise InvariantViolated(1, " -> ".join(cycle), run.story)
    for task_id, (planned, ended) in frozen.items():
        task = constellation.tasks.get(task_id)
        now = frozen_form(constellation, task) if task else (b"", b"")
        if now[0] != planned or (ended and now[1] != ended):
            raise InvariantViolated(3, f"{task_id} was changed while it was read-only", run.story)
    begun = [task for task in constellation.tasks.values() if task.status == "RUNNING" and task.task_id not in running]
    for task in begun:
        if why := why_not_startable(constellation, task):
            raise InvariantViolated(2, why, run.story)
        if task.task_id in held:
            raise InvariantViolated(2, f"{task.task_id} started while it was held", run.story)
        if run.memory.paused:
            raise InvariantViolated(2, f"{task.task_id} started while the run was paused", run.story)
        if task.requires_approval and not task.inquiry and not task.approved:
            raise InvariantViolated(9, f"{task.task_id} started without a yes", run.story)


def _frozen(memory: AgentMemory) -> dict[str, tuple[bytes, bytes]]:
    constellation = memory.constellation
    return {task.task_id: frozen_form(constellation, task) for task in constellation.tasks.values() if task.status not in EDITABLE}


def _name(effect: Effect, outstanding: dict[str, Effect]) -> str:
    if isinstance(effect, Dispatch):
        return f"{effect.task_id}#{effect.number}"
    if isinstance(effect, AskPlanner):
        return f"planner#{effect.number}"
    if isinstance(effect, Ask):
        return f"question about {effect.subject.get('task_id', '')}"
    if isinstance(effect, Withdraw):
        target = outstanding.get(effect.target)
        return f"withdrawal of {_name(target, outstanding) if target else 'what is gone'}"
    return type(effect).__name__


def _told(actions: Sequence[dict[str, Any]]) -> str:
    return ", ".join(f"{action['tool']} {next(iter(action['parameters'].values()), '')}" for action in actions)


def _remembered(run: Run[AgentMemory]) -> dict[str, Any]:
    memory = msgspec.structs.asdict(run.memory)
    board = memory.pop("board")
    facts: dict[str, Any] = {name: sorted(value) if isinstance(value, set) else value for name, value in memory.items()}
    del facts["fleet"]
    if board is not None:
        facts["constellation"] = board.constellation.to_dict()
        facts["board"] = [sorted(board.startable), sorted(board.running), sorted(board.doomed)]
    return facts


# -- plans and edits -------------------------------------------------------------------------------


def small_plans(tasks: int) -> list[PlanDocument]:
    """One plan for each DAG of so many tasks that is not another one renamed; its dependencies take turns in their types."""
    ids = list(range(tasks))
    pairs = list(itertools.combinations(ids, 2))
    found: dict[frozenset[tuple[int, int]], frozenset[tuple[int, int]]] = {}
    for chosen in itertools.chain.from_iterable(itertools.combinations(pairs, count) for count in range(len(pairs) + 1)):
        found.setdefault(_canonical(ids, chosen), frozenset(chosen))
    return [_plan(tasks, sorted(edges)) for edges in found.values()]


def _canonical(ids: Sequence[int], edges: Iterable[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    renamed = (frozenset((order[a], order[b]) for a, b in edges) for order in itertools.permutations(ids))
    return min(renamed, key=sorted)


TYPES = ("SUCCESS_ONLY", "UNCONDITIONAL", "COMPLETION_ONLY", "CONDITIONAL")


def _plan(tasks: int, edges: Sequence[tuple[int, int]]) -> PlanDocument:
    types = itertools.cycle(TYPES)
    lines: list[dict[str, Any]] = []
    for source, target in edges:
        kind = next(types)
        line = {"from": f"t{source}", "to": f"t{target}", "type": kind}
        lines.append({**line, "condition": "value > 0"} if kind == "CONDITIONAL" else line)
    return parse_plan({
        "tasks": [{"task_id": f"t{number}", "device": "d", "skill": "work"} for number in range(tasks)],
        "dependencies": lines,
    })  # fmt: skip


def small_edits(memory: AgentMemory) -> Iterator[Sequence[dict[str, Any]]]:
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
