"""What a task waits for, in place of work on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from asterism.devices.model.references import is_reference
from asterism.engine.kernel.times import time_of
from asterism.errors import InvalidInput

NOT_FOR_A_WAIT = ("device", "skill", "constellation", "env", "folder", "requires_approval", "retry")
"""Fields of a task that say how work is done, of which a wait does none."""


class Wait(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a task waits for: one of a duration and a time."""

    for_s: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=1e9)] | None, msgspec.Meta(description="Seconds from the start of the task.")
    ] = None
    until: Annotated[
        str, msgspec.Meta(description="A time with its offset, such as 2026-12-01T08:00:00+01:00, or a reference ${task_id.field} to one.")
    ] = ""


def check_wait(wait: Wait, task: Mapping[str, Any], where: str) -> None:
    """Check a wait, and that its task does nothing else.

    Raises:
        InvalidInput: names the field.
    """
    if odd := [name for name in NOT_FOR_A_WAIT if task.get(name)]:
        raise InvalidInput(f"{where}.{odd[0]}: not for a task with a wait, which does no work; use two tasks")
    if (wait.for_s is None) == (not wait.until):
        raise InvalidInput(f"{where}.wait: give one of for_s and until")
    if wait.until and not is_reference(wait.until):
        time_of(wait.until, f"{where}.wait.until")
