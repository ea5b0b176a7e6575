"""Applying the planner's proposals: first the edits, then skips, then the proposed status.

A person approves them first if the run's options say so. Live edits from outside are applied here,
too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from asterism.constellation.machine.approval import ask_approval, decided, feedback_on
from asterism.constellation.machine.events import ConstellationAgentStatus, Edited, Planned
from asterism.constellation.machine.guarding import GUARDED, check_written, marks_foreign, note_written
from asterism.constellation.machine.memory import (
    EXTENDED,
    AwaitingApproval,
    ConstellationMemory,
    Deferred,
    NotPlanning,
    Planning,
    PlanRequest,
    Working,
)
from asterism.constellation.machine.planner_requests import ask_again, may_ask_again, what_moved
from asterism.constellation.machine.run_end import (
    FAILURES_REFUSED,
    finish,
    give_up,
    note_dropped,
    note_late_handlers,
    why_not_finished,
)
from asterism.constellation.machine.stopping import cancel_attempt
from asterism.constellation.machine.task_coupling import TaskSchedule, settle
from asterism.constellation.machine.tasks import skip_unsatisfiable, stop_all
from asterism.constellation.model.changes import Change, changes, written
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import PlanDocument
from asterism.constellation.model.edits import (
    Applied,
    BuildConstellation,
    Edit,
    EditRefused,
    parse_action,
    parse_actions,
    with_index,
)
from asterism.constellation.model.nesting import affected, apply_on_fleet, exact_names, with_skills
from asterism.constellation.model.resolution import best_match
from asterism.constellation.model.task import TaskStar
from asterism.engine.control.guarding import note_run_edited
from asterism.engine.control.inquiries import close_inquiry, is_expired
from asterism.engine.control.run_control import Answered
from asterism.engine.kernel.data import round_trip
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.permissions import Permission
from asterism.engine.kernel.phrase import Phrase, phrase
from asterism.engine.kernel.profile import AgentProfile
from asterism.engine.kernel.refusal import Refusal
from asterism.errors import Refused

START, CONTINUE = ConstellationAgentStatus.START, ConstellationAgentStatus.CONTINUE
FINISH, FAIL = ConstellationAgentStatus.FINISH, ConstellationAgentStatus.FAIL

SKILLS_RESTORED = 2
"""Rules version since which a refused batch leaves the skill of a task that the batch replaced."""

PARAMS_IN_CONDITIONS = 5
"""Rules version since which conditions and ``when`` use the plan's parameters."""

NOTES_JOINED = 7
"""Rules version since which the notes of one step are recorded together; before, only the first ones were."""


class _Author(NamedTuple):
    """Who has written edits.

    Attributes:
        exact: True if skills must be named exactly.
        is_foreign: True if the edits came over the network or from a model.
    """

    exact: bool = False
    is_foreign: bool = True


_PLANNER = _Author()


# -- creation --------------------------------------------------------------------------------------


def drafted(memory: ConstellationMemory, plan: PlanDocument, context: StepContext, *, is_foreign: bool = True) -> TaskConstellation:
    """Return the constellation of a plan, checked against the fleet, as a draft.

    Raises:
        EditRefused: the plan is invalid; nothing has changed.
    """
    generation = memory.restarts
    plan = msgspec.structs.replace(plan, params={}) if memory.params else plan
    constellation = TaskConstellation(plan.constellation_id or f"{context.run_id}-g{generation}", plan.name, generation=generation)
    _checked(memory, constellation, [BuildConstellation(plan=plan)], context, _Author(is_foreign=is_foreign))
    return constellation


def begin(
    memory: ConstellationMemory, constellation: TaskConstellation, context: StepContext, *, is_foreign: bool = True, is_given: bool = False
) -> None:
    """Make a constellation the current one; ``is_given`` says that it came with the request, and nobody has changed it since."""
    if context.rules >= GUARDED:
        concerned_by = memory.guards.concerning if is_given else memory.guards.of_plan
        note_written(memory, constellation, constellation.tasks, is_foreign=is_foreign, concerned_by=concerned_by)
    schedule = TaskSchedule(constellation, memory.params)
    memory.life = Working(schedule=schedule)
    _touch_all(constellation, context)
    _wake_at_deadlines(memory, constellation, constellation.tasks)
    settle(schedule, context)


def _touch_all(constellation: TaskConstellation, context: StepContext) -> None:
    context.touch("task", *constellation.tasks)
    context.touch("line", *constellation.lines)


def take_given(memory: ConstellationMemory, plan: PlanDocument, context: StepContext) -> ConstellationAgentStatus:
    """Start with a plan that came with the request.

    Raises:
        EditRefused: the plan cannot run; nothing has changed.
    """
    constellation = drafted(memory, plan, context, is_foreign=memory.guards.is_foreign)
    if memory.options.approve_plan:
        ask_approval(memory, Planned(effect_id="", plan=with_skills(plan, constellation)), context)
        return START
    begin(memory, constellation, context, is_foreign=memory.guards.is_foreign, is_given=True)
    return CONTINUE


