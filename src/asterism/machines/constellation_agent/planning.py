"""How the planner is asked, and how what it proposes is taken: edits, then skips, then its status, then the hold."""

from __future__ import annotations

from collections.abc import Iterable

from asterism.constellation.batch import apply_edits
from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.documents import PlanDocument
from asterism.constellation.edits import Applied, BuildConstellation, Edit, EditRefused, Refusal, parse_action
from asterism.constellation.nesting import check_applied
from asterism.constellation.profile import AgentProfile
from asterism.constellation.resolution import best_match
from asterism.kernel.machine import Turn
from asterism.machines.constellation_agent.ending import finish, give_up, why_not_finished
from asterism.machines.constellation_agent.events import AskPlanner, ConstellationAgentStatus, Planned, WeavingMode
from asterism.machines.constellation_agent.memory import AgentMemory, Asking
from asterism.machines.constellation_agent.tasks import skip_doomed, stop_all
from asterism.machines.wiring import Board, settle

START, CONTINUE = ConstellationAgentStatus.START, ConstellationAgentStatus.CONTINUE
FINISH, FAIL = ConstellationAgentStatus.FINISH, ConstellationAgentStatus.FAIL


def ask_planner(
    memory: AgentMemory, turn: Turn, *, batch: Iterable[str] = (), told: str = "", refusal: Refusal | None = None, reasks: int = 0
) -> None:
    """Put a question to the planner: for a constellation where there is none, else for edits."""
    asked = tuple(dict.fromkeys([*batch, *memory.batch]))
    memory.asks += 1
    effect = turn.perform(
        AskPlanner(
            mode=WeavingMode.EDITING if memory.board else WeavingMode.CREATION,
            request=memory.request,
            version=memory.constellation.version,
            batch=asked,
            told=told,
            refusal=refusal,
            number=memory.asks,
        )
    )
    memory.asking = Asking(effect=effect, batch=asked, reasks=reasks)
    memory.batch.clear()
    memory.unseen.clear()


def may_ask_again(memory: AgentMemory) -> bool:
    """Whether the bounds leave room for another question about the same batch."""
    asking = memory.asking
    return asking is not None and asking.reasks < memory.options.max_reasks and memory.asks < memory.options.max_asks


def ask_again(memory: AgentMemory, turn: Turn, told: str, refusal: Refusal | None = None) -> None:
    """Tell the planner why its answer could not be taken, and ask once more about the same batch."""
    asking = memory.asking or Asking(effect="")
    ask_planner(memory, turn, batch=asking.batch, told=told, refusal=refusal, reasks=asking.reasks + 1)


# -- creation --------------------------------------------------------------------------------------


def build(memory: AgentMemory, plan: PlanDocument, turn: Turn) -> None:
    """Make a plan the current constellation.

    Raises:
        EditRefused: it cannot be; nothing has changed.
    """
    generation = memory.restarts
    constellation = TaskConstellation(plan.constellation_id or f"{turn.run}-g{generation}", plan.name, generation=generation)
    edit = BuildConstellation(plan=plan)
    _apply(memory, constellation, [edit], turn)
    memory.board = Board(constellation)
    settle(memory.board, turn)


def take_creation(memory: AgentMemory, event: Planned, turn: Turn) -> ConstellationAgentStatus:
    """Take a proposed constellation: CONTINUE with it, ask again, or FAIL."""
    refusal = Refusal(code="bad_content", what="reply", why="it holds no constellation")
    if event.status is FAIL:
        return give_up(memory, "planner", event.thought or "the planner gave up", turn)
    if event.plan is not None and event.plan.tasks:
        try:
            build(memory, event.plan, turn)
        except EditRefused as refused:
            refusal = refused.refusal
        else:
            memory.asking = None
            memory.summary = event.result
            return CONTINUE
    told = f"{refusal.what}: {refusal.why}"
    if may_ask_again(memory):
        ask_again(memory, turn, told, refusal)
        return START
    memory.asking = None
    return give_up(memory, refusal.code, f"no usable plan: {told}", turn)


# -- editing ---------------------------------------------------------------------------------------


def take_edit(memory: AgentMemory, board: Board, event: Planned, turn: Turn) -> ConstellationAgentStatus:
    """Take proposed edits and the proposed status, in the order of DESIGN section 4."""
    try:
        applied = _apply(memory, board.constellation, [parse_action(action) for action in event.actions], turn)
    except EditRefused as refused:
        told = f"{refused}. Nothing of this batch was applied; the constellation is at version {board.constellation.version}."
        if may_ask_again(memory):
            ask_again(memory, turn, told, refused.refusal)
            return CONTINUE
        turn.recorded("dropped", lambda: told)
        applied = Applied()
    if applied.notes:
        turn.recorded("notes", lambda: list(applied.notes))
    if applied.changed:
        board.forget_removed()
        settle(board, turn)
    return _take_status(memory, board, event, turn)


def _take_status(memory: AgentMemory, board: Board, event: Planned, turn: Turn) -> ConstellationAgentStatus:
    asking = memory.asking or Asking(effect="")
    memory.asking = None
    skip_doomed(memory, board, turn)
    if event.result:
        memory.summary = event.result
    if event.status is FAIL:
        return give_up(memory, "planner", event.thought or "the planner gave up", turn)
    if event.status is START:
        return restart(memory, board, event.thought, turn)
    if event.status is FINISH:
        refused = why_not_finished(memory, board, asking)
        if not refused:
            return finish(memory)
        memory.asking = asking
        if may_ask_again(memory):
            ask_again(memory, turn, f"FINISH is refused: {refused}. Remove those tasks, or CONTINUE.")
        else:
            memory.asking = None
    return CONTINUE


def drop_planning(memory: AgentMemory, board: Board, turn: Turn) -> None:
    """No edit can be had: the hold is released and the run goes on."""
    memory.asking = None
    skip_doomed(memory, board, turn)


def restart(memory: AgentMemory, board: Board, why: str, turn: Turn) -> ConstellationAgentStatus:
    """Throw the constellation away for a new one; bounded."""
    if memory.restarts >= memory.options.max_restarts:
        return give_up(memory, "restarts", f"the planner wanted more than {memory.options.max_restarts} restarts", turn)
    stop_all(memory, board, f"restart: {why}" if why else "restart", turn)
    memory.archive.append(board.constellation.to_dict())
    memory.restarts += 1
    memory.board = None
    memory.summary = {}
    memory.batch.clear()
    memory.unseen.clear()
    return START


def _apply(memory: AgentMemory, constellation: TaskConstellation, edits: list[Edit], turn: Turn) -> Applied:
    """Apply edits with everything checked that the fleet knows; wakes at the deadlines of what is new."""
    before: dict[str, str] = {}

    def match(path: str, words: str, profile: AgentProfile) -> str:
        return turn.recorded(f"skill of {path}", lambda: best_match(words, profile))

    def check(applied: Applied) -> None:
        before.update({task_id: constellation.tasks[task_id].resolved_skill for task_id in applied.tasks})
        check_applied(applied, constellation, memory.fleet, match, inputs=memory.inputs)

    try:
        applied = apply_edits(constellation, edits, check)
    except EditRefused:
        for task_id, skill in before.items():
            if task_id in constellation.tasks:
                constellation.tasks[task_id].resolved_skill = skill
        raise
    for task_id in applied.tasks:
        deadline_s = constellation.tasks[task_id].deadline_s
        if deadline_s is not None:
            memory.wake(memory.started_at + deadline_s)
    return applied
