"""What happens to devices and to attempts on them, in words, for the log of a constellation."""

from __future__ import annotations

from asterism.constellation.machine.events import (
    AttemptAttached,
    AttemptBegun,
    AttemptQueued,
    AttemptStopped,
    DeviceFound,
    DeviceLost,
    Dispatch,
)
from asterism.engine.kernel.machine import Effect
from asterism.views.delta import Weight
from asterism.views.words import count, plain


def device_words(event: DeviceLost | DeviceFound) -> str:
    """Return what has become of a device, in words."""
    if isinstance(event, DeviceLost):
        state = "removed" if event.removed else "lost"
        return f"device {plain(event.device)} {state}: {plain(event.reason)}"
    if event.profile is None:
        return f"device {plain(event.device)} available again"
    return f"device {plain(event.device)} available, with {count(len(event.profile.skills), 'skill')}"


def sign_words(event: AttemptBegun | AttemptQueued | AttemptAttached | AttemptStopped, effect: Effect | None) -> tuple[str, Weight]:
    """Return what an attempt has come to, in words, and the weight of its log line; ``effect`` is the attempt."""
    device = plain(effect.device_id) if isinstance(effect, Dispatch) else ""
    match event:
        case AttemptBegun():
            return f"started on {device}", "event"
        case AttemptQueued(reason=reason):
            return f"queued: {plain(reason) if reason else f'{device} performs other attempts'}", "event"
        case AttemptAttached(handle=handle):
            return f"known on {device} as {plain(handle)}", "detail"
        case AttemptStopped(error=error):
            return (plain(error), "event") if error else ("stopped on its device", "detail")


def dispatch_words(effect: Dispatch, task_name: str) -> str:
    """Return the start of an attempt, or of a leg of it, in words."""
    if effect.leg > 1:
        return f"continued on {plain(effect.device_id)} {'with' if effect.reply else 'without'} the answer"
    skill = f" {plain(effect.skill)}" if effect.skill and task_name != effect.skill else ""
    again = f", attempt {effect.number}" if effect.number > 1 else ""
    return f"{'queued' if effect.queued else 'started'}{skill} on {plain(effect.device_id)}{again}"