def take_creation(
    memory: ConstellationMemory,
    event: Planned,
    context: StepContext,
    *,
    approved: bool = False,
    is_foreign: bool = True,
    is_given: bool = False,
) -> ConstellationAgentStatus:
    """Start with a proposed constellation, ask a person or the planner again, or FAIL."""
    if event.status is FAIL:
        memory.planning = NotPlanning()
        return give_up(memory, "planner", event.thought or phrase("planner_gave_up"), context)
    refusal = Refusal(code="bad_content", what="reply", why=phrase("no_constellation"))
    if event.plan is not None and event.plan.tasks:
        try:
            constellation = drafted(memory, event.plan, context, is_foreign=is_foreign)
        except EditRefused as refused:
            refusal = _recorded(refused, context)
        else:
            is_new_generation = memory.guards.approve_edits and memory.restarts > 0 and context.rules >= GUARDED
            if (memory.guards.approve_plan or is_new_generation) and not approved:
                shown = Planned(
                    effect_id=event.effect_id, thought=event.thought, plan=with_skills(event.plan, constellation), result=event.result
                )
                ask_approval(memory, shown, context)
                return START
            memory.planning = NotPlanning()
            memory.summary = event.result
            begin(memory, constellation, context, is_foreign=is_foreign, is_given=is_given)
            return CONTINUE
    why = phrase("plan_refused", code=refusal.code, what=refusal.what, why=refusal.why)
    if may_ask_again(memory):
        ask_again(memory, context, why)
        return START
    memory.planning = NotPlanning()
    return give_up(memory, refusal.code, phrase("no_usable_plan", why=why), context)


# -- editing ---------------------------------------------------------------------------------------


def take_live_edit(memory: ConstellationMemory, schedule: TaskSchedule, event: Edited, context: StepContext) -> None:
    """Apply edits from outside.

    An open planner request stays open, and its answer is checked against the parts it touches.

    Raises:
        EditRefused: the edits are invalid; nothing has changed.
    """
    if memory.concluding:
        raise EditRefused("ended", "run", phrase("only_handlers_run"))
    now = schedule.constellation.version
    try:
        edits = parse_actions(event.actions)
        # A replay skips refused edits, so they must leave the memory exactly as it was. Applying and
        # undoing them would change the order of tasks; so they are tried on a copy first.
        author = _Author(exact=context.rules >= EXTENDED, is_foreign=Permission.LOCAL not in context.permissions)

        def rehearsal(number: int) -> list[Change]:
            return _rehearsed(memory, schedule.constellation, edits[:number], context, author)

        try:
            rehearsal(len(edits))
        except EditRefused as refused:
            raise with_index(refused, len(edits), rehearsal) from None
        _change(memory, schedule, edits, context, author)
        if context.rules >= GUARDED:
            note_run_edited(memory, is_foreign=author.is_foreign)
    except EditRefused as refused:
        if event.base_version == now:
            raise
        outdated = phrase("outdated", why=refused.refusal.why, base=event.base_version, now=now)
        raise refused.replaced(why=outdated) from None


def take_edit(
    memory: ConstellationMemory, schedule: TaskSchedule, event: Planned, context: StepContext, *, approved: bool = False
) -> ConstellationAgentStatus:
    """Apply proposed edits, skip tasks that can never start, then apply the proposed status."""
    event = _as_edits(event, context)
    asks_first = memory.guards.approve_edits and not approved
    try:
        given_up = asks_first and event.status is FAIL  # edits of a run that is given up need no approval
        edits = [] if given_up else [parse_action(action) for action in event.actions]
        if asks_first:
            changed = _rehearsed(memory, schedule.constellation, edits, context)
            if changed or event.status is START:
                ask_approval(memory, event, context, changed)
                return CONTINUE
            edits = []  # they would change nothing, so there is nothing to approve
        applied = _change(memory, schedule, edits, context)
        if context.rules >= FAILURES_REFUSED:
            note_late_handlers(memory, schedule.constellation, applied)
    except EditRefused as refused:
        version, refusal = schedule.constellation.version, _recorded(refused, context)
        moved = what_moved(memory)
        why = phrase("batch_refused", code=refusal.code, what=refusal.what, why=refusal.why, version=version, moved=moved)
        if may_ask_again(memory):
            ask_again(memory, context, why)
            return CONTINUE
        context.side_effect("dropped", lambda: msgspec.to_builtins(why))
        return take_edit(memory, schedule, msgspec.structs.replace(event, actions=()), context, approved=approved)
    return _take_status(memory, schedule, event, context)


