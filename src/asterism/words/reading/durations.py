"""Durations in words, and changes of an earlier value ("an hour later")."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from asterism.words.reading.chart import NESTED, Chart
from asterism.words.reading.patterns import Bindings
from asterism.words.reading.values import Reading

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 7 * 86_400, "fortnight": 14 * 86_400}
MAX_SECONDS = 366 * 86_400


def durations_at(chart: Chart, at: int) -> list[Reading]:
    """Return the durations that begin at a token, the longest first."""
    found: dict[int, Reading] = {}
    for key, end, bound in chart.grammar("duration", at):
        read = _seconds(key, bound)
        if read is not None and abs(read[0]) <= MAX_SECONDS:
            found.setdefault(
                end,
                Reading(
                    kind="duration", value=dt.timedelta(seconds=float(read[0])), start=at, end=end, unit=read[1], sure=_is_exact(key, bound)
                ),
            )
    return sorted(found.values(), key=lambda it: -it.end)


def shifts_at(chart: Chart, at: int) -> list[Reading]:
    """Return the changes of an earlier value that begin at a token."""
    found = []
    for key, end, bound in chart.grammar("shift", at):
        sign = -1 if key in ("earlier", "earlier_guess", "days_earlier", "fewer") else 1
        if "duration" in bound:
            sure = not key.endswith("_guess")  # "push it back a week" means a week earlier to some
            found.append(Reading(kind="shift", value=sign * bound["duration"], start=at, end=end, unit="time", role="step", sure=sure))
        elif key in ("more", "fewer"):
            found.append(Reading(kind="shift", value=sign * bound["n"], start=at, end=end, unit="number", role="step"))
    return sorted(found, key=lambda it: -it.end)


def _is_exact(key: str, bound: Bindings) -> bool:
    """Return False for "a couple of hours", and for "half a day", which may be a day of work."""
    counts = [bound.get(name, 0) for name in ("n", "fraction")]
    return key != "couple" and (bound.get("unit") not in ("day", "week") or all(it == int(it) for it in counts))


FIXED = {"half_hour": 1800, "hour_and_a_half": 5400, "hour_and_a_quarter": 4500, "quarter": 900, "three_quarters": 2700}
"""Seconds of the patterns without a slot."""


def _seconds(key: str, bound: Bindings) -> tuple[Decimal, str] | None:
    """Return the seconds that a pattern means, and the unit that was said."""
    if key in FIXED:
        return Decimal(FIXED[key]), "hour"
    if key == "quarters":
        return bound["n"] * FIXED["quarter"], "hour"
    if key == "hour_minutes":
        hours, minutes = bound.get("hours_minutes") or bound.get("clock") or (bound["n"], bound["minute"])
        return Decimal(hours) * 3600 + Decimal(minutes) * 60, "hour"
    each = SECONDS.get(bound.get("unit", ""))
    return None if each is None else _counted(key, bound, each)


def _counted(key: str, bound: Bindings, each: int) -> tuple[Decimal, str] | None:
    unit = bound["unit"]
    if key == "fraction":
        return Decimal(round((bound.get("number", 0) + bound["fraction"]) * each)), unit
    if key.startswith("and_a_half_"):
        return (Decimal(key[-1]) + Decimal("0.5")) * each, unit
    if key == "mixed":
        other = SECONDS.get(bound["unit2"])
        return (bound["n"] * each + bound["n2"] * other, unit) if other is not None and other < each else None
    if key == "couple":
        return Decimal(2 * each), unit
    more = {"and_a_half": Decimal("0.5"), "hour_quarter": Decimal("0.25")}.get(key, Decimal(0))
    return (bound["n"] + more) * each, unit


def _nested(chart: Chart, at: int) -> list[tuple[int, Any]]:
    return [(it.end, it.value) for it in durations_at(chart, at)]


NESTED["duration"] = _nested
