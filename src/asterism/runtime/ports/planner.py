"""A planner: what it is asked, and what it answers."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

from asterism.constellation.documents import PlanDocument
from asterism.errors import AsterismError
from asterism.machines.constellation_agent.requests import PlannerQuestion
from asterism.machines.usage import Usage

__all__ = ["Planner", "PlannerQuestion", "PlanningUnavailable", "Proposal"]


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What a planner answers: a constellation, or edits; with its reasoning and the status it proposes. Fields as in ``Planned``."""

    thought: str = ""
    observation: str = ""
    status: Literal["START", "CONTINUE", "FINISH", "FAIL"] = "CONTINUE"
    plan: PlanDocument | None = None
    actions: tuple[dict[str, Any], ...] = ()
    result: dict[str, Any] = msgspec.field(default_factory=dict)
    usage: Usage = Usage()
    prompt: str = ""
    reply: str = ""
    notes: tuple[str, ...] = ()


class Planner(Protocol):
    """Plans and replans."""

    async def propose(self, question: PlannerQuestion) -> Proposal:
        """Answer a question; bounded by itself.

        Raises:
            PlanningUnavailable: no answer can be had.
        """
        ...


class PlanningUnavailable(AsterismError):
    """No plan can be had; the text says why, and for whom it is.

    ``code``: the same for programs; ``usage``: what trying has used; ``notes``: what went wrong on the way, in words.
    """

    def __init__(self, reason: str, code: str = "planning", usage: Usage = Usage(), notes: tuple[str, ...] = ()) -> None:  # noqa: B008 - frozen
        self.code = code
        self.usage = usage
        self.notes = notes
        super().__init__(reason)
