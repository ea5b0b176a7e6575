"""The times of a cron expression in a time zone, by ``cronsim``, which is an extra; or one time.

Where clocks go forward, a time that does not exist is replaced by the first one after the gap.
Where they go back, a fixed time comes once.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING

from asterism.engine.ports.schedules import Schedule
from asterism.engine.runtime.clock import zone_of
from asterism.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from cronsim import CronSim

_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = 5
_FORM = f"write five fields, minute hour day month weekday, as in '0 2 * * *', one of {', '.join(_ALIASES)}, or a time: 2026-12-01T08:00"


def check_cron(cron: str, zone: str, at: float) -> None:
    """Check a cron expression, or one time, and a time zone, for a schedule that is added at an epoch second.

    Raises:
        InvalidInput: one of them is invalid, no time ever matches, or the time has passed.
        MissingExtra: ``cronsim`` is not installed.
    """
    if (once := _once(cron, zone)) is not None and once <= at:
        raise InvalidInput(f"the schedule's time, {cron}, has passed")
    if next_after(cron, zone, 0.0) is None:
        raise InvalidInput(f"cron expression {cron!r}: no date ever matches it")


def next_after(cron: str, zone: str, at: float) -> float | None:
    """Return the first due time after an epoch second; None if there is none. Raises as ``check_cron``."""
    if (once := _once(cron, zone)) is not None:
        return once if once > at else None
    found = next(_times(cron, zone, at), None)
    return found.timestamp() if found else None


def last_until(cron: str, zone: str, at: float) -> float | None:
    """Return the last due time at or before an epoch second; None if there is none. Raises as ``check_cron``."""
    if (once := _once(cron, zone)) is not None:
        return once if once <= at else None
    # Whole seconds: backwards, the time itself is left out.
    found = next(_times(cron, zone, math.floor(at) + 1.0, reverse=True), None)
    return found.timestamp() if found else None


def next_times(schedule: Schedule, count: int) -> list[float]:
    """Return the next due times of a schedule, in epoch seconds, as if it were not paused. Raises as ``check_cron``."""
    times: list[float] = []
    at: float | None = schedule.next_at
    while at is not None and len(times) < count:
        times.append(at)
        at = next_after(schedule.cron, schedule.zone, at)
    return times


def in_words(cron: str, zone: str) -> str:
    """Return a cron expression, or one time, in English. Raises as ``check_cron``."""
    if (once := _once(cron, zone)) is not None:
        return f"Once, at {dt.datetime.fromtimestamp(once, tz=zone_of(zone)):%Y-%m-%d %H:%M}"
    return _times(cron, zone, 0.0).explain()


def _once(text: str, zone: str) -> float | None:
    """Return the time of a schedule for one time; None for a cron expression. Without an offset, it is in the zone."""
    try:
        at = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=zone_of(zone))).timestamp()


def _times(cron: str, zone: str, at: float, *, reverse: bool = False) -> CronSim:
    try:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("server", "a schedule") from error
    expression = _ALIASES.get(cron.strip(), cron)
    if len(expression.split()) != _FIELDS:
        raise InvalidInput(f"cron expression {cron!r}: {_FORM}")
    try:
        return CronSim(expression, dt.datetime.fromtimestamp(at, tz=zone_of(zone)), reverse)
    except CronSimError as error:
        raise InvalidInput(f"cron expression {cron!r}: {str(error).lower()}; {_FORM}") from None
