"""The planning state of a constellation agent: idle, or one open decision.

    NotPlanning ──► AwaitingPlanner ──► AwaitingApproval    a person must approve the proposal
      ▲                 │  ▲  │                 │
      │                 ▼  │  ▼                 │
      │               Deferred                  │           until cancellations of a restart end,
      │                 │                       │           or the limit is raised
      └─────────────────┴───────────────────────┘           decided

The planner or a person makes the decision. Only one is open at a time. Tasks stay on hold until it
is made, and a cancel, an expiry, a fork or a crash finds one decision to handle.
"""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.constellation.edits import Refusal
from asterism.machines.constellation_agent.events import Planned


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a planner request.

    Attributes:
        batch: ids of the ended tasks to consider.
        reasks: number of rejected answers about this batch.
        feedback: reason why the last answer was rejected, in words.
        refusal: the same for programs.
        reason: reason for the restart, if one asks for a new constellation.
        rejections: reasons why people rejected earlier answers, oldest first.
    """

    batch: tuple[str, ...] = ()
    reasks: int = 0
    feedback: str = ""
    refusal: Refusal | None = None
    reason: str = ""
    rejections: tuple[str, ...] = ()


class NotPlanning(msgspec.Struct, frozen=True, tag=True):
    """No decision is open."""


class Deferred(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The planner is to be asked, but cannot be asked yet.

    Attributes:
        counted: True if the request was asked and counted before and ran out of budget; it is asked
            again once the limit is raised.
    """

    request: PlanRequest
    counted: bool = False


class Awaiting(msgspec.Struct, kw_only=True):
    """A question is open.

    Attributes:
        effect_id: id of the question.
        asked_at: seq of the entry that asked the planner; 0 if the plan came with the request.
        moved: ids of tasks that have started or ended since.
        ended_since: True if one of them has ended.
    """

    request: PlanRequest
    effect_id: str
    asked_at: int = 0
    moved: dict[str, None] = msgspec.field(default_factory=dict)
    ended_since: bool = False


class AwaitingPlanner(Awaiting, kw_only=True, tag=True):
    """The planner is asked."""


class AwaitingApproval(Awaiting, kw_only=True, tag=True):
    """A person is asked to approve a proposal of the planner, or a plan that came with the request.

    Attributes:
        proposed: the proposal.
        subject: the proposal as shown to the person.
        expires_at: expiry of the question, in seconds since the epoch; 0 for never.
    """

    proposed: Planned
    subject: dict[str, Any]
    expires_at: float = 0.0


PlanningState = NotPlanning | Deferred | AwaitingPlanner | AwaitingApproval
