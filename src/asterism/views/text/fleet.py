"""The devices of a fleet, as ``asterism fleet`` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from asterism.views.text.styled_line import StyledLine, cell_width
from asterism.views.words import plain

Health = Literal["ok", "draining", "lost", "quarantined", "unknown"]
_STYLES = {"ok": "green", "draining": "yellow", "lost": "red", "quarantined": "yellow", "unknown": "dim"}
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_MAX_NAME = 20


class DeviceState(msgspec.Struct, frozen=True, kw_only=True):
    """A device, and what is known about it at one time.

    Attributes:
        health: ``draining`` if it gets no new tasks, ``unknown`` if nobody has connected to it.
        reason: why it is draining, lost or quarantined, in words.
        since: seconds since the epoch at which a run lost it; None if it is not lost in a run.
        last_seen: time of the last sign of it; None if there is none.
        running, queued: attempts of the runs that a process drives now.
        limit: attempts that it performs at once; None for a device whose tasks are child runs.
        skills: their names; None if they are not known.
    """

    device: str
    kind: str
    health: Health
    reason: str = ""
    since: float | None = None
    last_seen: float | None = None
    running: int = 0
    queued: int = 0
    limit: int | None = None
    skills: tuple[str, ...] | None = ()


def fleet_lines(states: Sequence[DeviceState], now: float) -> list[StyledLine]:
    """Return a line for each device below a header, and a line with the reason below each that is not well.

    A terminal cuts the first lines at its edge: the names of the skills, which are last, may be many.
    """
    rows = [("DEVICE", "KIND", "HEALTH", "LOAD", "SEEN", "SKILLS"), *(_cells(state, now) for state in states)]
    widths = [max(cell_width(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = []
    for row, state in zip(rows, (None, *states), strict=True):
        line = StyledLine(style="" if state else "dim", fixed=True)
        for column, (cell, width) in enumerate(zip(row, widths, strict=False)):
            style = ("bold", "", _STYLES[state.health], "", "dim")[column] if state else ""
            line.append(cell, style).append(" " * (width - cell_width(cell) + 2))
        lines.append(line.append(row[-1], "cyan" if state else "").rstrip())
        if state and state.reason:
            since = f" (for {_length(now - state.since)})" if state.since is not None else ""
            lines.append(StyledLine(f"  {plain(state.reason, 400)}{since}", "dim"))
    return lines


def _cells(state: DeviceState, now: float) -> tuple[str, str, str, str, str, str]:
    limit = f" of {state.limit}" if state.limit is not None else ""
    queued = f" +{state.queued}" if state.queued else ""
    seen = "" if state.last_seen is None else "now" if now - state.last_seen < 1 else f"{_length(now - state.last_seen)} ago"
    skills = "?" if state.skills is None else ", ".join(plain(name, 60) for name in state.skills)
    return plain(state.device, _MAX_NAME), state.kind, state.health, f"{state.running}{limit}{queued}", seen, skills


def _length(seconds: float) -> str:
    """Return a length of time in its largest unit: ``3 h``."""
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1.0, "s"))
    return f"{max(0, int(seconds // size))} {unit}"