def _as_edits(event: Planned, context: StepContext) -> Planned:
    """Return a proposal as edits.

    A constellation in EDITING is merged; a restart drops it and plans again.
    """
    if event.plan is None:
        return event
    if event.status is START:
        _note([phrase("plan_not_taken")], context)
        return Planned(effect_id=event.effect_id, thought=event.thought, status=START, actions=event.actions, result=event.result)
    merge = {"tool": "build_constellation", "parameters": {**round_trip(event.plan), "clear": False}}
    actions = (merge, *event.actions)
    return Planned(effect_id=event.effect_id, thought=event.thought, status=event.status, actions=actions, result=event.result)


def _rehearsed(
    memory: ConstellationMemory, constellation: TaskConstellation, edits: list[Edit], context: StepContext, author: _Author = _PLANNER
) -> list[Change]:
    """Return the changes that edits would make."""
    draft = TaskConstellation.from_dict(constellation.to_dict())
    _checked(memory, draft, edits, context, author)
    return changes(written(constellation), written(draft))


def _change(
    memory: ConstellationMemory, schedule: TaskSchedule, edits: list[Edit], context: StepContext, author: _Author = _PLANNER
) -> Applied:
    applied = _checked(memory, schedule.constellation, edits, context, author)
    if context.rules >= GUARDED:
        also = affected(applied, schedule.constellation)
        note_written(memory, schedule.constellation, applied.tasks, is_foreign=author.is_foreign, also=also)
    _wake_at_deadlines(memory, schedule.constellation, applied.tasks)
    if applied.notes:
        _note(applied.notes, context)
    if applied.changed:
        context.touch("task", *applied.tasks, *applied.removed_tasks)
        context.touch("line", *applied.lines, *applied.removed_lines)
        schedule.forget_removed()
        settle(schedule, context)
    return applied


def _recorded(refused: EditRefused, context: StepContext) -> Refusal:
    """Return a refusal as data. The text of a parser, or of a guard, is recorded: another version may write another one."""
    refusal = refused.refusal
    if isinstance(refusal.why, Phrase):
        return refusal
    return msgspec.structs.replace(refusal, why=context.side_effect("why refused", lambda: refusal.why))


def _note(notes: Sequence[Phrase], context: StepContext) -> None:
    """Record what the users of the plan should know about a proposal, after what is recorded in this step already."""
    noted = context.side_effect("notes", list[Any])
    if not context.replayed and (context.rules >= NOTES_JOINED or not noted):
        noted += msgspec.to_builtins(notes)


def _take_status(memory: ConstellationMemory, schedule: TaskSchedule, event: Planned, context: StepContext) -> ConstellationAgentStatus:
    decided, memory.planning = memory.planning, NotPlanning()
    skip_unsatisfiable(memory, schedule, context)
    if event.result:
        memory.summary = event.result
    if event.status is FAIL:
        return give_up(memory, "planner", event.thought or phrase("planner_gave_up"), context)
    if event.status is START:
        return restart(memory, schedule, event.thought, context)
    if event.status is FINISH:
        refused = why_not_finished(memory, schedule, decided, context)
        if not refused:
            return finish(memory, context)
        memory.planning = decided
        if may_ask_again(memory):
            ask_again(memory, context, phrase("finish_refused", why=refused))
        else:
            memory.planning = NotPlanning()
    return CONTINUE


def drop_planning(memory: ConstellationMemory, schedule: TaskSchedule, context: StepContext) -> None:
    """Drop the open decision: its tasks are no longer on hold, and the run continues."""
    memory.planning = NotPlanning()
    skip_unsatisfiable(memory, schedule, context)


def restart(memory: ConstellationMemory, schedule: TaskSchedule, why: str, context: StepContext) -> ConstellationAgentStatus:
    """Replace the constellation by a new one, a bounded number of times."""
    if memory.restarts >= memory.options.max_restarts:
        return give_up(memory, "restarts", phrase("too_many_restarts", most=memory.options.max_restarts), context)
    note_dropped(memory, schedule.constellation, context)
    stop_all(memory, schedule, phrase("restart", why=why), context)
    memory.archive.append(schedule.constellation.to_dict())
    _touch_all(schedule.constellation, context)
    memory.restarts += 1
    memory.life = Planning()
    memory.summary = {}
    memory.batch.clear()
    memory.unseen.clear()
    memory.planning = Deferred(request=PlanRequest(reason=why))
    return START


# -- what a person has decided about a proposal ----------------------------------------------------


