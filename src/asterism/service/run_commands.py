"""The commands to a run, by their names in the API."""

from __future__ import annotations

from collections.abc import Mapping

from asterism.constellation.machine.events import RaiseLimits, Retry
from asterism.engine.control.run_control import Cancel, GuardLifted, Pause, Unpause
from asterism.engine.kernel.machine import Event

EVENTS: Mapping[str, type[Event]] = {
    "cancel": Cancel,
    "pause": Pause,
    "unpause": Unpause,
    "raise_limits": RaiseLimits,
    "lift_guard": GuardLifted,
    "retry_failed": Retry,
}
"""The events that they put into the inbox of the run, which have the fields of their JSON."""
COMMANDS: Mapping[type[Event], str] = {event: name for name, event in EVENTS.items()}
"""Their names."""
