"""The refusals of the offline planner: each names a clause, a reason and the nearest skills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from asterism.errors import InvalidInput

RefusalCode = Literal[
    "no_match",  # no skill of the fleet matches
    "ambiguous",  # two skills or devices match equally well
    "unknown_words",  # a skill is near, but does not know a word of the clause
    "unknown_device",  # names a device that is not in the fleet
    "wrong_device",  # the skill is on another device than the one named
    "unplaced_value",  # a value fits no parameter
    "missing_parameter",  # nothing fills a required parameter
    "bad_condition",  # a condition is unreadable, or names a field that no upstream task returns
    "bad_structure",  # a connective leaves the order open
    "not_supported",  # a form that this planner does not support (a negation, "before …")
]


class ClauseRefused(Exception):
    """One clause cannot be placed. Internal to the planner: ``PlanRefused`` collects these.

    Attributes:
        code: the reason, for programs.
        why: the reason, in words.
        nearest: up to three ``device.skill``, nearest first.
        needs: the required parameter that is missing, if that is the reason.
        clause: the text of the clause; empty until it is known.
        start, end: its position in the request.
    """

    clause = ""
    start = end = 0

    def __init__(self, code: RefusalCode, why: str, nearest: Sequence[str] = (), *, needs: str = "") -> None:
        self.code = code
        self.why = why
        self.nearest = tuple(nearest)
        self.needs = needs
        super().__init__(why)


class PlanRefused(InvalidInput):
    """A request has clauses that cannot be placed; no part of it is planned.

    Attributes:
        refusals: one for each such clause, in the order of the request.
        advice: a similar request that can be placed; empty for none.
    """

    def __init__(self, refusals: Sequence[ClauseRefused], advice: str = "") -> None:
        self.refusals = tuple(refusals)
        self.advice = advice
        lines = []
        for refusal in self.refusals:
            nearest = f" (nearest: {', '.join(refusal.nearest)})" if refusal.nearest else ""
            lines.append(f"\n  {refusal.clause!r}: {refusal.why}{nearest}")
        clauses = "a part" if len(self.refusals) == 1 else f"{len(self.refusals)} parts"
        if advice:
            lines.append(f"\n  a request that can be planned: {advice}")
        super().__init__(f"{clauses} of the request cannot be placed on this fleet; nothing is planned:{''.join(lines)}")