def take_approval(memory: ConstellationMemory, proposed: Planned, event: Answered, context: StepContext) -> ConstellationAgentStatus:
    """Apply a person's decision about a proposal.

    Raises:
        Refused: the person's edit is invalid, or the plan has changed; the question stays open.
    """
    chosen = decided(proposed, event)
    if event.verb in ("approve", "edit") and _is_outdated(memory, context):
        raise Refused(phrase("asked_again", inquiry=event.effect_id))
    is_edited = event.verb == "edit" and Permission.LOCAL not in context.permissions
    is_foreign = bool(proposed.effect_id) or memory.guards.is_foreign or is_edited  # without an id the plan came with the request
    if event.verb == "edit":
        try:
            if memory.schedule is not None:
                _rehearsed(memory, memory.schedule.constellation, [parse_action(action) for action in chosen.actions], context)
            elif chosen.plan is not None:
                drafted(memory, chosen.plan, context, is_foreign=is_foreign)
        except EditRefused as refused:
            raise Refused(phrase("invalid_edit", what=refused.refusal.subject, why=refused.refusal.why)) from None
        if context.rules >= GUARDED:
            note_run_edited(memory, is_foreign=is_edited)
    if event.cancelled or event.verb == "cancel":
        return not_approved(memory, phrase("cancelled", by=context.actor, because=event.reason), context)
    if event.verb == "reject":
        why = phrase("said_no", by=context.actor, because=event.reason)
        if not proposed.effect_id or not may_ask_again(memory):
            return not_approved(memory, why, context)
        ask_again(memory, context, feedback_on(proposed, why), rejection=why)
        return CONTINUE if memory.schedule else START
    if memory.schedule is None:
        is_given = not proposed.effect_id and event.verb != "edit"
        return take_creation(memory, chosen, context, approved=True, is_foreign=is_foreign, is_given=is_given)
    return take_edit(memory, memory.schedule, chosen, context, approved=True)


def _is_outdated(memory: ConstellationMemory, context: StepContext) -> bool:
    asked = memory.planning
    return context.rules >= GUARDED and isinstance(asked, AwaitingApproval) and asked.version != memory.constellation.version


def ask_about_edited(memory: ConstellationMemory, schedule: TaskSchedule, context: StepContext) -> bool:
    """Ask again about a planner's edits if somebody has edited the plan since; return True if so."""
    asked = memory.planning
    if not isinstance(asked, AwaitingApproval) or not _is_outdated(memory, context):
        return False
    try:
        changed = _rehearsed(memory, schedule.constellation, [parse_action(action) for action in asked.proposed.actions], context)
    except EditRefused:
        changed = []  # after a yes, the planner learns why
    close_inquiry(memory, asked.effect_id, context)
    ask_approval(memory, asked.proposed, context, changed)
    return True


def not_approved(memory: ConstellationMemory, why: Phrase, context: StepContext) -> ConstellationAgentStatus:
    """Handle a proposal that was not approved and is not repeated: FAIL without a plan.

    An edit is dropped.
    """
    memory.planning = NotPlanning()
    if memory.schedule is None:
        return give_up(memory, "rejected", phrase("plan_not_approved", why=why), context)
    context.side_effect("dropped", lambda: msgspec.to_builtins(phrase("edit_not_approved", why=why)))
    drop_planning(memory, memory.schedule, context)
    return CONTINUE


def expire_approval(memory: ConstellationMemory, context: StepContext) -> ConstellationAgentStatus | None:
    """Handle an expired question about a proposal; return None if there is none."""
    asked = memory.planning
    if not isinstance(asked, AwaitingApproval) or not is_expired(memory, asked.effect_id, context):
        return None
    cancel_attempt(memory, asked.effect_id, context)
    return not_approved(memory, phrase("nobody_answered"), context)


# -- applying --------------------------------------------------------------------------------------


def _checked(
    memory: ConstellationMemory, constellation: TaskConstellation, edits: list[Edit], context: StepContext, author: _Author
) -> Applied:
    """Apply edits after checking them against the fleet and its guards."""

    def by_words(path: str, words: str, profile: AgentProfile) -> str | None:
        return context.side_effect(f"skill of {path}", lambda: best_match(words, profile))

    def within_guards(task: TaskStar, *, is_written: bool) -> None:
        check_written(memory.guards, task, is_foreign=author.is_foreign and marks_foreign(task, is_written=is_written))

    match = exact_names(edits, by_words) if author.exact else by_words
    return apply_on_fleet(
        constellation,
        edits,
        memory.fleet,
        match,
        inputs=memory.inputs,
        params=memory.params,
        restore_by_id=context.rules < SKILLS_RESTORED,
        extended=context.rules >= EXTENDED,
        conditions_use_params=context.rules >= PARAMS_IN_CONDITIONS,
        check_each=within_guards if context.rules >= GUARDED else None,
    )


def _wake_at_deadlines(memory: ConstellationMemory, constellation: TaskConstellation, task_ids: Iterable[str]) -> None:
    for task_id in task_ids:
        deadline_s = constellation.tasks[task_id].deadline_s
        if deadline_s is not None:
            memory.wake_up_at(memory.started_at + deadline_s)
