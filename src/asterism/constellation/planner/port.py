"""Port of planners, with the proposal that they return."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

from asterism.constellation.machine.requests import PlannerRequest
from asterism.constellation.model.documents import PlanDocument
from asterism.engine.control.usage import Usage
from asterism.errors import AsterismError

__all__ = ["PLANNER_TIMEOUT_S", "Planner", "PlannerRequest", "PlanningUnavailable", "Proposal"]


PLANNER_TIMEOUT_S = 600.0
"""Default time limit of one answer of a program's own planner."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A planner's answer: a constellation or edits, its reasoning, and the status it proposes.

    Fields as in ``Planned``.
    """

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

    async def propose(self, question: PlannerRequest) -> Proposal:
        """Answer a question.

        A planner that is passed to ``asterism.open`` is cancelled after ``planner_timeout_s``. It must
        not block the event loop, and it must end when it is cancelled.

        Raises:
            PlanningUnavailable: there is no answer.
        """
        ...


class PlanningUnavailable(AsterismError):
    """No plan is available; the text gives the reason to the user.

    Attributes:
        code: the reason, for programs.
        usage: tokens and requests that the attempts used.
        notes: problems on the way, in words.
    """

    def __init__(self, reason: str, code: str = "planning", usage: Usage = Usage(), notes: tuple[str, ...] = ()) -> None:  # noqa: B008 - frozen
        self.code = code
        self.usage = usage
        self.notes = notes
        super().__init__(reason)
