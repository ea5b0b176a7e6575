"""The phrases of a constellation with their words: of refusals, feedback to its planner, errors of tasks, ends and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asterism.engine.kernel.phrase import Text, Wording, declare, joined
from asterism.engine.kernel.profile import HERE
from asterism.errors import did_you_mean

NAMED = 10
"""Number of tasks that a sentence names."""


def _nearest(skills: Sequence[str]) -> str:
    return f"nearest: {', '.join(skills)}" if skills else "it has no skills"


def _no_skill_of_name(device: str, name: str, skills: Sequence[str], nearest: Sequence[str]) -> str:
    what = f"{device} has no skill {name!r}" if name else f"it names no skill of {device}"
    return f"{what}{did_you_mean(name, skills) or f'; {_nearest(nearest)}'}"


def _unknown_name(reference: str, name: str, names: Sequence[str]) -> str:
    there = joined(names) or "none"
    return f"it refers to {reference}{did_you_mean(name, names) or f'; there is {there}'}"


def _unresolvable(source: str, line: str, problem: str, target: str = "") -> str:
    what = f'the condition of {line} asks about tasks["{source}"]' if line else f"inputs refer to ${{{source}…}}"
    missing = {
        "no_item": "only a task with for_each has it",
        "no_end": "only on_failure and finally tasks have it",
        "unknown": f"there is no task {source}",
        "not_upstream": f"{source} is not upstream of it",
    }[problem]
    advice = f'; add to the plan: "dependencies": [{{"from": "{source}", "to": "{target}"}}]' if target else ""
    return f"{what}, but {missing}{advice}"


def _batch_refused(what: str, why: Text, version: int, moved: Sequence[Text], **_: str) -> str:
    since = f" Since you were asked: {joined(moved, NAMED)}." if moved else ""
    return f"{what}: {why}. Nothing of this batch was applied; the constellation is at version {version}.{since}"


def _unhandled(failed: Sequence[Text], *, is_there: bool) -> str:
    depends = " and depends on it (UNCONDITIONAL)" if is_there else ""
    return f"no task handles the end of {joined(failed, NAMED)}. Add a task that performs the same skill{depends}, or FAIL."


def _items_no_list(type: str, items: str) -> str:  # noqa: A002 - a field of the phrase
    names = {"str": "a text", "dict": "an object", "bool": "true or false", "NoneType": "null"}
    return f"for_each.items is {names.get(type, 'a number')}, not a list: {items}"


def _items_failed(failed: int, total: int, named: Sequence[Text], left: int) -> str:
    more = [f"and {left} more"] if left else []
    return f"{failed} of {total} items failed: {'; '.join([*map(str, named), *more])}"


def _task_ended(task: str, name: str, status: str, why: Text, left: int) -> str:
    more = f" (and {left} more)" if left else ""
    return f"{task}{f' ({name})' if name else ''} is {status}: {why}{more}"


_PROPOSALS = {
    "plan": "Run this plan?",
    "edits": "Change the plan so, while it runs?",
    "restart": "Throw the plan away, cancel what runs, and make a new plan?",
}


def _task(task: str, name: str = "", device: str = "") -> str:
    where = "" if not device else " on this computer" if device == HERE else f" on {device}"
    return (f"{task} ({name})" if name else task) + where


PHRASES: Mapping[str, Wording] = {
    # of edits
    "cleared_started": "it is {status}; clear=true would remove it",
    "closes_cycle": "{source} -> {target} would close this cycle",
    "handler_deadline": "a deadline counts from the start of the run; a handler has a timeout_s instead",
    "is_item": "it is an item of {of}, and items cannot be edited; {of} can be until it starts",
    "line_differs": "{line} is there with different content; use update_dependency, or another id",
    "misplaced": "an on_failure or finally task waits for all other tasks, and depends on tasks of its kind only",
    "nested_too_deep": "more than {most} constellations within each other",
    "no_edit": "expected an object with tool and parameters, got {given}",
    "no_such_dependency": "there is no such dependency",
    "no_such_task": "there is no such task",
    "not_editable": "it is {status}; only PENDING and WAITING_DEPENDENCY tasks may be edited",
    "outdated": "{why} (it was written against version {base}, the constellation is at version {now})",
    "parameters_type": "the parameters of {tool} are an object, not {given}",
    "params_in_edit": "a plan has its parameters when it is submitted; write the values here",
    "plan_cycle": "the plan has a cycle; a task cannot wait for itself",
    "reserved_id": "this id is taken, as ${{{task_id}}} refers to something else",
    "role_fixed": "it cannot change; remove the task and add it again",
    "self_cycle": "a task cannot wait for itself",
    "task_differs": "a task of that id is there with different content; use update_task",
    "too_many_edits": "{count} edits at once; at most {most}",
    "too_many_tasks": "a constellation has at most {most} tasks",
    "unknown_field": "unknown field; a task's fields are {fields}",
    "unknown_tool": "unknown tool {tool!r}; the tools are {tools}",
    # of names that a plan uses
    "condition_field": "{condition!r} asks for {field!r}, the result of {source} has {fields}",
    "error_never": "${{{source}.error}} is always null, as {line} is {type}; COMPLETION_ONLY also admits a failure",
    "function_in_thread": "it cannot have its own {what}: function {function} runs in a thread of the program; "
    "define it at the top level of a file",
    "nested_has_device": "a task with a constellation of its own has no device and no skill",
    "no_field": "the result of {source} has no {field!r}; it has {fields}",
    "no_field_of_items": "the result of {source} is the list of its items' results, and has no {field!r}; "
    "${{{source}.failed}} has the failed items",
    "no_skill": lambda device, skill, nearest: f"{device} has no skill {skill!r}; {_nearest(nearest)}",
    "draft_guards": "the plan asks for an approval of {name}; only who writes its file by hand may change that",
    "draft_without_fleet": "the plan asks for approvals, so its editor needs the fleet: add --fleet FILE to asterism mcp edit",
    "no_skill_fits": lambda device, words, nearest: f"no skill of {device} clearly fits {words!r}; {_nearest(nearest)}",
    "no_skill_of_name": _no_skill_of_name,
    "not_an_input": "it refers to {reference}, and its constellation is given {inputs:or no inputs}",
    "runs_of_their_own": "it cannot have its own {what}: the tasks of {device!r}, a device of kind {kind}, are runs of their own",
    "secret_among": "{text}: a text with a secret cannot have other references; give it an input of its own",
    "secret_below": "it starts a run of its own; write ${{secret.…}} in the task there that uses it",
    "secret_items": "the items of for_each are journaled; give ${{secret.…}} as an input",
    "secret_of_wait": "what a task waits for is journaled; a wait has no ${{secret.…}}",
    "secret_name": "{reference}: write ${{secret.NAME}}, in letters, digits and _",
    "skill_needs": "{skill} needs it; give it as an input, or run a task before it whose result has that field",
    "skill_takes": "{skill} takes {names:or nothing}",
    "skill_takes_type": "{skill} takes {type}, not {given}",
    "unknown_device": lambda device, fleet: (
        f"{f'unknown device {device!r}' if device else 'it names no device'}; the fleet has {joined(fleet) or 'no device'}"
    ),
    "unknown_in_match": "match: {match!r} asks for {name!r}; there is {known}",
    "unknown_in_when": lambda when, name, inputs: (
        f"when: {when!r} asks for {name!r}, the inputs are {joined(inputs) or 'none'}{did_you_mean(name, inputs)}"
    ),
    "unknown_name": _unknown_name,
    "unresolvable": _unresolvable,
    # feedback to the planner
    "batch_refused": _batch_refused,
    "ended_since": "a task has ended since you were asked. Remove those tasks, or CONTINUE.",
    "finish_refused": "FINISH is refused: {why}",
    "edit_not_approved": "the edit was not approved: {why}",
    "no_constellation": "it holds no constellation",
    "plan_not_taken": "the plan is ignored: a restart asks for a new one",
    "plan_refused": "{what}: {why}",
    "proposal_rejected": "{why}. What was rejected: {proposal}",
    "task_is": "{task} is {status}",
    "task_with_status": "{task} ({status})",
    "still_running": "{tasks} still running. Remove those tasks, or CONTINUE.",
    "unhandled": _unhandled,
    "unstarted": "{tasks} can still start. Remove those tasks, or CONTINUE.",
    # errors of tasks
    "condition_error": "{condition}: {why}",
    "condition_false": "{condition} is false{values:+: }",
    "condition_too_wide": "{condition}: it may look at {most} values, and there are more; have the task return a summary",
    "condition_type": "{condition}: gives {type}, not yes or no",
    "device_left": "device {device!r} has left the fleet, and no other device has the skill {skill!r}",
    "ended_without_result": "{task} ended without a result",
    "handlers_too_long": "the {role} tasks took longer than {limit_s:g} s",
    "it_needs": "it needs {names}",
    "item_lacks": "{reference}: the item has no {field!r}",
    "items_failed": _items_failed,
    "items_no_list": _items_no_list,
    "items_too_many": "for_each.items has {count:,} items; at most {most:,}",
    "items_too_many_in_run": "for_each.items has {count:,} items, and the run has {others:,} already; at most {most:,} in all",
    "items_there": "{task} has {first} to {last}; failed: {failed}",
    "may_still_run": "{task} may still run on {device}: {why}",
    "no_input": "there is no input {names}",
    "no_items": "{task} has no items",
    "no_params": "the plan has no parameters, and the result has no params",
    "no_result_field": "the result has no {names}; has(result.{first}) asks",
    "no_result_yet": "{task} has no result yet",
    "none_failed": "no task has failed or was cancelled{left_out:+; name an item that was left out, such as }",
    "none_satisfied": lambda reasons: f"none of its dependencies is satisfied: {'; '.join(map(str, reasons[:NAMED]))}",
    "not_started": "not started within {limit_s:g} s of the start of the run",
    "of_item": "{item}: {error}",
    "only_questions": "{device} has asked {count} questions and not returned a result",
    "restart": "restart{why:+: }",
    "result_lacks": "{reference}: the result of {task} has no {field!r}",
    "run_did_not_fail": "the run did not fail",
    "skill_changed": "the skill {skill!r} of device {device!r} has changed since the plan was made: {why}",
    "skill_gone": "device {device!r} has no skill {skill!r} any more",
    "unanswered": "nobody answered in time (within {limit_s:g} s)",
    "unanswered_by_deadline": "nobody answered in time (within {limit_s:g} s of the start of the run)",
    "unbegun_at_import": "it had not begun when the run was imported",
    "under_way_at_fork": "it was under way when {origin} was forked",
    "waited_past_deadline": "it still waited {limit_s:g} s after the start of the run",
    "waited_too_long": "it waited longer than {limit_s:g} s",
    "value_is": "{name} is {value}",
    "was_removed": "{task} was removed",
    # limits and ends of a run
    "asked_too_often": "the planner was asked {count} times",
    "money_spent": "planning has cost {spent:.4f} dollars, and may cost {most:.4f}",
    "cut": "{text}… ({count} characters in all)",
    "no_plan": "no plan",
    "not_a_proposal": "the planner returned a {type}, not a Proposal",
    "no_usable_plan": "no usable plan: {why}",
    "plan_not_approved": "the plan was not approved: {why}",
    "planner_gave_up": "the planner gave up",
    "run_too_long": "the run took longer than {limit_s:g} s",
    "task_ended": _task_ended,
    "tokens_used": "planning has used {used} tokens, and may use {most}",
    "too_many_restarts": "the planner wanted more than {most} restarts",
    # questions to people
    "run_task": lambda task, name, device: f"Run {_task(task, name, device)}?",
    "repeat_before_retry": lambda task, name, device: (
        f"{_task(task, name, device)} was interrupted before this retry and may have finished. Run it again?"
    ),
    "repeat_task": lambda task, name, device, why: (
        f"{_task(task, name, device)} was interrupted and may have finished ({why}). Run it again?"
    ),
    "forked_in_task": lambda task, device, origin: (
        f"{_task(task, device=device)} was under way when {origin} was forked, and may have finished. Run it here?"
    ),
    "forked_in_question": lambda task, device, origin: (
        f"{_task(task, device=device)} was waiting for an answer when {origin} was forked, and has begun there. Run it here?"
    ),
    "approve_proposal": lambda kind, is_edited: ("The plan was edited after this was asked. " if is_edited else "") + _PROPOSALS[kind],
    # what people have decided
    "cancelled": "{by} cancelled it{because:+: }",
    "said_no": "{by} said no{because:+: }",
    # why a command or an answer is refused
    "asked_again": "the plan was edited after {inquiry} was asked; it is asked again",
    "being_planned": "it has no constellation yet; it is being planned",
    "edit_is_actions": 'an edit must be {{"actions": [{{"tool": …, "parameters": {{…}}}}]}}',
    "edit_is_plan": "an edit must be the whole plan: {why}",
    "edit_refers": "an edit must give values, not references ${{…}}, because only the arguments shown are approved",
    "ended_for_edits": "it has ended ({outcome}) and cannot be edited any more",
    "invalid_edit": "this edit is invalid: {what}: {why}",
    "limit_too_low": "{why}; the new limit must be above what is used",
    "no_such_item": "there is no item {item!r}; {there}",
    "no_task_yet": "it has no task yet; it is being planned",
    "not_failed": "{task} is {status}; only failed and cancelled tasks can be retried",
    "only_handlers_run": "its tasks have ended, and only its on_failure and finally tasks still run",
    "reply_is_object": "{device} asks for an object with {fields:or any fields}; give one as JSON",
    "reply_lacks": "the answer lacks {fields}",
    "result_is_object": "{skill} returns an object with {fields}; give such an object",
    "result_was_used": "{by} has used the result of {task}; to repeat both, fork the run at an entry before {by} started "
    "(asterism log, asterism fork --at ENTRY --no-drive), and retry {item} in the fork",
    "retry_in_fork": "it has ended",
    "retry_later": "its end is decided; retry it when it has ended",
    "skill_accepts": "{skill} accepts {names:or no arguments}, not {unknown}",
    "unknown_task": lambda task, names: f"there is no task {task!r}{did_you_mean(task, names) or f'; there is {joined(names[:NAMED])}'}",
    # notes on edits
    "removed_already": "{edit} {id}: it was removed already",
    "so_already": "{edit} {id}: it is so already",
    "there_already": "{edit} {id}: it is there already",
}
declare(PHRASES)
