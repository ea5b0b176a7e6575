"""A planner: what it is asked, and what it answers."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

from asterism.constellation.documents import PlanDocument
from asterism.constellation.profile import AgentProfile
from asterism.errors import AsterismError
from asterism.machines.usage import Usage


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


class PlannerQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a planner is asked.

    Attributes:
        key: id of the question, its idempotency key.
        mode: CREATION or EDITING.
        request: the user's words.
        fleet: profiles by device id.
        constellation: the current one as ``to_dict`` gives it; None in CREATION.
        batch: ids of the tasks that ended and are asked about.
        told: why the last answer could not be taken; empty on a first question.
        reason: why a new constellation is to be made, after a restart.
        rejections: why people said no to earlier answers, oldest first.
        earlier: rounds of the session, then archived generations of this run, oldest first, bounded (``earlier_of``).
        budget_left: what answering may still use (``tokens`` and ``cost_usd``); None for no limit.
        number: which question of the run this is, from 1.
    """

    key: str
    mode: Literal["CREATION", "EDITING"]
    request: str
    fleet: dict[str, AgentProfile]
    constellation: dict[str, Any] | None = None
    batch: tuple[str, ...] = ()
    told: str = ""
    reason: str = ""
    rejections: tuple[str, ...] = ()
    earlier: tuple[dict[str, Any], ...] = ()
    budget_left: Usage | None = None
    number: int = 1


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
