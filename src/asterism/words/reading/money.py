"""Amounts of money: a number with a currency before or after it."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from asterism.words.reading.chart import Chart
from asterism.words.reading.values import Reading


def numbers_at(chart: Chart, at: int) -> list[Reading]:
    """Return the numbers and amounts of money that begin at a token, the longest first."""
    found = []
    before = chart._plain("currencies", at)  # noqa: SLF001 - the chart's own reader
    for after, currency in before:
        if after < len(chart.tokens):
            found += [
                Reading(kind="money", value=value, start=at, end=end, unit=currency, sure=_is_sure(chart, after, end))
                for end, value in chart.slot("number", after)
            ]
    if before:
        return found
    for end, value in [*chart.slot("number", at), *_with_half(chart, at)]:
        sure = _is_sure(chart, at, end)
        found.append(Reading(kind="number", value=value, start=at, end=end, sure=sure))
        found += _with_currency(chart, Reading(kind="money", value=value, start=at, end=end, sure=sure))
    return sorted(found, key=lambda it: -it.end)


def _with_currency(chart: Chart, number: Reading) -> list[Reading]:
    if number.end >= len(chart.tokens):
        return []
    found = []
    for end, currency in chart._plain("currencies", number.end):  # noqa: SLF001 - as above
        found.append(Reading(kind="money", value=number.value, start=number.start, end=end, unit=currency, sure=number.sure))
        found += _with_cents(chart, found[-1])
    for end, currency in chart._plain("cents", number.end):  # noqa: SLF001 - as above
        found.append(Reading(kind="money", value=number.value / Decimal(100), start=number.start, end=end, unit=currency, sure=number.sure))
    return found


def _with_half(chart: Chart, at: int) -> list[tuple[int, Decimal]]:
    """Return the number of "two and a half"."""
    halves = chart.words.special.get("and_a_half", ())
    found = [(chart.phrase(halves, end), end, value) for end, value in chart.slot("number", at) if end < len(chart.tokens)]
    return [
        _multiplied(chart, after, value + Decimal("0.5"))
        for after, end, value in found
        if after > end and value == int(value) and value >= 0
    ]


def _multiplied(chart: Chart, at: int, value: Decimal) -> tuple[int, Decimal]:
    """Return the number of "two and a half thousand"."""
    for name, factor in (("hundred", 100), ("thousand", 1000), ("million", 1_000_000)):
        end = chart.phrase(chart.words.special.get(name, ()), at) if at < len(chart.tokens) else at
        if end > at:
            return end, value * factor
    return at, value


def _with_cents(chart: Chart, amount: Reading) -> list[Reading]:
    """Return the amount of "34 euros 50", where nothing follows that the second number may count."""
    if amount.end >= len(chart.tokens) or amount.value != int(amount.value) or amount.value < 0:
        return []
    links = chart.words.special.get("before_cents", frozenset())
    ands = frozenset(phrase[:-1] for phrase, key in chart.words.phrases["words"].items() if key == "and")
    start = chart.phrase(links | ands, amount.end)
    found = []
    for end, value in chart.slot("number", start) if start < len(chart.tokens) else ():
        named = [after for after, unit in chart._plain("cents", end) if unit == amount.unit] if end < len(chart.tokens) else []  # noqa: SLF001 - as above
        is_alone = end == len(chart.tokens) or chart.tokens[end].kind == "mark"
        is_plain = start == amount.end or chart.phrase(links, amount.end) == start
        if value == int(value) and ((named and 0 < value < 100) or (is_alone and is_plain and MIN_CENTS <= value < 100)):  # noqa: PLR2004 - cents
            found.append(msgspec.structs.replace(amount, value=amount.value + value / Decimal(100), end=named[0] if named else end))
    return found


MIN_CENTS = 10
"""Fewest cents that are said without a zero."""


def _is_sure(chart: Chart, start: int, end: int) -> bool:
    return not any(it.kind == "number" and chart.is_ambiguous(it.text) for it in chart.tokens[start:end])
