"""What the offline planner says when it cannot place something: by clause, with the reason and what comes nearest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from asterism.errors import InvalidInput

RefusalCode = Literal[
    "no_match",  # no skill of the fleet does this
    "ambiguous",  # two skills or two devices do, equally well
    "unknown_words",  # a skill comes near, but the clause speaks of something it does not
    "unknown_device",  # names a device that the fleet has not
    "wrong_device",  # the skill is on another device than the one named
    "unplaced_value",  # a value that fits no parameter
    "missing_parameter",  # a required parameter that nothing fills
    "bad_condition",  # a condition that cannot be read, or over a field nobody upstream returns
    "bad_structure",  # a connective that leaves open what waits for what
    "not_supported",  # said in a way that this planner does not do (a negation, "before …")
]


class ClauseRefused(Exception):
    """One clause cannot be placed. Never leaves the planner but as a part of ``PlanRefused``.

    Attributes:
        code: why, for machines.
        why: why, in words.
        nearest: up to three ``device.skill``, nearest first.
        clause: its words, as written; empty until it is known which one it is.
    """

    clause = ""

    def __init__(self, code: RefusalCode, why: str, nearest: Sequence[str] = ()) -> None:
        self.code = code
        self.why = why
        self.nearest = tuple(nearest)
        super().__init__(why)


class PlanRefused(InvalidInput):
    """A request has clauses that cannot be placed; nothing of it is planned.

    Attributes:
        refusals: one per clause that could not be placed, in the order of the request.
    """

    def __init__(self, refusals: Sequence[ClauseRefused]) -> None:
        self.refusals = tuple(refusals)
        lines = []
        for refusal in self.refusals:
            nearest = f" (nearest: {', '.join(refusal.nearest)})" if refusal.nearest else ""
            lines.append(f"\n  {refusal.clause!r}: {refusal.why}{nearest}")
        clauses = "a part" if len(lines) == 1 else f"{len(lines)} parts"
        super().__init__(f"the offline planner cannot place {clauses} of the request, and planned nothing:{''.join(lines)}")
