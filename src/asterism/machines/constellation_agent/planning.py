"""How what the planner proposes is taken: edits, then skips, then its status, then the hold. By a person first, where that is asked for."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from asterism.constellation.changes import Change, changes, written
from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.documents import PlanDocument
from asterism.constellation.edits import Applied, BuildConstellation, Edit, EditRefused, Refusal, parse_action
from asterism.constellation.nesting import apply_on_fleet
from asterism.constellation.profile import AgentProfile
from asterism.constellation.resolution import best_match
from asterism.errors import Refused
from asterism.kernel.data import round_trip
from asterism.kernel.machine import Turn
from asterism.machines.constellation_agent.approval import ask_approval, decided, shown_plan, told_of
from asterism.machines.constellation_agent.asking import ask_again, may_ask_again, what_moved
from asterism.machines.constellation_agent.ending import finish, give_up, why_not_finished
from asterism.machines.constellation_agent.events import ConstellationAgentStatus, Edited, Planned
from asterism.machines.constellation_agent.memory import AgentMemory
from asterism.machines.constellation_agent.planning_state import AskedPerson, Deferred, Idle, PlanRequest
from asterism.machines.constellation_agent.tasks import call_off, skip_doomed, stop_all
from asterism.machines.control import Answered
from asterism.machines.wiring import Board, settle

START, CONTINUE = ConstellationAgentStatus.START, ConstellationAgentStatus.CONTINUE
FINISH, FAIL = ConstellationAgentStatus.FINISH, ConstellationAgentStatus.FAIL

MAX_ACTIONS = 1000
"""Edits that somebody outside may send as one batch."""


# -- creation --------------------------------------------------------------------------------------


def drafted(memory: AgentMemory, plan: PlanDocument, turn: Turn) -> TaskConstellation:
    """The constellation of a plan, checked against the fleet; it is not the current one yet.

    Raises:
        EditRefused: it cannot be one; nothing has changed.
    """
    generation = memory.restarts
    constellation = TaskConstellation(plan.constellation_id or f"{turn.run}-g{generation}", plan.name, generation=generation)
    _checked(memory, constellation, [BuildConstellation(plan=plan)], turn)
    return constellation


def begin(memory: AgentMemory, constellation: TaskConstellation, turn: Turn) -> None:
    """Make a constellation the current one."""
    memory.board = Board(constellation)
    _touch_all(constellation, turn)
    _wake_at_deadlines(memory, constellation, constellation.tasks)
    settle(memory.board, turn)


def _touch_all(constellation: TaskConstellation, turn: Turn) -> None:
    turn.touch("task", *constellation.tasks)
    turn.touch("line", *constellation.lines)


def take_given(memory: AgentMemory, plan: PlanDocument, turn: Turn) -> ConstellationAgentStatus:
    """Take a plan that came with the request.

    Raises:
        EditRefused: it cannot be carried out; nothing has changed.
    """
    constellation = drafted(memory, plan, turn)
    if memory.options.approve_plan:
        ask_approval(memory, Planned(effect="", plan=shown_plan(plan, constellation)), turn)
        return START
    begin(memory, constellation, turn)
    return CONTINUE


def take_creation(memory: AgentMemory, event: Planned, turn: Turn, *, approved: bool = False) -> ConstellationAgentStatus:
    """Take a proposed constellation: CONTINUE with it, ask a person or the planner again, or FAIL."""
    if event.status is FAIL:
        memory.planning = Idle()
        return give_up(memory, "planner", event.thought or "the planner gave up", turn)
    refusal = Refusal(code="bad_content", what="reply", why="it holds no constellation")
    if event.plan is not None and event.plan.tasks:
        try:
            constellation = drafted(memory, event.plan, turn)
        except EditRefused as refused:
            refusal = refused.refusal
        else:
            if memory.options.approve_plan and not approved:
                shown = Planned(effect=event.effect, thought=event.thought, plan=shown_plan(event.plan, constellation), result=event.result)
                ask_approval(memory, shown, turn)
                return START
            memory.planning = Idle()
            memory.summary = event.result
            begin(memory, constellation, turn)
            return CONTINUE
    told = f"{refusal.what}: {refusal.why}"
    if may_ask_again(memory):
        ask_again(memory, turn, told, refusal)
        return START
    memory.planning = Idle()
    return give_up(memory, refusal.code, f"no usable plan: {told}", turn)


# -- editing ---------------------------------------------------------------------------------------


def take_live_edit(memory: AgentMemory, board: Board, event: Edited, turn: Turn) -> None:
    """Take edits that somebody outside has made; an open question to the planner stays open, and its answer is judged by what it touches.

    Raises:
        EditRefused: nothing has changed.
    """
    if len(event.actions) > MAX_ACTIONS:
        raise EditRefused("too_many", "actions", f"{len(event.actions)} edits at once; at most {MAX_ACTIONS}")
    now = board.constellation.version
    try:
        edits = [parse_action(action) for action in event.actions]
        # A refusal is a note, which no replay steps with: it may leave no trace, and undoing leaves one in the order of things.
        _rehearsed(memory, board.constellation, edits, turn)
        _change(memory, board, edits, turn)
    except EditRefused as refused:
        if event.version == now:
            raise
        why = f"{refused.refusal.why} (it was written against version {event.version}, the constellation is at version {now})"
        raise EditRefused(refused.refusal.code, refused.refusal.what, why) from None


def take_edit(memory: AgentMemory, board: Board, event: Planned, turn: Turn, *, approved: bool = False) -> ConstellationAgentStatus:
    """Take proposed edits, then skip what they have doomed, then take the proposed status."""
    event = _as_edits(event, turn)
    asks_first = memory.options.approve_edits and not approved
    try:
        given_up = asks_first and event.status is FAIL  # nobody is asked about edits of a run that is given up
        edits = [] if given_up else [parse_action(action) for action in event.actions]
        if asks_first:
            changed = _rehearsed(memory, board.constellation, edits, turn)
            if changed or event.status is START:
                ask_approval(memory, event, turn, changed)
                return CONTINUE
            edits = []  # what they would do comes to nothing, so there is nothing to say yes to
        _change(memory, board, edits, turn)
    except EditRefused as refused:
        version = board.constellation.version
        told = f"{refused}. Nothing of this batch was applied; the constellation is at version {version}.{what_moved(memory)}"
        if may_ask_again(memory):
            ask_again(memory, turn, told, refused.refusal)
            return CONTINUE
        turn.recorded("dropped", lambda: told)
        return take_edit(memory, board, msgspec.structs.replace(event, actions=()), turn, approved=approved)
    return _take_status(memory, board, event, turn)


def _as_edits(event: Planned, turn: Turn) -> Planned:
    """A constellation in answer to a question for edits is one to merge; but for a restart, which plans anew."""
    if event.plan is None:
        return event
    if event.status is START:
        turn.recorded("notes", lambda: ["the plan is not taken: a restart asks for a new one"])
        return Planned(effect=event.effect, thought=event.thought, status=START, actions=event.actions, result=event.result)
    merge = {"tool": "build_constellation", "parameters": {**round_trip(event.plan), "clear": False}}
    actions = (merge, *event.actions)
    return Planned(effect=event.effect, thought=event.thought, status=event.status, actions=actions, result=event.result)


def _rehearsed(memory: AgentMemory, constellation: TaskConstellation, edits: list[Edit], turn: Turn) -> list[Change]:
    """What edits would change.

    Raises:
        EditRefused: they cannot be made.
    """
    draft = TaskConstellation.from_dict(constellation.to_dict())
    _checked(memory, draft, edits, turn)
    return changes(written(constellation), written(draft))


def _change(memory: AgentMemory, board: Board, edits: list[Edit], turn: Turn) -> None:
    """Apply a batch, and settle what follows from it at once."""
    applied = _checked(memory, board.constellation, edits, turn)
    _wake_at_deadlines(memory, board.constellation, applied.tasks)
    if applied.notes:
        turn.recorded("notes", lambda: list(applied.notes))
    if applied.changed:
        turn.touch("task", *applied.tasks, *applied.removed_tasks)
        turn.touch("line", *applied.lines, *applied.removed_lines)
        board.forget_removed()
        settle(board, turn)


def _take_status(memory: AgentMemory, board: Board, event: Planned, turn: Turn) -> ConstellationAgentStatus:
    decided, memory.planning = memory.planning, Idle()
    skip_doomed(memory, board, turn)
    if event.result:
        memory.summary = event.result
    if event.status is FAIL:
        return give_up(memory, "planner", event.thought or "the planner gave up", turn)
    if event.status is START:
        return restart(memory, board, event.thought, turn)
    if event.status is FINISH:
        refused = why_not_finished(memory, board, decided)
        if not refused:
            return finish(memory)
        memory.planning = decided
        if may_ask_again(memory):
            ask_again(memory, turn, f"FINISH is refused: {refused}. Remove those tasks, or CONTINUE.")
        else:
            memory.planning = Idle()
    return CONTINUE


def drop_planning(memory: AgentMemory, board: Board, turn: Turn) -> None:
    """No edit can be had: the hold is released and the run goes on."""
    memory.planning = Idle()
    skip_doomed(memory, board, turn)


def restart(memory: AgentMemory, board: Board, why: str, turn: Turn) -> ConstellationAgentStatus:
    """Throw the constellation away for a new one; bounded."""
    if memory.restarts >= memory.options.max_restarts:
        return give_up(memory, "restarts", f"the planner wanted more than {memory.options.max_restarts} restarts", turn)
    stop_all(memory, board, f"restart: {why}" if why else "restart", turn)
    memory.archive.append(board.constellation.to_dict())
    _touch_all(board.constellation, turn)
    memory.restarts += 1
    memory.board = None
    memory.summary = {}
    memory.batch.clear()
    memory.unseen.clear()
    memory.planning = Deferred(request=PlanRequest(reason=why))
    return START


# -- what a person has decided about a proposal ----------------------------------------------------


def take_verdict(memory: AgentMemory, proposed: Planned, event: Answered, turn: Turn) -> ConstellationAgentStatus:
    """Do what a person has decided about a proposal.

    Raises:
        Refused: the question does not take this answer, or an edit by hand cannot be made; it stays open.
    """
    chosen = decided(proposed, event)
    if event.withdrawn or event.verb == "cancel":
        return not_approved(memory, f"{turn.actor} called it off" + (f": {event.reason}" if event.reason else ""), turn)
    if event.verb == "reject":
        why = f"{turn.actor} said no" + (f": {event.reason}" if event.reason else "")
        if not proposed.effect or not may_ask_again(memory):
            return not_approved(memory, why, turn)
        ask_again(memory, turn, told_of(proposed, why), rejection=why)
        return CONTINUE if memory.board else START
    if event.verb == "edit":
        try:
            _try(memory, chosen, turn)
        except EditRefused as refused:
            raise Refused(f"it cannot be done so: {refused}") from None
    if memory.board is None:
        return take_creation(memory, chosen, turn, approved=True)
    return take_edit(memory, memory.board, chosen, turn, approved=True)


def _try(memory: AgentMemory, chosen: Planned, turn: Turn) -> None:
    if memory.board is not None:
        _rehearsed(memory, memory.board.constellation, [parse_action(action) for action in chosen.actions], turn)
    elif chosen.plan is not None:
        drafted(memory, chosen.plan, turn)


def not_approved(memory: AgentMemory, why: str, turn: Turn) -> ConstellationAgentStatus:
    """Nobody said yes, and it is not to be proposed again: no plan is FAIL; an edit is dropped, and the run goes on."""
    memory.planning = Idle()
    if memory.board is None:
        return give_up(memory, "rejected", f"the plan was not approved: {why}", turn)
    turn.recorded("dropped", lambda: f"the edit was not approved: {why}")
    drop_planning(memory, memory.board, turn)
    return CONTINUE


def expire_approval(memory: AgentMemory, turn: Turn) -> ConstellationAgentStatus | None:
    """Settle a question about a proposal whose time is over; None where there is none."""
    asked = memory.planning
    if not isinstance(asked, AskedPerson) or not 0 < asked.expires_at <= turn.at:
        return None
    call_off(memory, asked.effect, turn)
    return not_approved(memory, "nobody answered in time", turn)


# -- applying --------------------------------------------------------------------------------------


def _checked(memory: AgentMemory, constellation: TaskConstellation, edits: list[Edit], turn: Turn) -> Applied:
    """Apply edits with everything checked that the fleet knows."""

    def match(path: str, words: str, profile: AgentProfile) -> str:
        return turn.recorded(f"skill of {path}", lambda: best_match(words, profile))

    return apply_on_fleet(constellation, edits, memory.fleet, match, inputs=memory.inputs)


def _wake_at_deadlines(memory: AgentMemory, constellation: TaskConstellation, task_ids: Iterable[str]) -> None:
    for task_id in task_ids:
        deadline_s = constellation.tasks[task_id].deadline_s
        if deadline_s is not None:
            memory.wake(memory.started_at + deadline_s)
