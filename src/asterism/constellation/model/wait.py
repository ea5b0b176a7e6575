"""What a task waits for, in place of work on a device: a time, or an event and how it is matched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from asterism.constellation.model.condition import InputCondition, syntax_error
from asterism.devices.model.references import PARAMS, is_reference
from asterism.engine.kernel.data import check_event_name
from asterism.engine.kernel.times import time_of
from asterism.errors import InvalidInput

EVENT = "event"
"""Name of the data of an event in a match."""
NOT_FOR_A_WAIT = ("device", "skill", "constellation", "env", "folder", "requires_approval", "retry")
"""Fields of a task that say how work is done, of which a wait does none."""


class Wait(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a task waits for: one of a duration, a time and an event."""

    for_s: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=1e9)] | None, msgspec.Meta(description="Seconds from the start of the task.")
    ] = None
    until: Annotated[
        str, msgspec.Meta(description="A time with its offset, such as 2026-12-01T08:00:00+01:00, or a reference ${task_id.field} to one.")
    ] = ""
    event: Annotated[str, msgspec.Meta(description="Name of an event from outside, such as invoice.paid; its data are the result.")] = ""
    match: Annotated[
        str, msgspec.Meta(description="CEL over the data of the event and the task's inputs by name, such as: event.number == number.")
    ] = ""


def check_wait(wait: Wait, task: Mapping[str, Any], where: str) -> None:
    """Check a wait, and that its task does nothing else.

    Raises:
        InvalidInput: names the field.
    """
    if odd := [name for name in NOT_FOR_A_WAIT if task.get(name)]:
        raise InvalidInput(f"{where}.{odd[0]}: not for a task with a wait, which does no work; use two tasks")
    if [wait.for_s is not None, bool(wait.until), bool(wait.event)].count(True) != 1:
        raise InvalidInput(f"{where}.wait: give one of for_s, until and event")
    if wait.event:
        check_event_name(wait.event, f"{where}.wait.event")
    if wait.match and not wait.event:
        raise InvalidInput(f"{where}.wait.match: it is about an event; name it with event")
    if wait.match:
        try:
            InputCondition(wait.match)
        except InvalidInput as error:
            raise InvalidInput(f"{where}.wait.match: {syntax_error(wait.match, over_inputs=True) or error}") from None
    if wait.until and not is_reference(wait.until):
        time_of(wait.until, f"{where}.wait.until")


def values_for(match: str, inputs: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a match uses of the task's inputs and the plan's parameters."""
    names = InputCondition(match).names if match else frozenset[str]()
    used = {name: inputs[name] for name in sorted(names) if name in inputs and name != EVENT}
    return used | ({PARAMS: dict(params)} if PARAMS in names - used.keys() and params else {})


def matches(subject: Mapping[str, Any], data: Any) -> bool:
    """Return True if the data of an event match the subject of a wait (``InquiryRow.event``), as bounded as a condition is."""
    match, values = subject["match"], subject["values"]
    try:
        return not match or InputCondition(match).evaluate({**values, EVENT: data})[0]
    except InvalidInput:  # another version has checked it; nothing fulfils it here
        return False
