"""How the golden journals of version 1 were translated to version 2: the record of what was done, by tables of names.

Version 1 named events, effects and fields after the classes of the program; version 2 names them in words of their own. Nothing else
changed but that the first event and the definition of a loop lost ``fingerprint``. No version with the older form was released, so no
program has this step.
``python -m tests.journals.translate`` translates what is of version 1 and leaves all else as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from asterism.engine.kernel.journal import Record
from tests.journals.write import GOLDEN, path_of

TAGS = {
    "Claimed": "ownership_acquired",
    "Drained": "batch_ended",
    "Pause": "pause",
    "Unpause": "unpause",
    "Cancel": "cancel",
    "Forked": "forked",
    "Broke": "transition_failed",
    "Answered": "answered",
    "Ask": "ask_person",
    "Withdraw": "cancel_effect",
    "Withdrawn": "effect_cancelled",
    "StartChild": "start_child",
    "ChildEnded": "child_ended",
    "ChildRested": "child_blocked",
    "Relay": "signal_child",
    "Relayed": "child_signaled",
    "Submitted": "constellation_submitted",
    "Edited": "edited",
    "Planned": "planned",
    "PlanningFailed": "planning_failed",
    "RaiseLimits": "raise_limits",
    "TaskEnded": "attempt_ended",
    "Progressed": "attempt_progressed",
    "DeviceLost": "device_lost",
    "DeviceFound": "device_found",
    "AskPlanner": "ask_planner",
    "Dispatch": "dispatch",
    "LoopSubmitted": "loop_submitted",
    "StepOnce": "step_once",
    "PlanMade": "plan_made",
    "WorkerEnded": "worker_ended",
    "Reflected": "reflected",
    "Synthesized": "synthesized",
    "Critiqued": "critiqued",
    "ModelReplied": "model_replied",
    "ToolReturned": "tool_returned",
    "MakePlan": "make_plan",
    "RunWorker": "run_worker",
    "Reflect": "reflect",
    "Synthesize": "synthesize",
    "Critique": "critique",
    "AskModel": "ask_model",
    "CallTool": "call_tool",
    "Begun": "conversation_started",
    "Said": "message_received",
    "Recalled": "conversation_recalled",
    "Entered": "running_entered",
    "Handled": "handler_ended",
    "Reported": "handler_reported",
    "ChildWanted": "child_requested",
    "Woken": "handler_notified",
    "Handle": "call_handler",
    "Wake": "notify_handler",
}
"""Kind in version 1 -> kind in version 2."""

FIELDS = {
    "ownership_acquired": {"redone": "retried"},
    "answered": {"withdrawn": "cancelled"},
    "cancel_effect": {"target": "effect_id"},
    "child_blocked": {"of": "effect_id", "resting": "blocked"},
    "signal_child": {"target": "effect_id"},
    "constellation_submitted": {"folder": "working_directory", "earlier": "previous_rounds"},
    "edited": {"version": "base_version"},
    "attempt_progressed": {"of": "effect_id"},
    "ask_planner": {"version": "base_version", "told": "feedback"},
    "dispatch": {"number": "attempt", "deadline": "deadline_at", "redone": "recovery", "constellation": "plan"},
    "loop_submitted": {"folder": "working_directory", "critiques": "has_critique"},
    "reflected": {"said": "reply"},
    "critiqued": {"said": "reply"},
    "make_plan": {"told": "feedback"},
    "message_received": {"to": "inquiry_id", "confided": "confidential"},
    "running_entered": {"of": "effect_id", "path": "transitions"},
    "handler_ended": {"path": "transitions", "again": "reenter", "leave": "cancel"},
    "handler_reported": {"of": "effect_id"},
    "child_requested": {"of": "effect_id"},
    "notify_handler": {"of": "effect_id", "key": "child_key"},
    "Message": {"to": "inquiry_id", "confided": "confidential"},
    "View": {
        "asking": "asked_field",
        "hush": "secret_expected",
        "misses": "retries",
        "withheld": "withheld_fields",
        "secret": "secret_fields",
    },
    "definition": {"folder": "working_directory", "critiques": "has_critique"},
}
"""Kind in version 2, or the name of a struct that is a field of one -> field in version 1 -> field in version 2, where it differs."""

OUTCOMES = {
    "transition_failed",
    "answered",
    "effect_cancelled",
    "child_ended",
    "child_signaled",
    "planned",
    "planning_failed",
    "attempt_ended",
    "plan_made",
    "worker_ended",
    "reflected",
    "synthesized",
    "critiqued",
    "model_replied",
    "tool_returned",
    "handler_ended",
    "handler_notified",
}
"""The kinds that have the id of an effect: ``effect`` in version 1, ``effect_id`` in version 2."""


def version_2(record: Record) -> Record:
    """A record of version 1 as one of version 2; notes are what was said, and stay."""
    body = msgspec.json.decode(record.body)
    body["event"] = _kind(body["event"])
    if "effects" in body:
        body["effects"] = [_kind(effect) for effect in body["effects"]]
    return msgspec.structs.replace(record, kind=TAGS[record.kind], body=msgspec.json.encode(body).decode(), version=2)


def _kind(data: dict[str, Any]) -> dict[str, Any]:
    """An event or effect, and what is within it."""
    tag = TAGS[data["type"]]
    names = {**FIELDS.get(tag, {}), **({"effect": "effect_id"} if tag in OUTCOMES else {})}
    found = {names.get(name, name): WITHIN.get((tag, name), _same)(value) for name, value in data.items()}
    if tag == "loop_submitted":
        found.pop("fingerprint", None)
    if tag == "start_child":
        found["start"] = {**found["start"], "definition": _definition(found["start"]["definition"])}
    return {**found, "type": tag}


def _struct(name: str) -> Callable[[Any], Any]:
    names = FIELDS[name]
    return lambda data: {names.get(key, key): value for key, value in data.items()} if data else data


def _same(value: Any) -> Any:
    return value


def _definition(data: dict[str, Any]) -> dict[str, Any]:
    """What a run that another one starts is defined by: of a constellation, a loop or a conversation, whose fields differ."""
    return {FIELDS["definition"].get(name, name): value for name, value in data.items() if name != "fingerprint"}


def _child(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "definition": _definition(data["definition"])}


def _profiles(them: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**it, "child": _child(it["child"])} if it.get("child") else it for it in them]


WITHIN: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("conversation_started", "message"): _struct("Message"),
    ("call_handler", "message"): _struct("Message"),
    ("running_entered", "view"): _struct("View"),
    ("handler_ended", "view"): _struct("View"),
    ("child_requested", "start"): _kind,
    ("signal_child", "command"): _kind,
    ("transition_failed", "event"): TAGS.__getitem__,
    ("constellation_submitted", "fleet"): _profiles,
    ("loop_submitted", "workers"): _profiles,
}
"""Kind in version 2 and field in version 1 -> how what is in it is translated."""


def main() -> None:
    """Translate what is of version 1."""
    for name in GOLDEN:
        records = [msgspec.json.decode(line, type=Record) for line in path_of(name).read_bytes().splitlines()]
        if {record.version for record in records} == {1}:
            path_of(name).write_bytes(b"".join(msgspec.json.encode(version_2(record)) + b"\n" for record in records))
            print(f"translated {path_of(name).name}")


if __name__ == "__main__":
    main()
