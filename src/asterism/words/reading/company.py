"""Groups of people who are counted in words: "me and my wife", "4 adults and 2 kids"."""

from __future__ import annotations

from decimal import Decimal

from asterism.words.reading.chart import Chart
from asterism.words.reading.values import Reading

FIXED = {"one_more": 2, "two_more": 3}
"""Number of people of the patterns without a slot."""
UNIT = "people"


def company_at(chart: Chart, at: int) -> list[Reading]:
    """Return the numbers of people that begin at a token; each is a guess, and counts only where a number was asked for."""
    found = []
    for key, end, bound in chart.grammar("company", at):
        value = FIXED.get(key) or bound["n"] + (bound["n2"] if key == "sum" else 1)
        if value == int(value):
            found.append(Reading(kind="number", value=Decimal(value), start=at, end=end, unit=UNIT, role="asked", sure=False))
    return found
