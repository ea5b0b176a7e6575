"""The words of the engine's phrases, which runs of every form have."""

from __future__ import annotations

from collections.abc import Mapping

from asterism.engine.kernel.phrase import Wording, declare

_THERE = " for device {device}{skill:+, skill }"
PHRASES: Mapping[str, Wording] = {
    # why an answer or another command is refused
    "answer.by_submitter": "{actor} has submitted this run and may not {verb} {inquiry}; somebody else must",
    "answer.edit_type": "an edit must be the changes, as a JSON object",
    "answer.not_open": "{inquiry} is not open any more",
    "answer.other_request": "{inquiry} is about another request than this answer names; look at it again, and answer then",
    "answer.permission": lambda actor, verb, inquiry, missing: (
        f"{actor} may not {verb} {inquiry}: that takes the permission {' and '.join(missing)}"
    ),
    "answer.too_long_to_show": "{inquiry} is about a request of more than {most:,} bytes, which is not shown whole; "
    "reject it, and hand over a file in place of the long value",
    "answer.verb": "{inquiry} accepts {verbs}, not {verb}",
    "command_defect": "a defect of asterism: {event} could not be taken: {reason}",
    "no_key": "it has no key",
    "not_accepted": "{machine} in {state} does not accept {event}; accepted: {accepted:or nothing}",
    "not_outstanding": "{effect} is not outstanding",
    "run_ended": lambda run, ended, outcome: f"run {run} {'has ended' if ended else 'is ending'} already ({outcome})",
    "submitted_already": "this run was submitted already",
    # what the guards refuse
    "guards.admin_lifts": "only an admin may lift a guard",
    "guards.approved_above": "this run was approved for one attempt, or one above it; fork or retry run {run}, the root of its tree",
    "guards.folder": "it may not choose its folder; the fleet file allows it by task_folder = true" + _THERE,
    "guards.none_to_lift": "no plan has guarded {name!r}; guarded: {guarded:or nothing}",
    "guards.option": "{name} {text} begins with -, and could be an option",
    "guards.outside": "{name} {text} is not an absolute path within {folder}",
    "guards.secret": 'it may not use the secret {name}; the fleet file allows it by secrets = ["{name}"]' + _THERE,
    "guards.variable": 'it may not set the variable {name}; the fleet file allows it by task_env = ["{name}"]' + _THERE,
    # why a run has ended, or an effect has no result of its own
    "interrupted_failed": "its method interrupted failed: {error}",
    "nobody_answered": "nobody answered in time",
    "no_result_of_interrupted": "its method interrupted returned {returned}, which is not its result",
    "owner_ended": "its owner's process ended while it was under way",
    "run_cancelled": "cancelled by {by}{why:+: }",
    "run_defect": "{event} could not be taken: {why}",
    "stopped": "it was stopped{why:+: }",
    "without_result": "{why}; {problem}",
}
declare(PHRASES)
